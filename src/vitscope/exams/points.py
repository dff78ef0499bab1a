"""A feature map as points, in whichever order memory has them: copying a map costs more than measuring it."""

from torch import Tensor


def centred_points(feature: Tensor) -> tuple[Tensor, Tensor, bool]:
    """A map (N, C, H, W) less its mean over points, in float32.

    Returns:
        The centred map: (N, points, C) where memory runs over channels first, as in a transformer, else
        (N, C, points); the mean over points, of the same number of axes; and whether it is the first of the two.
    """
    points = feature.flatten(2).float()
    channels_last = feature.shape[1] > 1 and points.stride(1) == 1
    if channels_last:
        points = points.transpose(1, 2)
    mean = points.mean(1 if channels_last else 2, keepdim=True)
    return points - mean, mean, channels_last
