"""Drawing signals and events: lines, steps, spans and marks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hydrophone.errors import DataError, ParameterError
from hydrophone.plan.node import Node
from hydrophone.plan.types import DataType, StreamType, UniformType
from hydrophone.plot.axes import View, finish_time, view_of
from hydrophone.plot.envelope import Trace, columns_of, hole_spans, thin_instants, thin_spans, thin_trace
from hydrophone.plot.selection import (
    EventTimes,
    Query,
    Samples,
    Selection,
    events_by_key,
    key_name,
)
from hydrophone.plot.words import in_words, value_columns

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours, which people with any kind of colour vision can tell apart; their yellow is too light for lines.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_ROWS = 40
"""Keys that fit above each other."""
_MAX_MARKERS = 80
"""Up to this many samples, each is drawn as a dot."""


def title(axes: Axes, kind: DataType, node: Node, chosen: Selection, given: str | None = None) -> None:
    """Set the title, unless these axes have one."""
    if given is not None:
        axes.set_title(given, loc="left", fontsize="medium")
    if axes.get_title(loc="left"):
        return
    keys, what = chosen.keys, in_words(kind, node)
    if keys is not None and len(keys) == 1 and kind.key.names:
        what = f"{' '.join(kind.key.names)} {key_name(keys[0])}: {what}"
    axes.set_title(what[0].upper() + what[1:], loc="left", fontsize="medium")


def legend(axes: Axes) -> None:
    """Put the legend beside the plot."""
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)


# --- signals ----------------------------------------------------------------------------------------------------------


def draw_signal(axes: Axes, chosen: Selection, signals: dict[tuple[Any, ...], Samples]) -> View:
    """A line per key and channel."""
    kind = chosen.kind
    assert isinstance(kind, UniformType)
    lines = [(key, c, s) for key, s in signals.items() for c in range(len(s.traces))]
    filled = [s.traces[c].time for _, c, s in lines if len(s.traces[c].time)]
    if not filled:
        raise DataError("plot: no sample is a finite number")
    view = view_of(axes, kind, chosen, min(int(t[0]) for t in filled), max(int(t[-1]) for t in filled))
    if len(lines) > len(COLOURS):
        raise ParameterError(
            f"plot: {len(lines)} lines are too many for one picture", hint="choose a key, or a channel(...)"
        )
    used = len([h for h in axes.get_lines() if h.get_gid() == "hydrophone"])
    bars = 0
    for number, (key, channel, signal) in enumerate(lines):
        colour = COLOURS[(used + number) % len(COLOURS)]
        label = " ".join(filter(None, [key_name(key), f"channel {channel}" if kind.channels else ""])) or "signal"
        _draw_line(axes, view, signal.traces[channel], colour, label)
        if _draw_holes(axes, view, signal, channel, colour, bars):
            bars += 1
    _finish_signal(axes, view, kind, signals, len(lines) + used, bars)
    return view


def _draw_line(axes: Axes, view: View, trace: Trace, colour: str, label: str) -> None:
    line = thin_trace(trace, view.low, view.high, view.columns)
    x = view(line.time)
    few = len(trace.time) <= _MAX_MARKERS
    axes.plot(x, line.value, color=colour, lw=1.2, label=label, marker="o" if few else "", ms=3, gid="hydrophone")
    if len(line.dots) and not few:
        dots = line.dots
        axes.plot(x[dots], line.value[dots], ".", color=colour, ms=4)


def _draw_holes(axes: Axes, view: View, signal: Samples, channel: int, colour: str, lane: int) -> bool:
    """A bar at the bottom wherever samples are missing, even for less than a pixel."""
    # At least about three pixels: thinner bars are not visible.
    found = hole_spans(signal.traces[channel], signal.period, view.low, view.high, view.columns // 5)
    if not len(found):
        return False
    left, right = view(found[:, 0]), view(found[:, 1])
    bars = np.stack([left, right - left], axis=1).tolist()
    axes.broken_barh(
        bars, (0.008 + 0.022 * lane, 0.016), transform=axes.get_xaxis_transform(), color=colour, alpha=0.8, lw=0,
        label="_holes", clip_on=True,
    )  # fmt: skip
    return True


def _finish_signal(
    axes: Axes, view: View, kind: UniformType, signals: dict[tuple[Any, ...], Samples], lines: int, bars: int
) -> None:
    finish_time(axes, view)
    axes.set_ylabel("magnitude" if kind.dtype.kind == "c" else "value")
    axes.grid(alpha=0.25, lw=0.6)
    odd = sum(s.odd for s in signals.values())
    notes = [*(["bars below: no samples"] if bars else []), *([f"{odd:,} samples are not finite"] if odd else [])]
    if notes:
        axes.set_title("; ".join(notes), loc="right", fontsize="small", color="0.35")
        low, high = axes.get_ylim()
        axes.set_ylim(low - 0.03 * bars * (high - low), high)
    if lines > 1:
        legend(axes)


# --- events -----------------------------------------------------------------------------------------------------------


def draw_events(axes: Axes, chosen: Selection, kind: StreamType, query: Query) -> None:
    """Lifetimes as spans and points as marks, a row per key; a signal and aggregates of windows at their values."""
    found = events_by_key(query, kind, chosen)
    columns = value_columns(kind, query.node)
    keys = chosen.order(list(found), len(COLOURS) if columns else _ROWS)
    low = min(int(found[k].start[0]) for k in keys)
    high = max(int(e.start[-1] if e.end is None else e.end.max()) for e in (found[k] for k in keys))
    view = view_of(axes, kind, chosen, low, high)
    if columns:
        if len(keys) * len(columns) > len(COLOURS):
            raise ParameterError(
                f"plot: {len(keys) * len(columns)} lines are too many for one picture",
                hint=f"choose a key, or columns: select({columns[0]!r})",
            )
        for number, (key, column) in enumerate((k, c) for k in keys for c in columns):
            label = " ".join(filter(None, [key_name(key), column if len(columns) > 1 else ""])) or column
            _draw_values(axes, view, found[key], column, COLOURS[number % len(COLOURS)], label)
        axes.set_ylabel(columns[0] if len(columns) == 1 else "value")
        if len(keys) * len(columns) > 1:
            legend(axes)
    else:
        for number, key in enumerate(keys):
            _draw_row(axes, view, found[key], number, COLOURS[number % len(COLOURS)])
        axes.set_yticks(range(len(keys)), [key_name(k) or "events" for k in keys])
        axes.set_ylim(len(keys) - 0.4, -0.6)
        axes.set_ylabel(", ".join(kind.key.names))
    axes.grid(alpha=0.25, lw=0.6, axis="both" if columns else "x")
    finish_time(axes, view)


def _draw_values(axes: Axes, view: View, events: EventTimes, column: str, colour: str, label: str) -> None:
    """Values of events: a level for each lifetime, steps where these follow each other, a dot for each point."""
    values = events.columns[column].cast(pa.float64()).to_numpy()
    trace = Trace.of(events.start, values, np.ones(len(values), bool))
    if len(trace.time) > view.columns:
        # Too many to distinguish: each column of pixels shows its smallest and largest.
        start = np.flatnonzero(np.diff(columns_of(trace.time, view.low, view.high, view.columns), prepend=-1))
        least, largest = np.minimum.reduceat(trace.value, start), np.maximum.reduceat(trace.value, start)
        x = view(trace.time[start])
        axes.vlines(x, least, largest, color=colour, lw=1.2)
        axes.plot(np.repeat(x, 2), np.stack([least, largest], axis=1).ravel(), ".", ms=3, color=colour, label=label)
    elif events.end is None:
        axes.plot(view(trace.time), trace.value, ".", ms=5, color=colour, label=label)
    elif len(events.start) > 1 and (events.end[:-1] > events.start[1:]).any():  # they overlap: each is known at its end
        axes.plot(view(events.end), values, color=colour, lw=1.2, label=label)
    else:
        apart = np.flatnonzero(events.end[:-1] < events.start[1:]) + 1
        x = np.stack([view(events.start), view(events.end)], axis=1)
        y = np.repeat(values[:, None], 2, axis=1)
        x, y = (np.insert(v, apart, np.nan, axis=0).ravel() for v in (x, y))
        axes.plot(x, y, color=colour, lw=1.6, label=label, solid_joinstyle="miter")


def _draw_row(axes: Axes, view: View, events: EventTimes, row: int, colour: str) -> None:
    if events.end is None:
        x = view(thin_instants(events.start, view.low, view.high, view.columns))
        axes.vlines(x, row - 0.3, row + 0.3, color=colour, lw=1.2)
        return
    axes.broken_barh(_bars(view, events), (row - 0.3, 0.6), facecolor=colour, alpha=0.6, edgecolor=colour, lw=0.8)


def _bars(view: View, events: EventTimes) -> Any:
    """Left ends and widths of lifetimes, as far as they are shown."""
    assert events.end is not None
    start, end = np.maximum(events.start, view.low), np.minimum(events.end, view.high)
    found = view(thin_spans(start, end, view.low, view.high, view.columns))
    return np.stack([found[:, 0], found[:, 1] - found[:, 0]], axis=1).tolist()


def draw_over(axes: Axes, view: View, found: dict[tuple[Any, ...], EventTimes]) -> None:
    """Events on a picture of a signal: bands over their lifetimes, dashed lines for points."""
    colour = COLOURS[1] if len(found) else COLOURS[0]
    label = "events"
    for events in found.values():
        if events.end is None:
            x = view(thin_instants(events.start, view.low, view.high, view.columns))
            across = axes.get_xaxis_transform()
            axes.vlines(x, 0, 1, transform=across, color=colour, lw=1, ls=(0, (4, 3)), alpha=0.8, zorder=1.5)
            axes.plot(x, np.full(len(x), 0.985), "v", transform=across, color=colour, ms=5, label=label)
        else:
            bars = _bars(view, events)
            axes.broken_barh(
                bars, (0, 1), transform=axes.get_xaxis_transform(), facecolor=colour, alpha=0.22, lw=0, zorder=0.5, label=label
            )  # fmt: skip
        label = "_more"
