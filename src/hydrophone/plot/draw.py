"""Drawing: lines, spectrograms, spans and marks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hydrophone.errors import DataError, ParameterError
from hydrophone.ops.windows.arrays import Magnitude
from hydrophone.plan.types import DataType, SignalType, StreamType, UniformType, WindowedType
from hydrophone.plot.axes import View, finish_time, view_of
from hydrophone.plot.envelope import Trace, columns_of, hole_spans, thin_instants, thin_spans, thin_trace
from hydrophone.plot.selection import (
    EventTimes,
    Query,
    Samples,
    Selection,
    Spectra,
    events_by_key,
    key_name,
    spectra_by_key,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours, which people with any kind of colour vision can tell apart; their yellow is too light for lines.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_ROWS = 40
"""Keys that fit above each other."""
_MAP = "viridis"
_DECIBELS = 80
"""Range of a spectrogram below its loudest point."""
_DIM = 2
"""Percent of a spectrogram that may lie below its colour scale, so that a few faint lines do not dim the rest."""
_MAX_MARKERS = 80
"""Up to this many samples, each is drawn as a dot."""


def title(axes: Axes, kind: DataType, chosen: Selection, given: str | None = None) -> None:
    """Set the title, unless these axes have one."""
    if given is not None:
        axes.set_title(given, loc="left", fontsize="medium")
    if axes.get_title(loc="left"):
        return
    keys = chosen.keys
    what = kind.describe()
    if keys is not None and len(keys) == 1 and kind.key.names:
        what = f"{', '.join(kind.key.names)} = {key_name(keys[0])}   {what.removesuffix(' by ' + ', '.join(kind.key.names))}"
    axes.set_title(what, loc="left", fontsize="medium")


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
    """Lifetimes as spans and points as marks, a row per key; a signal at its values."""
    found = events_by_key(query, kind, chosen)
    valued = isinstance(kind, SignalType) and kind.dtype.kind != "c"
    keys = chosen.order(list(found), len(COLOURS) if valued else _ROWS)
    low = min(int(found[k].start[0]) for k in keys)
    high = max(int(e.start[-1] if e.end is None else e.end.max()) for e in (found[k] for k in keys))
    view = view_of(axes, kind, chosen, low, high)
    if valued:
        assert isinstance(kind, SignalType)
        for number, (key, column) in enumerate((k, c) for k in keys for c in kind.value):
            label = " ".join(filter(None, [key_name(key), column if kind.channels else ""])) or column
            _draw_values(axes, view, found[key], column, COLOURS[number % len(COLOURS)], label)
        axes.set_ylabel(kind.value[0] if len(kind.value) == 1 else "value")
        if len(keys) * len(kind.value) > 1:
            legend(axes)
    else:
        for number, key in enumerate(keys):
            _draw_row(axes, view, found[key], number, COLOURS[number % len(COLOURS)])
        axes.set_yticks(range(len(keys)), [key_name(k) or "events" for k in keys])
        axes.set_ylim(len(keys) - 0.4, -0.6)
        axes.set_ylabel(", ".join(kind.key.names))
    axes.grid(alpha=0.25, lw=0.6, axis="both" if valued else "x")
    finish_time(axes, view)


def _draw_values(axes: Axes, view: View, events: EventTimes, column: str, colour: str, label: str) -> None:
    """A signal's events: a level for each lifetime, a dot for each point."""
    values = events.columns[column].to_numpy().astype(np.float64)
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
    else:
        keep = np.isfinite(values)
        axes.hlines(values[keep], view(events.start[keep]), view(events.end[keep]), color=colour, lw=2, label=label)


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


# --- spectra ----------------------------------------------------------------------------------------------------------


