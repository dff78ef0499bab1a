"""What of matplotlib figures are made of. Take it from `mpl`, which imports this when something of it is used."""

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
