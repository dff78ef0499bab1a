"""What of matplotlib figures are made of, and the numbers of their logarithmic axes.

Take it from `mpl`, which imports this when something of it is used.
"""

from matplotlib import colormaps as colormaps
from matplotlib import rc_context as rc_context
from matplotlib.artist import Artist as Artist
from matplotlib.axes import Axes as Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg as FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG as FigureCanvasSVG
from matplotlib.cm import ScalarMappable as ScalarMappable
from matplotlib.collections import QuadMesh as QuadMesh
from matplotlib.colors import Colormap as Colormap
from matplotlib.colors import LinearSegmentedColormap as LinearSegmentedColormap
from matplotlib.colors import Normalize as Normalize
from matplotlib.colors import to_rgb as to_rgb
from matplotlib.container import ErrorbarContainer as ErrorbarContainer
from matplotlib.figure import Figure as Figure
from matplotlib.patches import Patch as Patch
from matplotlib.patches import Rectangle as Rectangle
from matplotlib.patheffects import AbstractPathEffect as AbstractPathEffect
from matplotlib.patheffects import withStroke as withStroke
from matplotlib.ticker import AutoLocator as AutoLocator
from matplotlib.ticker import FixedLocator as FixedLocator
from matplotlib.ticker import LogFormatter as LogFormatter
from matplotlib.ticker import MaxNLocator as MaxNLocator
from matplotlib.ticker import NullLocator as NullLocator
from matplotlib.ticker import PercentFormatter as PercentFormatter
from matplotlib.ticker import StrMethodFormatter as StrMethodFormatter

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_PLAIN = (1e-4, 1e5)  # an axis between these needs no powers of ten


class OneStyle(LogFormatter):
    """All numbers of an axis as they are, or all as powers of ten; those between decades where there is room."""

    def __init__(self) -> None:
        super().__init__(minor_thresholds=(1.0, 0.4))

    def _num_to_string(self, x: float, vmin: float, vmax: float) -> str:
        if _PLAIN[0] <= vmin and vmax <= _PLAIN[1]:
            return f"{x:.6f}".rstrip("0").rstrip(".") if x < 1e4 else f"{x:.0f}"
        factor, _, power = f"{x:.6e}".partition("e")
        raised = f"10{str(int(power)).translate(_RAISED)}"
        shown = factor.rstrip("0").rstrip(".")
        return raised if shown == "1" else f"{shown}·{raised}"
