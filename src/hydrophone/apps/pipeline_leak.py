"""Find when and where a water pipe cracks, from vibration sensors along it.

A crack sends a short burst both ways along the pipe. Each sensor's signal is cut into windows and split into octaves by Haar wavelets; a
window in which a coefficient stands out from the rest of its band has heard something. The two sensors on either side of a crack hear it
first, and the difference between their times of arrival says where between them it lies. The vibration is made from the physics of the
pipe, with a known truth: a wave that gets weaker and duller with distance, the hum of a pump, and knocks that only one sensor feels.

``hydrophone demo pipeline_leak`` runs it in this process and on Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import hydrophone as hp
from hydrophone.apps.report import (
    Report,
    at_least,
    check_picture,
    demo_options,
    equal_on_spark,
    sweep_noise,
    write_picture,
)

RATE = 20_000
SPACING = 150.0
"""Metres of pipe between two sensors."""
SENSORS = 10
SPEED = 1_250.0
"""Speed of sound in the filled pipe, in metres a second."""
WINDOW, LEVELS = 2048, 4
CRACKS = slice(WINDOW >> 4, WINDOW >> 2)
"""Coefficients of the two coarsest details: 625 to 2500 Hz. Below them hums the pump, above them the wave does not go far."""
THRESHOLD = 5.5
"""So many times the deviation of the background is heard. 400 values of noise reach 3."""
TRAVEL = SPACING / SPEED
"""Seconds from one sensor to the next."""
SURE = 0.0025
"""Seconds by which times of arrival may be wrong. Neighbours that hear a wave so nearly `TRAVEL` apart have it from outside."""
Array = npt.NDArray[Any]
places = pa.table(
    {"sensor": range(SENSORS), "place": SPACING * np.arange(SENSORS), "next": range(1, SENSORS + 1)},
)
"""Where the sensors sit, in metres from the begin of the pipe."""


# --- the query ----------------------------------------------------------------------------------------------------------


def loudness(vibration: hp.UniformSignal) -> hp.UniformSignal:
    """For every sensor and window, how far the peak of the band of cracks stands out from the rest of the band."""
    band = vibration.window(WINDOW, hop=WINDOW // 2).dwt("haar", LEVELS).select(CRACKS)
    peak, background = band.magnitude().max(at="start"), band.trim_peak(around=32).std(at="start")
    return peak / background


def arrivals(vibration: hp.UniformSignal) -> hp.Stream:
    """When each sensor heard something: `arrival` in seconds."""
    heard = loudness(vibration).above(THRESHOLD, report="200ms")
    around = vibration.epochs(heard, before=WINDOW // 2, after=3 * WINDOW // 2 - 1, columns="peak")
    # One value per window with columns of events is an event.
    onsets: Any = around.dwt("haar", LEVELS).multiply(IN_BAND).idwt("haar", LEVELS).reduce(seconds_before_end)
    found: hp.Stream = onsets.with_columns(arrival=hp.col("t") / 1e9 - hp.col("value")).lookup(places, on="sensor")
    return found


def cracks(vibration: hp.UniformSignal) -> hp.Stream:
    """When and where the pipe cracked: `when` in seconds, `place` in metres."""
    heard = arrivals(vibration).key_by("pipe")
    both = heard.band_join(heard, on={"pipe": "pipe", "next": "sensor"}, before="300ms", after="300ms", by="max")
    later = hp.col("arrival_right") - hp.col("arrival")
    between = both.where((later < TRAVEL - SURE) & (later > SURE - TRAVEL)).with_columns(
        place=(hp.col("place") + hp.col("place_right") - SPEED * later) / 2,
        when=(hp.col("arrival") + hp.col("arrival_right") - TRAVEL) / 2,
    )
    # The wave goes on to other sensors; the first pair has the crack between them.
    return between.key_by("pipe").session("500ms").agg(place=hp.first("place"), when=hp.first("when"), pairs=hp.count())


IN_BAND = np.zeros(2 * WINDOW)
"""Weights of the coefficients of a window around an arrival: only the band of cracks."""
IN_BAND[2 * CRACKS.start : 2 * CRACKS.stop] = 1


def seconds_before_end(windows: Array) -> Array:
    """How long before the end of its window each burst begins: where two levels of noise, before and after, fit best up to the peak.

    This is Akaike's criterion, as it picks the onsets of earthquakes.
    """
    energy = np.cumsum(windows.astype(float) ** 2, axis=1) + 1e-30
    count = np.arange(1, windows.shape[1] + 1)
    last = np.abs(windows).argmax(axis=1)[:, None] + 1
    after, left = (
        np.maximum(energy[np.arange(len(windows))[:, None], last - 1] - energy, 1e-30),
        np.maximum(last - count, 1),
    )
    misfit = count * np.log(energy / count) + left * np.log(after / left)
    misfit[(count < 64) | (count >= last - 2)] = np.inf
    return (windows.shape[1] - 1 - misfit.argmin(axis=1)) / RATE


# --- the pipe -----------------------------------------------------------------------------------------------------------

DULL = 0.03
"""What the pipe takes from a wave, in dB per metre and kHz."""
GROWING = np.array([212.0, 655.0, 1_090.0])
"""Where cracks grow, in metres: each sends a burst now and then."""
BURST_SECONDS = 0.15


@dataclass(frozen=True)
class Recording:
    """A segment of samples per sensor and second, and the truth.

    Attributes
    ----------
    table : columns `pipe`, `sensor`, `t` and `values`
    when, where : of the cracks, in seconds and metres
    """

    table: pa.Table
    when: Array
    where: Array

    @property
    def signal(self) -> hp.UniformSignal:
        """The recording as a query."""
        return hp.from_segments(self.table, key=("pipe", "sensor"), time="t", period=f"{RATE}Hz", name="vibration")


def record(seconds: int = 60, snr: float = 20.0, *, seed: int = 1) -> Recording:
    """Vibration with a crack about every two seconds; `snr` is the power of a burst halfway between sensors over the noise, in dB."""
    rng = np.random.default_rng(seed)
    when = np.arange(1.0, seconds - 1, 2.0)
    when += rng.uniform(-0.3, 0.3, len(when))
    where = rng.choice(GROWING, len(when)) + rng.normal(0, 0.5, len(when))
    values = rng.normal(size=(SENSORS, seconds * RATE))
    time = np.arange(seconds * RATE) / RATE
    for sensor in range(SENSORS):
        phase, strength = rng.uniform(0, 6.28, 3), 3 * np.exp(-sensor / 4)
        values[sensor] += strength * sum(np.sin(2 * np.pi * 49 * (n + 1) * time + phase[n]) / (n + 1) for n in range(3))
    for start, place in zip(when, where, strict=True):
        burst = _burst(rng) * 10 ** (snr / 20)
        for sensor in range(SENSORS):
            _add(values[sensor], burst, abs(place - SPACING * sensor), start)
    for sensor, start in zip(
        rng.integers(0, SENSORS, seconds // 4), rng.uniform(1, seconds - 1, seconds // 4), strict=True
    ):
        _add(values[sensor], _burst(rng) * 30, 0.0, start)
    # Every sensor has an amplifier of its own.
    values = (values * rng.uniform(100, 300, (SENSORS, 1))).clip(-32_768, 32_767).astype(np.int16)
    rows = [(sensor, second) for second in range(seconds) for sensor in range(SENSORS)]
    table = pa.table(
        {
            "pipe": ["main"] * len(rows),
            "sensor": [sensor for sensor, _ in rows],
            "t": [second * 1_000_000_000 for _, second in rows],
            "values": pa.array([values[s, n * RATE : (n + 1) * RATE] for s, n in rows], pa.list_(pa.int16())),
        }
    )
    return Recording(table, when, where)


def _burst(rng: np.random.Generator) -> Array:
    """The spectrum of a crack: noise of unit power up to 3 kHz that fades away within some milliseconds."""
    time = np.arange(int(BURST_SECONDS * RATE)) / RATE
    spectrum = np.fft.rfft(rng.normal(size=len(time)) * np.exp(-time / 0.006))
    frequency = np.fft.rfftfreq(len(time), 1 / RATE)
    spectrum *= np.exp(-((frequency / 3_000) ** 4)) * (frequency > 300)
    loudest = np.fft.irfft(_travelled(spectrum, SPACING / 2, 0.0))[: int(0.005 * RATE)]
    return np.asarray(spectrum / loudest.std())


def _add(values: Array, burst: Array, metres: float, start: float) -> None:
    """Add a burst that has come so far to the signal of a sensor."""
    first = int((start + metres / SPEED) * RATE)
    wave = np.fft.irfft(_travelled(burst, metres, start + metres / SPEED - first / RATE))
    room = values[first : first + len(wave)]
    room += wave[: len(room)]


def _travelled(burst: Array, metres: float, seconds: float) -> Array:
    """The spectrum of a wave after so many metres, and so many seconds later."""
    frequency = np.fft.rfftfreq(int(BURST_SECONDS * RATE), 1 / RATE)
    weaker = 10 ** (-DULL * metres * frequency / 1_000 / 20)
    return np.asarray(burst * weaker * np.exp(-2j * np.pi * frequency * seconds))


# --- what was found -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Score:
    """How well cracks were found.

    Attributes
    ----------
    precision, recall : of cracks, where one counts as found within 0.1 s and 10 m
    metres : the median error of the place of those found
    """

    precision: float
    recall: float
    metres: float

    def __str__(self) -> str:
        off = "" if np.isnan(self.metres) else f", place off by {self.metres:.2f} m"
        return f"precision {self.precision:.2f}, recall {self.recall:.2f}{off}"


def judge(recording: Recording, found: pa.Table) -> Score:
    """Compare what was found with the truth."""
    when, place = (found[name].to_numpy()[:, None] for name in ("when", "place"))
    off = np.abs(place - recording.where)
    right = (np.abs(when - recording.when) < 0.1) & (off < 10)
    return Score(
        float(right.any(axis=1).mean()) if len(found) else 1.0,
        float(right.any(axis=0).mean()),
        float(np.median(off[right])) if right.any() else np.nan,
    )


# --- the run ------------------------------------------------------------------------------------------------------------

SNRS = (-10.0, -5.0, 0.0, 5.0, 10.0, 20.0)
"""Decibels of bursts over the noise."""
GOOD = 10.0
"""Here nearly everything must be found: a knock beside a crack, at nearly the same time, may hide it."""


def main(arguments: list[str] | None = None) -> int:
    """Run it in this process and on Spark; the exit code says whether both agreed, and whether the cracks at 10 dB were found."""
    parser = demo_options("pipeline_leak", __doc__)
    parser.add_argument(
        "--seconds", type=at_least(6), default=60, help="length of the recordings (default: %(default)s)"
    )
    options = parser.parse_args(arguments)
    check_picture(options.picture)
    print("Hydrophone demo: cracks in a pipe")
    report, samples = Report(), options.seconds * RATE * SENSORS
    done = sweep_noise(
        report, "bursts", samples, SNRS, lambda snr: record(options.seconds, snr), lambda r: cracks(r.signal), judge
    )
    scores = {snr: score for snr, (_, _, score) in done.items()}
    shown, found, _ = done[GOOD]
    same = equal_on_spark(report, cracks(shown.signal), found)
    draw(options.picture, shown, found, scores)
    report.add("picture", str(options.picture))
    rows = [(f"{snr:g}", f"{s.precision:.2f}", f"{s.recall:.2f}", _metres(s.metres)) for snr, s in scores.items()]
    report.table(("burst over noise, dB", "precision", "recall", "place off by (median), m"), rows)
    report.show()
    return 0 if same and min(scores[GOOD].recall, scores[GOOD].precision) > 0.9 else 1


def _metres(error: float) -> str:
    return "" if np.isnan(error) else f"{error:.2f}"


def draw(path: Path, recording: Recording, found: pa.Table, scores: dict[float, Score]) -> None:
    """The pipe with what was found, one crack as the sensors heard it, and how well it works in noise."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplot_mosaic(
        [["pipe", "pipe"], ["burst", "noise"]], figsize=(11, 9), layout="constrained", height_ratios=[1.15, 1]
    )
    heard = arrivals(recording.signal).to_arrow()
    pipe = axes["pipe"]
    for sensor in range(SENSORS):
        pipe.axvline(SPACING * sensor, color="0.85", lw=1, zorder=0)
    pipe.plot(heard["place"], heard["arrival"], "_", color="0.5", ms=9, label="a sensor heard something")
    pipe.plot(recording.where, recording.when, "o", mfc="none", mec="#009e73", ms=12, mew=1.5, label="cracks, truly")
    pipe.plot(found["place"], found["when"], "x", color="#d55e00", ms=7, mew=2, label="cracks, found")
    pipe.plot(places["place"], np.zeros(SENSORS), "^", color="black", ms=9, clip_on=False, label="sensors")
    pipe.set(title="The pipe over time", xlabel="metres along the pipe", ylabel="seconds", ylim=(0, None))
    pipe.set(xlim=(-30, SPACING * (SENSORS - 1) + 30))
    pipe.legend(loc="upper center", bbox_to_anchor=(0.5, -0.11), ncols=4, frameon=False)
    row = found.slice(len(found) // 2, 1).to_pylist()
    if row:
        _draw_burst(axes["burst"], recording, row[0]["when"], row[0]["place"])
    levels, noise = list(scores), axes["noise"]
    noise.plot(levels, [s.recall for s in scores.values()], "o-", color="#009e73", label="recall")
    noise.plot(levels, [s.precision for s in scores.values()], "s--", color="#cc79a7", label="precision")
    noise.set(title="How well it works in noise", xlabel="bursts over noise, dB", ylabel="share", ylim=(-0.05, 1.05))
    metres = noise.twinx()
    metres.plot(levels, [s.metres for s in scores.values()], "^:", color="#0072b2", label="place off by (right)")
    metres.set(ylabel="metres, median", ylim=(0, None))
    lines = [*noise.get_lines(), *metres.get_lines()]
    noise.legend(handles=lines, loc="center left")
    write_picture(figure, path)


def _draw_burst(axis: Any, recording: Recording, when: float, place: float) -> None:
    """One crack in all sensors, high-passed, with the travel of the wave."""
    import scipy.signal

    sections = scipy.signal.butter(4, (600, 2_500), "band", fs=RATE, output="sos")
    first, last = when - 0.05, when + 0.6
    for sensor in range(SENSORS):
        rows = recording.table.filter(pa.compute.equal(recording.table["sensor"], sensor))
        wave = scipy.signal.sosfiltfilt(sections, np.concatenate([np.array(v) for v in rows["values"].to_pylist()]))
        part = wave[int(first * RATE) : int(last * RATE)]
        at = (np.arange(len(part)) / RATE + first - when) * 1e3
        axis.plot(at, SPACING * sensor + part / np.abs(part).max() * 60, lw=0.5, color="#0072b2")
    along = SPACING * np.arange(-0.3, SENSORS - 0.7, 0.01)
    axis.plot(np.abs(along - place) / SPEED * 1e3, along, color="#d55e00", lw=1, label=f"a wave at {SPEED:g} m/s")
    axis.set(title=f"A crack at {place:.1f} m, as the sensors heard it", xlabel="milliseconds since it cracked")
    axis.set(ylabel="metres along the pipe", xlim=((first - when) * 1e3, (last - when) * 1e3))
    axis.set(ylim=(-120, SPACING * SENSORS + 150))
    axis.legend(loc="upper left")


if __name__ == "__main__":
    raise SystemExit(main())
