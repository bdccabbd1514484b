"""Find where animals call and what kind they are, from several arrays of four microphones.

Every array hears calls as in `detect_audio`. Around the start of each call the delays between its microphones give the direction; the
call's spectrum gives its width and its sweep. What several arrays hear at about the same time is one call: its place is nearest to all
lines of sight, by least squares, which needs nothing but sums over the arrays. The recordings are made from geometry, with a known truth.

``hydrophone demo localize`` runs it in this process and on Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import hydrophone as hp
from hydrophone.apps.detect_audio import MICROPHONES, RATE, SOUND, calls, microphones
from hydrophone.apps.report import (
    Report,
    at_least,
    check_picture,
    demo_options,
    equal_on_spark,
    sweep_noise,
    write_picture,
)

MICS = len(MICROPHONES)
BEFORE, AFTER = 480, 4320
"""Samples of a microphone around the first window in which a call was heard: 10 ms before, 90 ms after."""
BAND = (1_200.0, 8_000.0)
"""Where calls lie, in Hz."""
TOGETHER = "250ms"
"""What arrays hear with less than this between them is one call: sound crosses the field in less."""
ARRAYS = pa.table(
    {"array": ["north", "east", "south", "west"], "x": [0.0, 25.0, 0.0, -25.0], "y": [25.0, 0.0, -25.0, 0.0]}
)
"""Where the arrays stand, in metres."""
PAIRS = list(combinations(range(MICS), 2))
ANGLES = np.radians(np.arange(0, 360, 0.25))
"""Directions that are tried, from east over north."""
FINE = 8
"""Steps of delay in a sample."""
KINDS = ("chirp", "whistle", "buzz")
Array = npt.NDArray[Any]
Row = dict[str, Any]


# --- the query ----------------------------------------------------------------------------------------------------------


def sightings(recording: hp.UniformSignal) -> hp.Stream:
    """For every call that an array hears: the direction `(east, north)`, and the `width` and `sweep` of its spectrum in kHz."""
    heard = calls(microphones(recording))
    # Windows of the interleaved recording: a sample of every microphone, and so on.
    around = recording.epochs(heard, before=BEFORE * MICS, after=AFTER * MICS - 1)
    towards = around.reduce(direction)
    features = hp.zip(towards.real(), towards.imag(), around.reduce(width), around.reduce(sweep))
    return features.events("seen", fields=("east", "north", "width", "sweep"))


def located(recording: hp.UniformSignal) -> hp.Stream:
    """Every call that at least three arrays hear: its place `(x, y)` in metres, and its kind."""
    east, north, width, sweep = (hp.col("seen").struct.field(name) for name in ("east", "north", "width", "sweep"))
    # With n at right angles to the line of sight from p, the place minimises the sum of (n . (place - p)) ** 2.
    off = east * hp.col("y") - north * hp.col("x")
    lines = (
        sightings(recording)
        .lookup(ARRAYS, on="array")
        .with_columns(
            a=north * north, b=-east * north, c=east * east, e=-north * off, f=east * off, width=width, sweep=sweep
        )
    )
    sums = {name: hp.sum(name) for name in "abcef"}
    found = (
        lines.key_by()
        .session(TOGETHER)
        .agg(**sums, arrays=hp.distinct_count("array"), width=hp.mean("width"), sweep=hp.mean("sweep"))
    )
    a, b, c, e, f = (hp.col(name) for name in "abcef")
    kind = hp.when(hp.col("sweep") > 0.8).then(0).otherwise(hp.when(hp.col("width") < 0.45).then(1).otherwise(2))
    placed = found.with_columns(x=(c * e - b * f) / (a * c - b * b), y=(a * f - b * e) / (a * c - b * b), kind=kind)
    return placed.where(hp.col("arrays") >= 3).select("x", "y", "kind", "arrays")


def direction(windows: Array) -> Array:
    """Where each call comes from, as a complex number of length one: there the correlations of all pairs of microphones are largest."""
    spectra, _ = _spectra(windows)
    total = np.zeros((len(windows), len(ANGLES)))
    for (i, j), (turns, delays) in zip(PAIRS, _steering(), strict=True):
        correlation = np.real((spectra[:, :, j] * spectra[:, :, i].conj()) @ turns)
        whole = delays.astype(int)
        total += correlation[:, whole] + (delays - whole) * (correlation[:, whole + 1] - correlation[:, whole])
    return np.asarray(np.exp(1j * ANGLES[total.argmax(axis=1)]))


def width(windows: Array) -> Array:
    """The standard deviation of each call's spectrum around its middle, in kHz."""
    return _moments(windows, BEFORE, AFTER)[1]


