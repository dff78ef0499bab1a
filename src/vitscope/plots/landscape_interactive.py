"""A loss landscape that can be turned by hand: a plotly figure for a page or a notebook.

plotly is imported when a figure is made: it takes longer to load than most results take to draw.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from vitscope.core.arguments import checked
from vitscope.drawing.style import INK, MODELS
from vitscope.findings.landscape import LandscapeResult

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

SHOWN = ("nll", "loss", "accuracy")
_COLOURS = "YlGnBu_r"


@checked
def interactive_landscape(
    result: LandscapeResult, quantity: str = "nll", height: tuple[float, float] | None = None
) -> "Figure":
    """The surface of `quantity`, with buttons for NLL, NLL + l2 and accuracy; points show all their numbers.

    Points that are not finite are left out of the surface and counted in a note. `height` is where the axis and the
    colours of the NLL begin and end; default: where the model's own values do.
    """
    from plotly import graph_objects as go

    drawing = go.Figure()
    for name in _shown(result):
        ends = height if name == "nll" else None
        drawing.add_trace(_surface(go, result, name, name == quantity, ends))
        drawing.add_trace(_places(go, result, name, visible=name == quantity))
    drawing.update_layout(
        template="simple_white",
        font={"color": INK, "size": 13},
        margin={"l": 0, "r": 0, "t": 46, "b": 0},
        showlegend=False,
        paper_bgcolor="rgba(0,0,0,0)",
        scene={
            "xaxis": {"title": "first direction"},
            "yaxis": {"title": "second direction"},
            "zaxis": {"title": result.label(quantity), **_ends(quantity, height)},
            "aspectmode": "manual",
            "aspectratio": {"x": 1.0, "y": 1.0, "z": 0.7},
            "camera": {"eye": {"x": 1.3, "y": -1.5, "z": 0.9}},
        },
        updatemenus=[_buttons(result, quantity, height)],
        annotations=_note(result),
    )
    return drawing


def _shown(result: LandscapeResult) -> tuple[str, ...]:
    return SHOWN if result.has_accuracy else SHOWN[:-1]


def _surface(
    go: Any, result: LandscapeResult, quantity: str, visible: bool, ends: tuple[float, float] | None
) -> Any:
    value = result.of(quantity)[0]
    low, high = ends or (None, None)
    accuracy = "<br>accuracy %{customdata[4]:.1%}" if result.has_accuracy else ""
    numbers = np.stack([*result.nll, result.l2, result.accuracy.value], axis=-1)
    return go.Surface(
        x=result.x,
        y=result.y,
        z=_drawable(value),
        customdata=numbers,
        colorscale=_COLOURS,
        cmin=low,
        cmax=high,
        colorbar={"title": result.label(quantity), "thickness": 14, "len": 0.7, "outlinewidth": 0},
        contours={"z": {"show": True, "usecolormap": True, "project": {"z": True}}},
        hovertemplate=f"(%{{x:.3g}}, %{{y:.3g}})<br>{result.label('nll')} "
        "%{customdata[0]:.4g} [%{customdata[1]:.4g}, %{customdata[2]:.4g}]<br>l2 %{customdata[3]:.4g}"
        f"{accuracy}<extra></extra>",
        visible=visible,
        name=result.label(quantity),
    )


def _places(go: Any, result: LandscapeResult, quantity: str, visible: bool) -> Any:
    """The model and the marks, on the surface: between grid points at the height in between."""
    height = _drawable(result.of(quantity)[0])
    places = [(mark.name, mark.x, mark.y) for mark in result.marks] + [(result.model, 0.0, 0.0)]
    names, x, y = zip(*places, strict=True)
    z = [
        float(np.interp(b, result.y, [np.interp(a, result.x, row) for row in height]))
        for a, b in zip(x, y, strict=True)
    ]
    joined = any(mark.epoch is not None for mark in result.marks)
    return go.Scatter3d(
        x=x,
        y=y,
        z=z,
        mode="lines+markers" if joined else "markers",
        text=names,
        marker={"size": 4, "color": MODELS[1]},
        line={"color": MODELS[1], "width": 4},
        hovertemplate="%{text}<extra></extra>",
        visible=visible,
    )


def _ends(quantity: str, height: tuple[float, float] | None) -> dict[str, Any]:
    """Where the vertical axis begins and ends: given for the NLL alone."""
    return {"range": list(height)} if height and quantity == "nll" else {"autorange": True}


def _buttons(result: LandscapeResult, quantity: str, height: tuple[float, float] | None) -> dict[str, Any]:
    shown = _shown(result)
    buttons = [
        {
            "label": result.label(name),
            "method": "update",
            "args": [
                {"visible": [other == name for other in shown for _ in range(2)]},
                {
                    "scene.zaxis.title.text": result.label(name),
                    **{f"scene.zaxis.{key}": value for key, value in _ends(name, height).items()},
                },
            ],
        }
        for name in shown
    ]
    place = {"direction": "right", "x": 0.0, "y": 1.08, "xanchor": "left", "yanchor": "top"}
    return {"type": "buttons", "buttons": buttons, "active": shown.index(quantity), **place}


def _note(result: LandscapeResult) -> list[dict[str, Any]]:
    if not result.not_finite:
        return []
    text = f"{result.not_finite} of {result.nll.value.size} points not finite"
    return [{"text": text, "x": 1.0, "y": 1.06, "xref": "paper", "yref": "paper", "showarrow": False}]


def _drawable(values: np.ndarray) -> np.ndarray:
    """plotly leaves NaN out, but not infinity."""
    return np.where(np.isfinite(values), values, np.nan)
