"""Plots of queries: signals as lines, spectra as spectrograms, intervals as spans, events as marks."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal

from hydrophone.errors import ParameterError
from hydrophone.model.time import Instant
from hydrophone.plan.types import StreamType, UniformType, WindowedType
from hydrophone.plot.axes import canvas, new_figure, share_time
from hydrophone.plot.draw import COLOURS, draw_events, draw_over, draw_signal, legend
from hydrophone.plot.draw import title as say_title
from hydrophone.plot.selection import Query, Selection, events_by_key, samples_by_key
from hydrophone.plot.spectra import draw_spectra
from hydrophone.plot.words import value_columns

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["overlay", "panels", "plot"]


def plot(
    query: Query,
    *,
    key: Any = None,
    start: Instant | None = None,
    end: Instant | None = None,
    ax: Axes | None = None,
    path: str | os.PathLike[str] | None = None,
    scale: Literal["db", "linear"] | None = None,
    title: str | None = None,
    unit: str | None = None,
) -> Axes:
    """Run a query in this process and draw its answer.

    A `UniformSignal` is a line per key and channel, with gaps where there are no samples and a bar below them. A
    `Windowed` of spectra is a spectrogram, or a line per key where each has one spectrum. Events with lifetimes are spans, points are
    marks; a `Signal` is drawn at its values, and so are the aggregates of windows of time.

    However many samples there are, a column of pixels gets its least and largest: a spike of one sample is never lost.

    Parameters
    ----------
    query : Query
    key : optional
        The key to draw, or a list of keys; a tuple where the key has several columns. Without it all keys are drawn, if they are few.
    start, end : optional
        Draw ``[start, end)`` only.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.
    path : optional
        Also write the figure: ``"x.png"``, or what else Matplotlib writes.
    scale : "db" or "linear", optional
        Of the colours of windows. By default complex spectra and one-sided ones that are never negative, such as
        those of `spectrogram`, are shown in decibels (``10 log10`` of powers, ``20 log10`` of magnitudes), and other arrays as they are.
    title : str, optional
        By default the key, and what is shown.
    unit : str, optional
        Of the values, for the label of their axis or colour bar: ``"m/s"``, ``"V²/Hz"``.

    Returns
    -------
    Axes
        Its figure is ``ax.figure``.

    Examples
    --------
    >>> import hydrophone as hp
    >>> import pyarrow as pa
    >>> rows = pa.table({"t": [0, 10, 20], "v": [1.0, 3.0, 2.0]})
    >>> import tempfile
    >>> file = os.path.join(tempfile.mkdtemp(), "signal.png")
    >>> plot(hp.from_arrow(rows, time="t").signal("v").sample(10), path=file).get_xlabel()
    'time (ns)'
    >>> os.path.getsize(file) > 1000
    True
    """
    kind = query.node.type
    chosen = Selection(kind, key, start, end)
    if scale not in (None, "db", "linear"):
        raise ParameterError(f"plot: scale must be 'db' or 'linear', got {scale!r}")
    if scale is not None and not isinstance(kind, WindowedType):
        raise ParameterError(f"plot: scale is that of the colours of windows, and this is {kind.describe()}")
    if unit is not None and isinstance(kind, StreamType) and not value_columns(kind, query.node):
        raise ParameterError(f"plot: unit is that of values, and events are drawn without: this is {kind.describe()}")
    with canvas(ax, path) as axes:
        if isinstance(kind, UniformType):
            draw_signal(axes, chosen, samples_by_key(query, chosen, len(COLOURS)))
        elif isinstance(kind, WindowedType):
            draw_spectra(axes, chosen, kind, query, scale, unit)
        elif isinstance(kind, StreamType):
            draw_events(axes, chosen, kind, query)
        if unit is not None and not isinstance(kind, WindowedType):
            axes.set_ylabel(f"{axes.get_ylabel()} ({unit})")
        say_title(axes, kind, query.node, chosen, title)
    return axes


def overlay(
    signal: Query,
    events: Query,
    *,
    key: Any = None,
    start: Instant | None = None,
    end: Instant | None = None,
    ax: Axes | None = None,
    path: str | os.PathLike[str] | None = None,
) -> Axes:
    """Draw a signal, and over it events: lifetimes as bands, points as dashed lines.

    The events are those of the same key if they have the signal's key columns, else all of them. The parameters are
    those of `plot`.

    Examples
    --------
    >>> import hydrophone as hp
    >>> import pyarrow as pa
    >>> rows = pa.table({"t": [0, 10, 20], "v": [1.0, 3.0, 2.0]})
    >>> signal = hp.from_arrow(rows, time="t").signal("v").sample(10)
    >>> import tempfile
    >>> axes = overlay(signal, signal.above(1.5), path=os.path.join(tempfile.mkdtemp(), "loud.png"))
    >>> [text.get_text() for text in axes.get_legend().get_texts()][-1]
    'events'
    """
    kind, over = signal.node.type, events.node.type
    if not (isinstance(kind, UniformType) and isinstance(over, StreamType)):
        raise ParameterError(
            f"overlay: draws events over a uniform signal; these are {kind.describe()} and {over.describe()}"
        )
    chosen = Selection(kind, key, start, end)
    with canvas(ax, path) as axes:
        view = draw_signal(axes, chosen, samples_by_key(signal, chosen, len(COLOURS)))
        same = over.key.names == kind.key.names
        found = events_by_key(events, over, Selection(over, key if same else None, start, end))
        draw_over(axes, view, found)
        legend(axes)
        say_title(axes, kind, signal.node, chosen)
    return axes


def panels(
    *queries: Query,
    key: Any = None,
    start: Instant | None = None,
    end: Instant | None = None,
    path: str | os.PathLike[str] | None = None,
) -> list[Axes]:
    """Draw queries below each other over one axis of time; the parameters are those of `plot`.

    A key is meant for the queries that have one. A query with one spectrum per key, such as `welch` of a whole signal, has no axis of
    time and is refused.

    Examples
    --------
    >>> import tempfile
    >>> import hydrophone as hp, numpy as np
    >>> hum = hp.from_numpy(np.sin(np.arange(3000) / 5), rate="1kHz")
    >>> axes = panels(hum, hum.spectrogram(128), path=os.path.join(tempfile.mkdtemp(), "hum.png"))
    >>> [one.get_xlabel() for one in axes]
    ['', 'time (s)']
    """
    if not queries:
        raise ParameterError("panels: needs at least one query", hint="panels(signal, signal.spectrogram(256))")
    with new_figure(path, len(queries)) as made:
        for axes, query in zip(made, queries, strict=True):
            if axes is not made[0]:
                share_time(axes, made[0])
            plot(query, key=key if query.node.type.key.names else None, start=start, end=end, ax=axes)
            if not axes.get_xlabel().startswith("time"):
                raise ParameterError(
                    f"panels: {query.node.type.describe()} with one spectrum per key has an axis of frequencies, and no time",
                    hint="draw it by itself: plot(query)",
                )
        for axes in made[:-1]:
            axes.set_xlabel("")
    return made
