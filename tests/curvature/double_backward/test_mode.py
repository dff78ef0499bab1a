import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from tests.cases import ATTENTION_DESIGNS, HAND_MADE, Case, timm_case
from tests.curvature.double_backward.check import same_as_torch
from vitscope.anatomy.watch.one_forward import main_output
from vitscope.curvature.double_backward import TwiceDifferentiable, attention

CASES = [
    HAND_MADE,
    timm_case("resnet18", 32),
    timm_case("convnext_atto", 32),
    timm_case("vit_tiny_patch16_224", 32, "vit", img_size=32, patch_size=8, depth=2),
    next(case for case in ATTENTION_DESIGNS if case.name.startswith("hf:swin")),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_model_and_its_products_are_the_same(case: Case) -> None:
    model, images = case.model().double(), case.images(2).double()
    parameters = list(model.parameters())
    products = []
    for mode in (True, False):
        with sdpa_kernel(SDPBackend.MATH):
            if mode:
                with TwiceDifferentiable():
                    scores = main_output(model(images))[0]
            else:
                scores = main_output(model(images))[0]
            loss = F.cross_entropy(scores, torch.tensor([0, 1]))
            gradients = torch.autograd.grad(loss, parameters, create_graph=True, materialize_grads=True)
            generator = torch.Generator().manual_seed(0)
            along = [torch.randn(p.shape, generator=generator, dtype=p.dtype) for p in parameters]
            found = torch.autograd.grad(gradients, parameters, along, materialize_grads=True)
        products.append(torch.cat([g.reshape(-1) for g in (*gradients, *found)]).detach())
    assert float((products[0] - products[1]).abs().max()) <= 1e-9 * float(products[1].abs().max())


@pytest.mark.parametrize("options", [{}, {"scale": 0.3}, {"is_causal": True}, {"enable_gqa": True}])
def test_attention(options: dict[str, object]) -> None:
    query, key, value = torch.randn(3, 2, 2, 5, 4, dtype=torch.float64)
    with sdpa_kernel(SDPBackend.MATH):
        same_as_torch(
            lambda q, k, v: attention(q, k, v, **options),
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v, **options),  # type: ignore[arg-type]
            query,
            key,
            value,
        )


def test_attention_with_a_mask() -> None:
    query, key, value = torch.randn(3, 2, 2, 5, 4, dtype=torch.float64)
    for mask in (torch.randn(5, 5, dtype=torch.float64), torch.rand(5, 5) > 0.3 + torch.eye(5)):
        with sdpa_kernel(SDPBackend.MATH):
            same_as_torch(
                lambda q, k, v, mask=mask: attention(q, k, v, mask),
                lambda q, k, v, mask=mask: F.scaled_dot_product_attention(q, k, v, mask),
                query,
                key,
                value,
            )
