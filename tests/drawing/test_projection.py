from matplotlib.figure import Figure

from vitscope.drawing.figures import projected


def test_new_axes_take_the_place_of_flat_ones() -> None:
    drawing = Figure()
    first, second = drawing.subplots(1, 2)
    ax = projected(second, "polar")
    assert ax.name == "polar"
    assert drawing.axes == [first, ax]
    assert ax.get_subplotspec() == second.get_subplotspec()
    assert projected(ax, "polar") is ax


def test_axes_at_a_place_of_their_own_keep_it() -> None:
    drawing = Figure()
    ax = projected(drawing.add_axes((0.1, 0.2, 0.3, 0.4)), "3d")
    assert ax.name == "3d"
    assert ax.get_position().bounds[:2] == (0.1, 0.2)