def sweep(windows: Array) -> Array:
    """By how many kHz the middle of each call's spectrum rises from its first 30 ms to the next."""
    half = int(0.03 * RATE)
    first, second = (_moments(windows, start, half)[0] for start in (BEFORE, BEFORE + half))
    return np.asarray(second - first)


def _spectra(windows: Array, start: int = 0, count: int = BEFORE + AFTER) -> tuple[Array, Array]:
    """Of `count` samples from `start`: by window, frequency and microphone; and the frequencies, in Hz, of the band of calls."""
    sound = windows.reshape(len(windows), -1, MICS)[:, start : start + count].astype(float)
    frequency = np.fft.rfftfreq(count, 1 / RATE)
    inside = (frequency >= BAND[0]) & (frequency <= BAND[1])
    return np.fft.rfft(sound, axis=1)[:, inside], frequency[inside]


@cache
def _steering() -> list[tuple[Array, Array]]:
    """For each pair of microphones the turns of all frequencies that undo a delay, for a fine grid of delays; and for each angle the delay.

    Delays are counted in steps of the grid. A wave from direction u reaches microphone p earlier by p . u / c.
    """
    _, frequency = _spectra(np.zeros((1, (BEFORE + AFTER) * MICS)))
    towards = np.stack([np.cos(ANGLES), np.sin(ANGLES)])
    found = []
    for i, j in PAIRS:
        delays = -(MICROPHONES[j] - MICROPHONES[i]) @ towards / SOUND * RATE * FINE
        most = int(np.abs(delays).max()) + 1
        grid = np.arange(-most, most + 2) / (RATE * FINE)
        found.append((np.exp(2j * np.pi * frequency[:, None] * grid), delays + most))
    return found


def _moments(windows: Array, start: int, count: int) -> tuple[Array, Array]:
    """Middle and standard deviation of the power above the noise, in kHz."""
    spectra, frequency = _spectra(windows, start, count)
    power = (np.abs(spectra) ** 2).mean(axis=2)
    # A fifth of the band has no call in it, and a fifth of noise's powers lie below 0.22 times their mean.
    above = np.maximum(power - 12 * np.quantile(power, 0.2, axis=1, keepdims=True), 0) + 1e-12
    share = above / above.sum(axis=1, keepdims=True)
    middle = share @ frequency
    return middle / 1e3, np.sqrt((share * (frequency - middle[:, None]) ** 2).sum(axis=1)) / 1e3


# --- the recordings -----------------------------------------------------------------------------------------------------

CALL_SECONDS = 0.08


@dataclass(frozen=True)
class Recording:
    """Interleaved samples of every array in segments, and the truth.

    Attributes
    ----------
    table : columns `array`, `t` and `values`
    when, where, kind : of the calls: seconds, metres, and their number in `KINDS`
    """

    table: pa.Table
    when: Array
    where: Array
    kind: Array

    @property
    def signal(self) -> hp.UniformSignal:
        """The recordings as a query."""
        return hp.from_segments(self.table, key="array", time="t", period=f"{RATE * MICS}Hz", name="arrays")


