"""Drawing spectra: spectrograms, and a line where there is one spectrum per key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hydrophone.errors import DataError
from hydrophone.ops.spectra.bands import MelBands, OctaveBands, mel_points, octave_centres, transform_size
from hydrophone.ops.windows.arrays import Magnitude
from hydrophone.plan.node import Node
from hydrophone.plan.types import WindowedType
from hydrophone.plot.axes import View, finish_time, view_of
from hydrophone.plot.draw import COLOURS, legend
from hydrophone.plot.selection import Query, Selection, Spectra, key_name, spectra_by_key

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MAP = "viridis"
_DECIBELS = 80
"""Range of a spectrogram below its loudest point."""
_LINE_DECIBELS = 120
"""Range of a spectrum that is drawn as a line."""
_DIM = 2
"""Percent of a spectrogram that may lie below its colour scale, so that a few faint lines do not dim the rest."""
_NAMED_BANDS = 8
"""Bands whose frequency is written at the axis."""


def draw_spectra(
    axes: Axes, chosen: Selection, kind: WindowedType, query: Query, scale: str | None, unit: str | None
) -> None:
    """A spectrogram: a column per window at the middle of its samples, a row per frequency, colours in decibels.

    Where every key has one window only, such as the power spectrum of a whole signal, a line per key.
    """
    found = spectra_by_key(query, kind, chosen)
    if found and all(len(w.last) == 1 for w in found.values()):
        _draw_lines(axes, chosen, kind, query, found, scale, unit)
        return
    (key,) = chosen.order(list(found), 1)
    windows = found[key]
    step = kind.hop * windows.period
    # Floats cannot hold nanoseconds since 1970: use the middle of every window, relative to an instant nearby.
    zero = int(windows.last[0])
    middle = (windows.last - zero) - (kind.size - 1) * windows.period / 2
    view = view_of(axes, kind, chosen, zero + int(middle[0] - step / 2), zero + int(middle[-1] + step / 2))
    heights, axis, names = _heights(kind, query.node, 1e9 / windows.period)
    levels, colours = _levels(kind, query.node, windows, scale)
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
    if names is not None:
        _name_bands(axes.yaxis, names)
    if np.isnan(image).all(axis=0).any():
        axes.set_title("grey: no windows", loc="right", fontsize="small", color="0.35")
    finish_time(axes, view, margin=0)


def _with_unit(label: str, unit: str | None) -> str:
    """A label with the unit of the values; decibels are relative to the unit."""
    if unit is None:
        return label
    return label.replace("(dB)", f"(dB re 1 {unit})") if "(dB)" in label else f"{label} ({unit})"


def _draw_lines(
    axes: Axes,
    chosen: Selection,
    kind: WindowedType,
    query: Query,
    found: dict[tuple[Any, ...], Spectra],
    scale: str | None,
    unit: str | None,
) -> None:
    """One spectrum per key, over its frequencies."""
    keys = chosen.order(list(found), len(COLOURS))
    heights, axis, names = _heights(kind, query.node, 1e9 / found[keys[0]].period)
    for number, key in enumerate(keys):
        levels, what = _levels(kind, query.node, found[key], scale)
        levels = np.fft.fftshift(levels, axes=0) if _is_two_sided(kind) else levels
        axes.plot(
            heights, levels[:, 0], color=COLOURS[number], lw=1.2, label=key_name(key) or "spectrum", gid="hydrophone"
        )
    axes.set_xlabel(axis)
    axes.set_ylabel(_with_unit(what, unit))
    axes.set_xlim(heights[0], heights[-1])
    if "dB" in what:
        top = max(float(line.get_ydata().max()) for line in axes.get_lines())  # type: ignore[union-attr]
        low, high = axes.get_ylim()
        axes.set_ylim(max(low, top - _LINE_DECIBELS), high)
    axes.grid(alpha=0.25, lw=0.6)
    if names is not None:
        _name_bands(axes.xaxis, names)
    if len(keys) > 1:
        legend(axes)


def _name_bands(axis: Any, names: Any) -> None:
    """The middle frequencies of some bands."""
    some = np.unique(np.linspace(0, len(names) - 1, min(len(names), _NAMED_BANDS)).round().astype(int))
    axis.set_ticks(some, [_hertz(names[i]) for i in some])


def _hertz(value: float) -> str:
    return f"{value / 1000:.3g}k" if value >= 1000 else f"{value:.3g}"


def _is_one_sided(kind: WindowedType) -> bool:
    return transform_size(kind) > 0


def _is_two_sided(kind: WindowedType) -> bool:
    return kind.two_sided and kind.length == (kind.lines_of or kind.size)


def _heights(kind: WindowedType, node: Node, rate: float) -> tuple[Any, str, Any]:
    """The quantity of the rows, its label, and of bands the frequency of each."""
    if _is_one_sided(kind):
        return *_frequencies(np.arange(kind.length) * rate / transform_size(kind)), None
    if _is_two_sided(kind):
        return *_frequencies(np.sort(np.fft.fftfreq(kind.length, 1 / rate))), None
    for below in _same_length(node):
        before = below.inputs[0].type if below.inputs else None
        if isinstance(below, MelBands):
            points = mel_points(below.count, below.low, below.high)
            return np.arange(kind.length), "mel bands, middle frequency (Hz)", points[1:-1]
        if isinstance(below, OctaveBands) and isinstance(before, WindowedType):
            centres = octave_centres(below.fraction, transform_size(before), rate)
            return np.arange(kind.length), "octave bands, middle frequency (Hz)", centres
    return np.arange(kind.length), "element of the array", None


def _same_length(node: Node) -> Any:
    """An operator and those below it whose windows have as many values."""
    length = node.type.length
    while isinstance(node.type, WindowedType) and node.type.length == length:
        yield node
        if len(node.inputs) != 1:
            return
        node = node.inputs[0]


def _levels(kind: WindowedType, node: Node, windows: Spectra, scale: str | None) -> tuple[Any, str]:
    """The quantity of the colours, and its label.

    Unless `scale` says otherwise: decibels of complex values, and of spectra that are never negative, which are powers unless they are
    known to be magnitudes; else the values themselves.
    """
    values, is_magnitude = windows.values.T, isinstance(node, Magnitude)
    is_spectrum = _is_one_sided(kind) or any(isinstance(n, MelBands | OctaveBands) for n in _same_length(node))
    if kind.dtype.kind == "c":
        values, what, factor = np.abs(values), "magnitude", 20
    else:
        values = values.astype(np.float64)
        is_power = scale == "db" or (is_spectrum and not (values < 0).any())
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
