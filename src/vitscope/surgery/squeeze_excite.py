"""Squeeze-and-excitation on the branches of any model, to compare with Context Broadcasting.

    SE(x_i) = x_i * sigmoid(W2 relu(W1 m + b1) + b2)    m = 1/N sum_j x_j, over all N tokens of the image

W1 is (d/ratio, d), W2 is (d, d/ratio). b2 starts at 4, so that every gate starts near sigmoid(4) = 0.98 and the model
near what it was; the other weights start as in a ViT (normal, 0.02; biases 0).
"""

import torch
from torch import Tensor, nn

from vitscope.anatomy import dissect
from vitscope.core.arguments import Count
from vitscope.surgery.tools.choose import Example, Layers, Where, branch_places, no_units
from vitscope.surgery.tools.graft import graft_at
from vitscope.surgery.tools.image_tokens import ImageTokens
from vitscope.surgery.tools.map_source import MapNotes
from vitscope.surgery.tools.record import Done, operation

OPEN = 4.0


class SqueezeExcitation(nn.Module):
    """Scale the channels of an image by what its mean token says, on a tensor of any layout."""

    def __init__(self, tokens: ImageTokens, channels: int, hidden: int) -> None:
        super().__init__()
        self.tokens = tokens
        self.squeeze = nn.Linear(channels, hidden)
        self.excite = nn.Linear(hidden, channels)
        for linear in (self.squeeze, self.excite):
            nn.init.trunc_normal_(linear.weight, std=0.02)
        nn.init.zeros_(self.squeeze.bias)
        nn.init.constant_(self.excite.bias, OPEN)

    def forward(self, x: Tensor) -> Tensor:
        """Squeeze to one token, excite the channels."""
        mean = self.tokens.mean(x).movedim(self.tokens.channel_axis, -1)
        gate = torch.sigmoid(self.excite(torch.relu(self.squeeze(mean))))
        return x * gate.movedim(-1, self.tokens.channel_axis)


@operation
def squeeze_excite(
    model: nn.Module,
    where: Where = "mlp",
    ratio: Count = 4,
    layers: Layers = "all",
    *,
    example: Example = None,
) -> Done:
    """Put squeeze-and-excitation at the end of a model's branches.

    Args:
        model: Is changed in place.
        where: In the MLPs, the MSAs, or both.
        ratio: How much narrower the hidden layer is. The comparison with Context Broadcasting does not say which it
            took; 4 is that of MobileNetV3, 16 that of SENet.
        layers: "all", "upper" (the later half), "lower", or a list of unit names, patterns and positions.
        example: As for `vs.anatomy`.
    """
    body = dissect(model, example)
    notes = MapNotes(body)
    places = branch_places(body, where, "end", layers, notes=notes)
    grafts = []
    for place in places:
        channels = place.port.channels
        step = SqueezeExcitation(place.tokens, channels, max(1, channels // ratio))
        grafts.append(graft_at(model, place.port, step, "squeeze_excite"))
    grafts += notes.graft(model)
    names = [place.unit.name for place in places]
    options = {"where": where, "ratio": ratio, "layers": names}
    return Done(options, names, grafts, why_none=no_units(where, layers))