def record(seconds: int = 30, snr: float = 20.0, *, seed: int = 1, pieces: int = 4) -> Recording:
    """A call a second; `snr` is the power of a call over that of the noise, 20 m away, in dB. Sound gets weaker with distance."""
    rng = np.random.default_rng(seed)
    when = np.arange(0.5, seconds - 1) + rng.uniform(0, 0.3, max(seconds - 1, 0))
    where = rng.uniform(-18, 18, (len(when), 2))
    kind = rng.integers(0, len(KINDS), len(when))
    phases = rng.uniform(0, 2 * np.pi, (len(when), 60))
    arrays, times, values = [], [], []
    cuts = np.linspace(0, seconds * RATE, pieces + 1).astype(int)
    for array in ARRAYS.to_pylist():
        sound = rng.normal(size=(seconds * RATE, MICS))
        for number in range(len(when)):
            away = np.linalg.norm(MICROPHONES + np.array([array["x"], array["y"]]) - where[number], axis=1)
            first = int((when[number] + away.min() / SOUND - 0.01) * RATE)
            at = (
                np.arange(first, first + int((CALL_SECONDS + 0.02) * RATE))[:, None] / RATE
                - when[number]
                - away / SOUND
            )
            loud = 10 ** (snr / 20) * 20 / away
            sound[first : first + len(at)] += loud * _call(KINDS[kind[number]], at, phases[number])
        samples = (sound * 200).clip(-32_768, 32_767).astype(np.int16)
        for start, stop in pairwise(cuts):
            arrays.append(array["array"])
            times.append(-(-start * 1_000_000_000 // RATE))
            values.append(samples[start:stop].reshape(-1))
    table = pa.table({"array": arrays, "t": times, "values": pa.array(values, pa.list_(pa.int16()))})
    return Recording(table, when, where, kind)


def _call(kind: str, t: Array, phases: Array) -> Array:
    """A call of unit power: a rising chirp, a whistle that trembles, or the buzz of many tones."""
    if kind == "chirp":
        sound = np.sqrt(2) * np.sin(2 * np.pi * (2_500 * t + 4_000 * t**2 / (2 * CALL_SECONDS)))
    elif kind == "whistle":
        sound = np.sqrt(2) * np.sin(2 * np.pi * 1_900 * t + 8 * np.sin(2 * np.pi * 25 * t + phases[0]))
    else:
        tones = np.linspace(2_500, 6_000, len(phases))
        sound = sum(np.sin(2 * np.pi * f * t + p) for f, p in zip(tones, phases, strict=True)) * np.sqrt(
            2 / len(phases)
        )
    inside = (t >= 0) & (t < CALL_SECONDS)
    return np.where(inside, sound * np.sin(np.pi * np.clip(t / CALL_SECONDS, 0, 1)) ** 0.3, 0.0)


# --- what was found -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Score:
    """How well calls were located.

    Attributes
    ----------
    recall : share of the calls that were located at all
    metres : the median error of their places
    kinds : share of those whose kind is right
    false : located calls that were none
    """

    recall: float
    metres: float
    kinds: float
    false: int

    def __str__(self) -> str:
        if not self.recall:
            return "none located"
        return f"{self.recall:.0%} located, off by {self.metres:.2f} m, kind right for {self.kinds:.0%}, {self.false} false"


def match(recording: Recording, found: pa.Table) -> list[tuple[int, Row]]:
    """For every located call the number of the true one, or -1."""
    matched = []
    for row in found.to_pylist():
        # An answer is as old as the window around the call.
        off = row["t"] / 1e9 - AFTER / RATE - recording.when
        near = np.flatnonzero((off > -0.02) & (off < 0.25))
        matched.append((int(near[0]) if len(near) else -1, row))
    return matched


def judge(recording: Recording, found: pa.Table) -> Score:
    """Compare what was found with the truth."""
    pairs = [(number, row) for number, row in match(recording, found) if number >= 0]
    if not pairs:
        return Score(0.0, np.nan, np.nan, len(found))
    off = [float(np.hypot(*(recording.where[number] - (row["x"], row["y"])))) for number, row in pairs]
    right = [recording.kind[number] == row["kind"] for number, row in pairs]
    located_calls = len({number for number, _ in pairs})
    return Score(
        located_calls / len(recording.when), float(np.median(off)), float(np.mean(right)), len(found) - located_calls
    )


# --- the run ------------------------------------------------------------------------------------------------------------

SNRS = (-5.0, 0.0, 3.0, 6.0, 10.0, 20.0)
"""Decibels of calls over the noise, 20 m away."""
GOOD = 10.0
"""Here all must be right."""


def main(arguments: list[str] | None = None) -> int:
    """Run it in this process and on Spark; the exit code says whether both agreed, and whether calls at 10 dB were located and named."""
    parser = demo_options("localize", __doc__)
    parser.add_argument(
        "--seconds", type=at_least(4), default=30, help="length of the recordings (default: %(default)s)"
    )
    options = parser.parse_args(arguments)
    check_picture(options.picture)
    print("Hydrophone demo: where animals call, from four arrays of microphones")
    report, samples = Report(), options.seconds * RATE * MICS * len(ARRAYS)
    done = sweep_noise(
        report, "calls", samples, SNRS, lambda snr: record(options.seconds, snr), lambda r: located(r.signal), judge
    )
    scores = {snr: score for snr, (_, _, score) in done.items()}
    shown, found, _ = done[GOOD]
    same = equal_on_spark(report, located(shown.signal), found)
    draw(options.picture, shown, found, scores)
    report.add("picture", str(options.picture))
    titles = ("calls over noise at 20 m, dB", "located", "place off by (median), m", "kind right", "false")
    report.table(titles, [(f"{snr:g}", *_cells(score)) for snr, score in scores.items()])
    report.show()
    good = scores[GOOD]
    return 0 if same and good.recall > 0.9 and good.kinds > 0.9 and good.metres < 1 else 1


def _cells(score: Score) -> tuple[str, ...]:
    found = (f"{score.metres:.2f}", f"{score.kinds:.0%}") if score.recall else ("", "")
    return f"{score.recall:.0%}", *found, str(score.false)


COLORS = ("#d55e00", "#0072b2", "#009e73")


def draw(path: Path, recording: Recording, found: pa.Table, scores: dict[float, Score]) -> None:
    """A map with lines of sight of one call, the features by kind, and how well it works in noise."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplot_mosaic(
        [["map", "kinds"], ["map", "noise"]], figsize=(13, 8), layout="constrained", width_ratios=[1.5, 1]
    )
    seen = sightings(recording.signal).lookup(ARRAYS, on="array").to_arrow().to_pylist()
    _draw_map(axes["map"], recording, found, seen)
    when = np.array([row["t"] for row in seen]) / 1e9 - AFTER / RATE
    for number, kind in enumerate(KINDS):
        own = [row["seen"] for row, at in zip(seen, when, strict=True) if _true_kind(recording, at) == number]
        axes["kinds"].plot(
            [s["width"] for s in own],
            [s["sweep"] for s in own],
            "o",
            ms=4,
            color=COLORS[number],
            label=f"{kind}, truly",
        )
    axes["kinds"].plot([0.45, 0.45], [-1, 0.8], color="0.6", lw=1, ls="--")
    axes["kinds"].axhline(0.8, color="0.6", lw=1, ls="--")
    axes["kinds"].set(
        title="Width and sweep tell kinds apart", xlabel="width of the spectrum, kHz", ylabel="sweep, kHz"
    )
    axes["kinds"].legend()
    levels, noise = list(scores), axes["noise"]
    noise.plot(levels, [s.recall for s in scores.values()], "o-", color="#009e73", label="located")
    noise.plot(levels, [s.kinds for s in scores.values()], "s--", color="#cc79a7", label="kind right")
    noise.set(title="How well it works in noise", xlabel="calls over noise at 20 m, dB", ylabel="share of the calls")
    noise.set(ylim=(-0.05, 1.05))
    metres = noise.twinx()
    metres.plot(levels, [s.metres for s in scores.values()], "^:", color="#0072b2", label="place off by (right)")
    metres.set(ylabel="metres, median", ylim=(0, None))
    lines = [*noise.get_lines(), *metres.get_lines()]
    noise.legend(handles=lines, loc="center left")
    write_picture(figure, path)


def _true_kind(recording: Recording, at: float) -> int:
    """The kind of the call that an array heard at this second."""
    last = int(np.searchsorted(recording.when, at)) - 1
    return int(recording.kind[last]) if last >= 0 and at - recording.when[last] < 0.25 else -1


def _draw_map(axis: Any, recording: Recording, found: pa.Table, seen: list[Row]) -> None:
    for number, kind in enumerate(KINDS):
        own = recording.where[recording.kind == number]
        axis.plot(*own.T, "o", mfc="none", mec=COLORS[number], ms=13, mew=1.5, label=f"{kind}, truly")
        named = [row for row in found.to_pylist() if row["kind"] == number]
        axis.plot(
            [r["x"] for r in named],
            [r["y"] for r in named],
            "x",
            color=COLORS[number],
            ms=7,
            mew=2,
            label=f"{kind}, found",
        )
    pairs = [(number, row) for number, row in match(recording, found) if number >= 0]
    if pairs:
        number, row = pairs[len(pairs) // 2]
        for sight in seen:
            late = sight["t"] / 1e9 - AFTER / RATE - recording.when[number]
            if -0.02 < late < 0.25:
                reach = 1.1 * np.hypot(row["x"] - sight["x"], row["y"] - sight["y"])
                east, north = sight["x"] + reach * sight["seen"]["east"], sight["y"] + reach * sight["seen"]["north"]
                axis.plot([sight["x"], east], [sight["y"], north], color="0.7", lw=1, zorder=0)
    axis.plot(ARRAYS["x"], ARRAYS["y"], "s", color="black", ms=10, label="arrays of microphones")
    for array in ARRAYS.to_pylist():
        axis.annotate(array["array"], (array["x"], array["y"]), (8, 8), textcoords="offset points")
    axis.set(
        title="The field, and the lines of sight of one call",
        xlabel="metres east",
        ylabel="metres north",
        aspect="equal",
    )
    axis.set(xlim=(-30, 32), ylim=(-30, 30))
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=4, frameon=False)


if __name__ == "__main__":
    raise SystemExit(main())