def draw_spectra(
    axes: Axes, chosen: Selection, kind: WindowedType, query: Query, scale: str | None, unit: str | None
) -> None:
    """A spectrogram: a column per window at the middle of its samples, a row per frequency, colours in decibels."""
    found = spectra_by_key(query, kind, chosen)
    (key,) = chosen.order(list(found), 1)
    windows = found[key]
    step = kind.hop * windows.period
    # Floats cannot hold nanoseconds since 1970: use the middle of every window, relative to an instant nearby.
    zero = int(windows.last[0])
    middle = (windows.last - zero) - (kind.size - 1) * windows.period / 2
    view = view_of(axes, kind, chosen, zero + int(middle[0] - step / 2), zero + int(middle[-1] + step / 2))
    heights, axis = _heights(kind, 1e9 / windows.period)
    levels, colours = _levels(kind, windows, scale, isinstance(query.node, Magnitude))
    levels = np.fft.fftshift(levels, axes=0) if _is_two_sided(kind) else levels
    image, edges = _image(levels, middle, step, view)
    rows = _fewer(len(heights), max(int(axes.get_window_extent().height), 100))
    image = np.fmax.reduceat(image, rows, axis=0)
    borders = _borders(heights)[np.append(rows, len(heights))]
    top = np.nanmax(image)
    low = {"vmin": max(top - _DECIBELS, np.nanpercentile(image, _DIM)), "vmax": top} if "dB" in colours else {}
    axes.set_facecolor("0.85")
    mesh = axes.pcolormesh(
        view(zero) + edges / view.unit, borders, np.ma.masked_invalid(image), cmap=_MAP, rasterized=True, **low
    )
    bar = axes.figure.colorbar(mesh, ax=axes, pad=0.01)
    bar.set_label(_with_unit(colours, unit))
    axes.set_ylabel(axis)
    if np.isnan(image).all(axis=0).any():
        axes.set_title("grey: no windows", loc="right", fontsize="small", color="0.35")
    finish_time(axes, view, margin=0)


def _with_unit(label: str, unit: str | None) -> str:
    """A label with the unit of the values; decibels are relative to the unit."""
    if unit is None:
        return label
    return label.replace("(dB)", f"(dB re 1 {unit})") if "(dB)" in label else f"{label} ({unit})"


def _is_one_sided(kind: WindowedType) -> bool:
    return kind.length == kind.size // 2 + 1


def _is_two_sided(kind: WindowedType) -> bool:
    return kind.dtype.kind == "c" and kind.length == kind.size


def _heights(kind: WindowedType, rate: float) -> tuple[Any, str]:
    """The quantity of the rows, and its label."""
    if _is_one_sided(kind):
        return _frequencies(np.arange(kind.length) * rate / kind.size)
    if _is_two_sided(kind):
        return _frequencies(np.sort(np.fft.fftfreq(kind.size, 1 / rate)))
    return np.arange(kind.length), "element of the array"


def _levels(kind: WindowedType, windows: Spectra, scale: str | None, is_magnitude: bool) -> tuple[Any, str]:
    """The quantity of the colours, and its label.

    Unless `scale` says otherwise: decibels of complex values, and of spectra that are never negative, which are powers unless they are
    known to be magnitudes; else the values themselves.
    """
    values = windows.values.T
    if kind.dtype.kind == "c":
        values, what, factor = np.abs(values), "magnitude", 20
    else:
        values = values.astype(np.float64)
        is_power = scale == "db" or (_is_one_sided(kind) and not (values < 0).any())
        what, factor = ("magnitude", 20) if is_magnitude else ("power" if is_power else "value", 10)
        scale = scale or ("db" if is_power else "linear")
    if scale == "linear":
        return values, what
    if (values < 0).any():
        raise DataError('plot: scale="db" needs values that are never negative', hint='scale="linear"')
    with np.errstate(divide="ignore"):
        levels = factor * np.log10(values)
    # Silence is the lowest colour, not a hole.
    finite = levels[np.isfinite(levels)]
    levels[np.isneginf(levels)] = (finite.max() if len(finite) else 0) - _DECIBELS
    return levels, f"{what} (dB)"


def _frequencies(hertz: Any) -> tuple[Any, str]:
    top = float(np.abs(hertz).max())
    for unit, word in ((1e6, "MHz"), (1e3, "kHz"), (1.0, "Hz"), (1e-3, "mHz")):
        if top >= 2 * unit or word == "mHz":
            break
    return hertz / unit, f"frequency ({word})"


def _image(levels: Any, middle: Any, step: float, view: View) -> tuple[Any, Any]:
    """Windows in columns of equal width: the largest of each column, NaN in empty columns."""
    count = max(round((middle[-1] - middle[0]) / step) + 1, 1)
    columns = min(count, view.columns)
    edges = np.linspace(middle[0] - step / 2, middle[-1] + step / 2, columns + 1)
    at = np.minimum(((middle - edges[0]) / (edges[-1] - edges[0]) * columns).astype(np.int64), columns - 1)
    start = np.flatnonzero(np.diff(at, prepend=-1))
    image = np.full((len(levels), columns), np.nan)
    image[:, at[start]] = np.fmax.reduceat(levels, start, axis=1)
    return image, edges


def _fewer(count: int, most: int) -> Any:
    """Where each of at most so many groups starts."""
    return (
        np.arange(count) if count <= most else np.unique(np.linspace(0, count, most, endpoint=False).astype(np.int64))
    )


def _borders(middle: Any) -> Any:
    step = middle[1] - middle[0] if len(middle) > 1 else 1
    return np.append(middle - step / 2, middle[-1] + step / 2)
