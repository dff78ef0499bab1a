"""Torch's operations by what they do, as a watched pass names them."""

from vitscope.anatomy.watch.graph import Graph, Node


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# where two tensors meet, number by number
ADDITIONS = _names("add add_ __add__ __iadd__ __radd__")
MULTIPLICATIONS = _names("mul mul_ __mul__ __rmul__ __imul__ multiply")
DIVISIONS = _names("div div_ __truediv__ __itruediv__ true_divide divide")
PRODUCTS_BY_ELEMENT = MULTIPLICATIONS | _names("div div_ __truediv__ addcmul")

# activations
ACTIVATIONS = _names(
    "relu relu_ relu6 leaky_relu leaky_relu_ prelu rrelu rrelu_ elu elu_ selu selu_ celu celu_ gelu silu mish "
    "hardswish hardtanh hardtanh_ hardsigmoid softplus softsign logsigmoid tanh tanh_ sigmoid sigmoid_ clamp clamp_ "
    "clamp_min clamp_min_ clamp_max clamp_max_ threshold threshold_ hardshrink softshrink tanhshrink "
    "maximum minimum fmax fmin max min where masked_fill masked_fill_"
)
# of these, ones that choose between the sum and something else: an activation if that does not depend on the image
CHOICES = _names("maximum minimum fmax fmin max min where masked_fill masked_fill_")
COMPARISONS = _names("gt ge lt le __gt__ __ge__ __lt__ __le__ greater less")
# inside of an activation that is written out: products of what comes from the sum, shifts and scales by numbers
ARITHMETIC = ADDITIONS | _names(
    "mul mul_ __mul__ __rmul__ __imul__ div div_ __truediv__ exp erf zeros_like ones_like full_like"
)
# what changes every number by itself, or none at all; nothing else in a branch makes it part of a formula
POINTWISE = ACTIVATIONS | ARITHMETIC | COMPARISONS | _names(
    "sub sub_ __sub__ __rsub__ __isub__ rsub neg neg_ __neg__ pow pow_ __pow__ __rpow__ square sqrt sqrt_ rsqrt "
    "abs abs_ sign sin cos log log1p expm1 reciprocal lerp addcmul to type type_as float half double bfloat16 "
    "clone contiguous detach dropout dropout_ dropout1d dropout2d feature_dropout alpha_dropout __itruediv__ "
    "__rtruediv__ true_divide divide multiply subtract exp2 exp_ ones zeros empty_like new_zeros new_ones "
    "bernoulli bernoulli_ nan_to_num"
)  # fmt: skip

# layers, and other work
FUSED = "scaled_dot_product_attention"
MATRIX_PRODUCTS = _names("matmul bmm baddbmm einsum __matmul__ __rmatmul__ mm addmm")
CONVOLUTIONS = _names("conv1d conv2d conv3d conv_transpose2d conv_transpose1d")
RECURRENT = _names("lstm gru rnn_tanh rnn_relu")
HEAVY = MATRIX_PRODUCTS | CONVOLUTIONS | RECURRENT | {"linear", "bilinear", "tensordot", FUSED, "opaque"}
LINEAR_MAPS = (
    CONVOLUTIONS | ADDITIONS | _names("linear batch_norm pad mul mul_ contiguous dropout interpolate")
)
NORMS = _names("batch_norm layer_norm group_norm instance_norm rms_norm local_response_norm")
POOLS = _names(
    "avg_pool2d max_pool2d adaptive_avg_pool2d adaptive_max_pool2d avg_pool1d max_pool1d avg_pool3d "
    "max_pool3d lp_pool2d interpolate mean sum amax cumsum _adaptive_avg_pool2d boolean_dispatch fn"
)
WINDOW_POOLS = _names(
    "avg_pool2d max_pool2d avg_pool1d max_pool1d avg_pool3d max_pool3d lp_pool2d boolean_dispatch fn"
)
UPSAMPLING = _names("interpolate upsample conv_transpose2d pixel_shuffle grid_sample")
TRANSFORMS = _names("fft_fft2 fft_rfft2 fft_irfft2 rfft2 irfft2 fft_fftn roll shift")
REDUCTIONS = _names("mean sum amax amin max min std var logsumexp norm median prod nansum nanmean")
# along one axis: what a point gets there depends on the others
ALONG_AN_AXIS = _names(
    "cumsum cumsum_ cumprod cumprod_ cummax cummin logcumsumexp sort argsort msort topk diff fft_fft fft_ifft fft_rfft "
    "fft_irfft"
)

# changes of shape and order
REARRANGE = _names(
    "view reshape permute transpose flatten unflatten squeeze unsqueeze expand expand_as chunk split unbind "
    "__getitem__ roll flip narrow select movedim moveaxis swapaxes swapdims T mT H mH t stack repeat tile "
    "index_select tensor_split view_as reshape_as broadcast_to unfold split_with_sizes gather take_along_dim "
    "repeat_interleave pixel_shuffle pixel_unshuffle channel_shuffle hsplit vsplit hstack vstack concat "
    "concatenate cat pad fold"
)
RESHAPES = _names("view reshape flatten unflatten view_as reshape_as")
# may leave points out
PICKS = _names("__getitem__ narrow select index_select chunk split tensor_split split_with_sizes")
# may leave elements at other points
MOVES = _names(
    "__getitem__ flip fliplr flipud rot90 index_select gather take_along_dim pad cat concat stack narrow"
)
# zero for zero, so that a branch that ends in them can be silenced before them
KEEP_ZERO = _names(
    "mul __mul__ __rmul__ mul_ div dropout dropout_ view reshape permute transpose flatten unflatten contiguous "
    "__getitem__ narrow roll pad movedim squeeze unsqueeze type_as to float"
)

# attention by hand
SOFTMAX = _names("softmax _softmax")
EXPONENTIALS = _names("exp exp_ exp2")
SPREADS = _names(
    "expand expand_as broadcast_to repeat view reshape unsqueeze squeeze transpose permute flatten unflatten"
)
CHEAP = _names(
    "unsqueeze __getitem__ view reshape unflatten expand transpose permute contiguous dropout to type_as float"
)


def mixes_positions(graph: Graph, node: Node) -> bool:
    """A convolution with a kernel larger than one point, or a product of two activations."""
    if node.name in CONVOLUTIONS:
        return any(k > 1 for k in graph[node.inputs[1]].shape[2:])
    if node.name == FUSED:
        return True
    # of products that add a term to it, the last two are the factors
    factors = node.inputs[-2:] if node.name in ("baddbmm", "addmm") else node.inputs
    return node.name in MATRIX_PRODUCTS and sum(graph[i].dynamic for i in factors) >= 2
