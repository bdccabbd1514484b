"""Figures, files, and the mapping from instants to an axis."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from hydrophone.connect.files import write_then_rename
from hydrophone.errors import ParameterError, UnsupportedError
from hydrophone.model.time import format_instant
from hydrophone.plan.types import DataType
from hydrophone.plot.selection import Selection

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_UNITS = ((86_400_000_000_000, "days"), (1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"), (1, "ns"))
_DAY = 86_400_000_000_000


@dataclass(frozen=True)
class View:
    """The mapping from instants to an axis, ``(t - zero) / unit``, and the visible time range."""

    zero: int
    unit: int
    label: str
    low: int
    high: int
    columns: int
    dates: bool = False

    def __call__(self, time: Any) -> Any:
        """Where instants lie on the axis."""
        return (np.asarray(time) - self.zero) / self.unit


# Pictures that are drawn onto one another share the axis of the first.
_views: WeakKeyDictionary[Axes, View] = WeakKeyDictionary()


def view_of(axes: Axes, kind: DataType, chosen: Selection, low: int, high: int) -> View:
    """The view of ``[low, high]``, or of the user's choice of it."""
    low, high = (low if chosen.low is None else chosen.low), (high if chosen.high is None else chosen.high)
    # Files have more pixels than the screen; two columns per screen pixel are enough.
    columns = max(2 * int(axes.get_window_extent().width), 100)
    if axes in _views:
        before = _views[axes]
        return replace(before, low=min(low, before.low), high=max(high, before.high), columns=columns)
    span = max(high - low, 1)
    if kind.clock != "int" and span >= 2_000_000_000:
        label = "time (UTC)" if kind.clock == "zoned" else "time"
        view = View(0, _DAY, label, low, high, columns, dates=True)
    else:
        unit, name = next((u, n) for u, n in _UNITS if span >= 2 * u or u == 1)
        # Floats cannot hold nanoseconds since 1970.
        if kind.clock != "int":
            view = View(low, unit, f"{name} since {format_instant(low, kind.clock == 'zoned')}", low, high, columns)
        elif max(abs(low), abs(high)) > 1000 * span:
            view = View(low, unit, f"{name} since {low} ns", low, high, columns)
        else:
            view = View(0, unit, f"time ({name})", low, high, columns)
    _views[axes] = view
    return view


def finish_time(axes: Axes, view: View, margin: float = 0.01) -> None:
    """Name the time axis, and show all of it."""
    axes.set_xlabel(view.label)
    if view.dates:
        from matplotlib import dates

        axes.xaxis_date()
        locator = dates.AutoDateLocator(maxticks=9)  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    if view.high > view.low:
        beside = int(margin * (view.high - view.low))
        axes.set_xlim(view(view.low - beside), view(view.high + beside))


def share_time(axes: Axes, first: Axes) -> None:
    """Let axes show time as others do, whatever is drawn on them."""
    if first in _views:
        _views[axes] = _views[first]


@contextmanager
def canvas(ax: Axes | None, path: str | os.PathLike[str] | None) -> Iterator[Axes]:
    """Axes to draw on; the figure is written when all is drawn."""
    if ax is not None:
        yield ax
        if path is not None:
            _save(ax.figure, os.fspath(path))  # type: ignore[arg-type]
        return
    with new_figure(path, 1) as (axes,):
        yield axes


@contextmanager
def new_figure(path: str | os.PathLike[str] | None, rows: int) -> Iterator[list[Axes]]:
    """Axes below each other that share their horizontal axis; the figure is written when all is drawn."""
    try:
        from matplotlib import rcParams  # noqa: F401 (the package itself: a missing part of it is another error)
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        raise UnsupportedError("plot: Matplotlib is not installed", hint="pip install 'hydrophone[plot]'") from None
    options: dict[str, Any] = {"figsize": (10, 4.5 if rows == 1 else 1 + 2.6 * rows), "layout": "constrained"}
    if path is None:
        import matplotlib.pyplot as plt  # only pyplot's figures are shown in a notebook or a window

        figure = plt.figure(**options)
    else:
        figure = Figure(**options)
    made = list(figure.subplots(rows, 1, sharex=True, squeeze=False)[:, 0])
    for axes in made:
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    try:
        yield made
    except BaseException:
        if path is None:
            plt.close(figure)
        raise
    if path is not None:
        _save(figure, os.fspath(path))


def _save(figure: Figure, path: str) -> None:
    from matplotlib import rcParams

    dpi = rcParams["savefig.dpi"]
    format_ = os.path.splitext(path)[1].lstrip(".").lower()
    if format_ not in figure.canvas.get_supported_filetypes():
        choices = ", ".join(sorted(figure.canvas.get_supported_filetypes()))
        raise ParameterError(f"plot: {path!r} ends in no kind of picture; there are: {choices}")
    with write_then_rename(path, what="plot", overwrite=True) as draft:
        figure.savefig(draft, format=format_, dpi=150 if dpi == "figure" else dpi)
