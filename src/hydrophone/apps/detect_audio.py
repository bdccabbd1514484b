"""Find animal calls in the recording of a microphone array, and cut the same span out of every channel.

Four microphones at 48 kHz, as a converter delivers them: one interleaved stream of 16-bit samples. One channel is cut into windows of
32 samples, whose spectra give a score; where it stands out from the noise (at a constant rate of false alarms), `sync` cuts the call out
of all channels, and the delays between these say where it came from. The recording is made from geometry, with a known truth.

``hydrophone demo detect_audio`` runs it in this process and on Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
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

RATE = 48_000
WINDOW = 32
SOUND = 343.0
"""Speed of sound in metres a second."""
MICROPHONES = np.array([[0.06, 0.06], [-0.06, 0.06], [-0.06, -0.06], [0.06, -0.06]])
"""Where they stand, in metres."""
CALL = (2_500.0, 6_500.0)
"""A call sweeps through these frequencies, in Hz."""
CALL_SECONDS = 0.06
THRESHOLD = 8.0
"""Standard deviations of the noise above its mean at which a window counts as a call."""
FARTHEST = 8.0
"""Metres from the array within which calls are made."""
Array = npt.NDArray[Any]


# --- the query ----------------------------------------------------------------------------------------------------------


def weighted_sum(spectra: Array) -> Array:
    """The magnitude of a window in the band of the calls."""
    frequency = np.fft.rfftfreq(WINDOW, 1 / RATE)
    weight = ((frequency >= CALL[0] - 1_000) & (frequency <= CALL[1] + 1_000)) * 1.0
    return np.abs(spectra) @ weight


def microphones(recording: hp.UniformSignal) -> hp.UniformSignal:
    """The channels of the interleaved recording."""
    return recording.deinterleave(len(MICROPHONES))


def calls(mics: hp.UniformSignal) -> hp.Stream:
    """Stretches in which one channel stands out from its noise; with less than 20 ms between them they are one, of at most 400 ms."""
    score = mics.channel(0).window(WINDOW).rfft().reduce(weighted_sum, at="start")
    found = score.cfar(THRESHOLD, cells=300, guard=120, report="200ms")
    return found.select().extend("20ms").stitch().clip("400ms")


def heard(recording: hp.UniformSignal) -> hp.Stream:
    """Every call with the samples of all channels in it."""
    mics = microphones(recording)
    return hp.sync(calls(mics), mics, names="sound", longest="400ms")


# --- the recording ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Recording:
    """Interleaved samples in segments, and the truth.

    Attributes
    ----------
    table : columns `array`, `t` and `values`
    starts : when each call reaches the first microphone, in seconds
    bearings : where each comes from, in radians
    """

    table: pa.Table
    starts: Array
    bearings: Array

    @property
    def signal(self) -> hp.UniformSignal:
        """The recording as a query."""
        rate = f"{RATE * len(MICROPHONES)}Hz"
        return hp.from_segments(self.table, key="array", time="t", period=rate, name="recording")


def record(seconds: int = 20, snr: float = 20.0, *, seed: int = 1, pieces: int = 16) -> Recording:
    """A recording with about one call a second; `snr` is the power of a call over that of the noise, in dB."""
    rng = np.random.default_rng(seed)
    starts = np.arange(1, seconds - 1) + rng.uniform(0.1, 0.8, max(seconds - 2, 0))
    bearings = rng.uniform(-np.pi, np.pi, len(starts))
    away = rng.uniform(2, FARTHEST, len(starts))
    sound = rng.normal(0, 1, (seconds * RATE, len(MICROPHONES)))
    for start, bearing, distance in zip(starts, bearings, away, strict=True):
        place = distance * np.array([np.cos(bearing), np.sin(bearing)])
        delays = (np.linalg.norm(MICROPHONES - place, axis=1) - np.linalg.norm(MICROPHONES[0] - place)) / SOUND
        first = int((start - 0.01) * RATE)
        at = (first + np.arange(int((CALL_SECONDS + 0.02) * RATE))) / RATE
        for channel, delay in enumerate(delays):
            sound[first : first + len(at), channel] += 10 ** (snr / 20) * _call(at - start - delay)
    samples = np.clip(sound * 300, -32_768, 32_767).astype(np.int16).reshape(-1)
    cuts = np.linspace(0, len(samples), pieces + 1).astype(int)
    times = (cuts[:-1] * 1_000_000_000 + RATE * len(MICROPHONES) - 1) // (RATE * len(MICROPHONES))
    values = [samples[a:b] for a, b in pairwise(cuts)]
    table = pa.table({"array": ["north"] * pieces, "t": times, "values": pa.array(values, pa.list_(pa.int16()))})
    return Recording(table, starts, bearings)


def _call(t: Array) -> Array:
    """A chirp of unit power that fades in and out."""
    inside = (t >= 0) & (t < CALL_SECONDS)
    sweep = CALL[0] * t + (CALL[1] - CALL[0]) * t**2 / (2 * CALL_SECONDS)
    shape = np.sqrt(2) * np.sin(np.pi * np.clip(t / CALL_SECONDS, 0, 1)) ** 0.5
    return np.where(inside, shape * np.sin(2 * np.pi * sweep), 0.0)


# --- what was found -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Score:
    """How well calls were found.

    Attributes
    ----------
    precision, recall : of calls
    bearing_error : the median of the calls that were found, in degrees
    """

    precision: float
    recall: float
    bearing_error: float

    def __str__(self) -> str:
        off = "" if np.isnan(self.bearing_error) else f", direction off by {self.bearing_error:.1f} degrees"
        return f"precision {self.precision:.2f}, recall {self.recall:.2f}{off}"


def bearing(sound: Array) -> float:
    """The direction from which a call comes, from the delays of the channels against the first one; for sources far away.

    Parameters
    ----------
    sound : a row per sample, a column per channel
    """
    size = 2 * len(sound)
    spectra = np.fft.rfft(sound - sound.mean(axis=0), size, axis=0)
    most = int(np.ceil(0.18 / SOUND * RATE)) + 1
    fine = 8
    delays = []
    for channel in range(1, sound.shape[1]):
        cross = np.fft.irfft(spectra[:, channel] * spectra[:, 0].conj(), size * fine)
        window = np.concatenate([cross[-most * fine :], cross[: most * fine + 1]])
        delays.append((int(window.argmax()) - most * fine) / fine / RATE)
    # A wave from direction u reaches microphone p earlier by (p - p0) . u / c.
    towards, *_ = np.linalg.lstsq(MICROPHONES[1:] - MICROPHONES[0], -SOUND * np.array(delays), rcond=None)
    return float(np.arctan2(towards[1], towards[0]))


def judge(recording: Recording, found: pa.Table) -> Score:
    """Compare what was found with the truth: a call is found if a span overlaps it."""
    start, stop = (found[name].to_numpy() / 1e9 for name in ("t", "end"))
    overlap = (start[:, None] < recording.starts + CALL_SECONDS) & (stop[:, None] > recording.starts)
    sounds = [np.array(s, np.float64) for s in found["sound"].to_pylist()]
    errors = [
        abs((bearing(sounds[row]) - recording.bearings[call] + np.pi) % (2 * np.pi) - np.pi)
        for row, call in np.argwhere(overlap)
    ]
    return Score(
        float(overlap.any(axis=1).mean()) if len(found) else 1.0,
        float(overlap.any(axis=0).mean()) if len(recording.starts) else 1.0,
        float(np.degrees(np.median(errors))) if errors else np.nan,
    )


# --- the run ------------------------------------------------------------------------------------------------------------

LEVELS = (0.0, 3.0, 6.0, 10.0, 20.0)
"""Decibels of calls over the noise."""


def main(arguments: list[str] | None = None) -> int:
    """Run it in this process and on Spark; the exit code says whether both agreed and every call at 10 dB was found."""
    parser = demo_options("detect_audio", __doc__)
    parser.add_argument(
        "--seconds", type=at_least(4), default=20, help="length of the recording (default: %(default)s)"
    )
    options = parser.parse_args(arguments)
    check_picture(options.picture)
    report = Report()
    print("Hydrophone demo: calls in the recording of a microphone array")
    samples = options.seconds * RATE * len(MICROPHONES)
    done = sweep_noise(
        report, "calls", samples, LEVELS, lambda snr: record(options.seconds, snr), lambda r: heard(r.signal), judge
    )
    scores = {snr: score for snr, (_, _, score) in done.items()}
    shown, found, _ = done[LEVELS[-1]]
    same = equal_on_spark(report, heard(shown.signal), found)
    _draw(options.picture, shown, found, scores)
    report.add("picture", str(options.picture))
    report.show()
    return 0 if same and scores[10.0].recall == scores[10.0].precision == 1.0 else 1


def _draw(path: Path, recording: Recording, found: pa.Table, scores: dict[float, Score]) -> None:
    """The recording with what was found, one call in all channels, the directions, and how well it works in noise."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplot_mosaic(
        [["all", "all"], ["call", "turn"], ["call", "noise"]], figsize=(11, 9), layout="constrained"
    )
    first = np.concatenate([np.array(v, np.int16) for v in recording.table["values"].to_pylist()])[:: len(MICROPHONES)]
    axes["all"].specgram(first.astype(float), NFFT=512, Fs=RATE, noverlap=256, cmap="magma", vmin=-20)
    found = found.sort_by("t")
    for start, stop in zip(found["t"].to_numpy() / 1e9, found["end"].to_numpy() / 1e9, strict=True):
        axes["all"].axvspan(start, stop, ymin=0.92, ymax=1.0, color="#56b4e9")
    axes["all"].set(title="Microphone 1, and what was found (blue)", xlabel="seconds", ylabel="Hz", ylim=(0, 12_000))
    sound = np.array(found["sound"][0].as_py(), float)
    for channel in range(sound.shape[1]):
        axes["call"].plot(
            np.arange(len(sound)) / RATE * 1e3, sound[:, channel] / 12_000 - channel, lw=0.8, color="#0072b2"
        )
    axes["call"].set(title="One call in all channels, cut out by sync", xlabel="milliseconds", yticks=-np.arange(4))
    axes["call"].set(yticklabels=[f"microphone {i + 1}" for i in range(4)], xlim=(20, 23))
    middle = (found["t"].to_numpy() + found["end"].to_numpy()) / 2e9
    nearest = np.abs(middle[:, None] - recording.starts - CALL_SECONDS / 2).argmin(axis=1)
    said = np.degrees([bearing(np.array(s, float)) for s in found["sound"].to_pylist()])
    axes["turn"].plot([-180, 180], [-180, 180], color="0.8", lw=1)
    axes["turn"].plot(np.degrees(recording.bearings[nearest]), said, "o", ms=4, color="#d55e00")
    axes["turn"].set(title="Direction", xlabel="true, degrees", ylabel="found, degrees")
    levels = sorted(scores)
    axes["noise"].plot(levels, [scores[s].recall for s in levels], "o-", color="#009e73", label="recall")
    axes["noise"].plot(levels, [scores[s].precision for s in levels], "s--", color="#cc79a7", label="precision")
    axes["noise"].set(title="How well it works in noise", xlabel="calls above the noise, dB", ylim=(-0.05, 1.05))
    axes["noise"].legend(loc="lower right")
    write_picture(figure, path)


if __name__ == "__main__":
    raise SystemExit(main())
