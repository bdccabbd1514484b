"""Cut the spoken parts out of a recording.

The recording is cut into windows of 4096 samples. Where their standard deviation is above a threshold somebody speaks, and `sync` cuts
these stretches out of all channels. Give it a WAV file, or let it make one: a synthetic voice, with pauses at known places, in noise.

``hydrophone demo silence_filter --recording my.wav --to spoken.wav`` runs it in this process and on Spark.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import hydrophone as hp
from hydrophone.apps.report import Report, at_least, check_picture, demo_options, equal_on_spark, write_picture
from hydrophone.connect.files import check_output
from hydrophone.errors import DataError, ParameterError

WINDOW = 4096
ABOVE = 1.5
"""Windows so many times as loud as the noise are speech."""
QUIET = 0.1
"""The noise is as loud as the loudest of this share of the windows, the quietest ones."""
Array = npt.NDArray[Any]


# --- the query ----------------------------------------------------------------------------------------------------------


def level(voice: hp.UniformSignal) -> hp.UniformSignal:
    """How loud each window is."""
    return voice.std(WINDOW, hop=WINDOW, at="start")


def spoken(path: str, threshold: float) -> hp.Stream:
    """Every stretch that is louder than the threshold (in pieces of 10 s at most), with the samples of all channels in it."""
    voice, sound = hp.read.wav(path, channel=0, clock="int"), hp.read.wav(path, clock="int")
    return hp.sync(level(voice).above(threshold, report="10s"), sound, names="sound", longest="12s")


def noise_level(path: str) -> float:
    """The level of the quiet windows of a recording: where the threshold comes from if none is given."""
    levels = level(hp.read.wav(path, channel=0, clock="int")).to_arrow()["value"].to_numpy()
    if not len(levels):
        raise DataError(f"{path} is shorter than one window of {WINDOW} samples")
    return float(np.quantile(levels, QUIET))


# --- the recording ------------------------------------------------------------------------------------------------------

RATE = 44_100
VOWELS = {
    "a": (730, 1090, 2440),
    "e": (530, 1840, 2480),
    "i": (270, 2290, 3010),
    "o": (570, 840, 2410),
    "u": (300, 870, 2240),
}
"""The resonances of the mouth, in Hz."""
BANDWIDTHS = (80, 100, 140)


@dataclass(frozen=True)
class Speech:
    """A voice without noise, and the truth.

    Attributes
    ----------
    samples : with power 1 where somebody speaks
    spans : when somebody speaks: starts and ends in seconds
    """

    samples: Array
    spans: Array

    @property
    def seconds(self) -> float:
        """How long it lasts."""
        return len(self.samples) / RATE


def speak(seconds: int, *, seed: int = 1) -> Speech:
    """Phrases of one to three seconds with pauses between them."""
    rng = np.random.default_rng(seed)
    sound, spans, now = np.zeros(seconds * RATE), [], rng.uniform(0.8, 1.5)
    while now + 3 < seconds:
        phrase = _phrase(rng, rng.uniform(1, 3))
        first = int(now * RATE)
        sound[first : first + len(phrase)] = phrase
        spans.append((now, now + len(phrase) / RATE))
        now = spans[-1][1] + rng.uniform(0.4, 1.5)
    return Speech(sound, np.array(spans))


def _phrase(rng: np.random.Generator, seconds: float) -> Array:
    """Syllables, each a vowel: pulses of the glottis, as fast as the pitch, through the resonances of the mouth."""
    import scipy.signal

    count = int(seconds * RATE)
    pitch = rng.uniform(95, 210) * (1.15 - 0.3 * np.linspace(0, 1, count))
    pitch *= 1 + 0.03 * np.sin(2 * np.pi * 4 * np.arange(count) / RATE)
    pulses = np.diff(np.floor(np.cumsum(pitch) / RATE), prepend=0)
    glottis = scipy.signal.lfilter([1.0], [1, -0.95], pulses)
    breath = glottis + 0.02 * rng.normal(size=count)
    out = np.zeros(count)
    edges = np.linspace(0, count, max(int(seconds / 0.2), 1) + 1).astype(int)
    for start, stop in pairwise(edges):
        vowel = breath[start:stop]
        for formant, width in zip(VOWELS[rng.choice(list(VOWELS))], BANDWIDTHS, strict=True):
            radius = np.exp(-np.pi * width / RATE)
            poles = [1, -2 * radius * np.cos(2 * np.pi * formant / RATE), radius**2]
            vowel = scipy.signal.lfilter([sum(poles)], poles, vowel)
        out[start:stop] = (vowel - vowel.mean()) * np.sin(np.pi * np.linspace(0.1, 0.9, stop - start)) ** 0.5
    return out / out.std()


def record(speech: Speech, snr: float, path: Path, *, seed: int = 2) -> None:
    """Write the voice with noise as a WAV file; `snr` is the power of speech over that of the noise, in dB."""
    import scipy.signal
    import soundfile

    noise = scipy.signal.lfilter([1], [1, -0.9], np.random.default_rng(seed).normal(size=len(speech.samples)))
    sound = speech.samples + noise / noise.std() * 10 ** (-snr / 20)
    soundfile.write(path, sound * 0.9 / np.abs(sound).max(), RATE, subtype="PCM_16")


# --- what was found -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Score:
    """How much of what was cut out is speech (precision), and how much of the speech was cut out (recall), by time."""

    precision: float
    recall: float

    def __str__(self) -> str:
        return f"precision {self.precision:.2f}, recall {self.recall:.2f}"


def judge(speech: Speech, found: pa.Table) -> Score:
    """Compare what was cut out with the truth."""
    start, stop = (found[name].to_numpy() / 1e9 for name in ("time", "end"))
    shared = np.minimum(stop[:, None], speech.spans[:, 1]) - np.maximum(start[:, None], speech.spans[:, 0])
    both, cut = np.maximum(shared, 0).sum(), (stop - start).sum()
    return Score(float(both / cut) if cut else 1.0, float(both / np.diff(speech.spans).sum()))


def write_spoken(found: pa.Table, rate: int, path: Path) -> float:
    """Write the spoken parts one after the other; give their length in seconds."""
    parts = [np.asarray(sound) for sound in found.sort_by("time")["sound"].to_pylist()]
    if not parts:
        raise DataError("nothing in this recording is above the threshold", hint="a lower one: --above 1.2")
    sound = np.concatenate(parts)
    hp.from_numpy(sound, rate=f"{rate}Hz").save(hp.write.wav(str(path), subtype="PCM_16"), overwrite=True)
    return len(sound) / rate


# --- the run ------------------------------------------------------------------------------------------------------------

LEVELS = (-10.0, -5.0, 0.0, 5.0, 10.0, 20.0, 30.0)
"""Decibels of speech over the noise."""
GOOD = 10.0
"""From here on nearly all must be found."""


def main(arguments: list[str] | None = None) -> int:
    """Run it in this process and on Spark; the exit code says whether both agreed, and whether the speech was found."""
    options = _options(arguments)
    check_picture(options.picture)
    check_output(str(options.to), what="demo", overwrite=True)
    print("Hydrophone demo: the spoken parts of a recording")
    with tempfile.TemporaryDirectory(prefix="hydrophone-demo-") as folder:
        return _own(options) if options.recording else _made(options, Path(folder))


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = demo_options("silence_filter", __doc__)
    parser.add_argument("--recording", help="a WAV file; without it one is made")
    parser.add_argument("--to", type=_wav, default=Path("spoken.wav"), help="default: %(default)s")
    parser.add_argument(
        "--above", type=float, default=ABOVE, help="so many times the noise is speech (default: %(default)s)"
    )
    parser.add_argument(
        "--seconds", type=at_least(6), default=60, help="length of the recording that is made (default: %(default)s)"
    )
    return parser.parse_args(arguments)


def _wav(text: str) -> Path:
    if Path(text).suffix != ".wav":
        raise argparse.ArgumentTypeError(f"must end in .wav, got {text!r}")
    return Path(text)


def _own(options: argparse.Namespace) -> int:
    """The recording of the user."""
    import soundfile

    if options.to.exists() and os.path.samefile(options.recording, options.to):
        raise ParameterError(f"demo: {options.to} is the recording itself", hint="--to another.wav")
    report = Report()
    threshold = options.above * noise_level(options.recording)
    header = soundfile.info(options.recording)
    query = spoken(options.recording, threshold)
    with report.timed("in this process", header.frames, "samples"):
        found = query.to_arrow()
    seconds = write_spoken(found, header.samplerate, options.to)
    report.add(str(options.to), f"{seconds:.1f} s of speech of {header.duration:.1f} s")
    same = equal_on_spark(report, query, found)
    samples, rate = soundfile.read(options.recording, always_2d=True)
    draw(options.picture, samples[:, 0], rate, threshold, found)
    report.add("picture", str(options.picture))
    report.show()
    return 0 if same else 1


def _made(options: argparse.Namespace, folder: Path) -> int:
    """A recording with a known truth, in more and more noise."""
    report, speech, scores = Report(), speak(options.seconds), {}
    count = len(LEVELS) * len(speech.samples)
    with report.timed(
        f"a voice of {options.seconds} s in {len(LEVELS)} noises, made and cut", count, "samples"
    ) as ticker:
        for done, snr in enumerate(LEVELS):
            ticker.at(done, len(LEVELS), "noises")
            path = folder / f"{snr:g}dB.wav"
            record(speech, snr, path)
            scores[snr] = judge(speech, spoken(str(path), options.above * noise_level(str(path))).to_arrow())
    shown = str(folder / f"{GOOD:g}dB.wav")
    threshold = options.above * noise_level(shown)
    found = spoken(shown, threshold).to_arrow()
    report.add(f"speech {GOOD:g} dB above the noise", str(scores[GOOD]))
    report.add(str(options.to), f"{write_spoken(found, RATE, options.to):.1f} s of speech of {speech.seconds:.1f} s")
    same = equal_on_spark(report, spoken(shown, threshold), found)
    import soundfile

    draw(options.picture, soundfile.read(shown)[0], RATE, threshold, found, speech.spans, scores)
    report.add("picture", str(options.picture))
    rows = [(f"{snr:g}", f"{s.precision:.2f}", f"{s.recall:.2f}") for snr, s in scores.items()]
    report.table(("speech over noise, dB", "precision of speech time", "recall of speech time"), rows)
    report.show()
    return 0 if same and min(scores[GOOD].precision, scores[GOOD].recall) > 0.9 else 1


def draw(
    path: Path,
    samples: Array,
    rate: int,
    threshold: float,
    found: pa.Table,
    spans: Array | None = None,
    scores: dict[float, Score] | None = None,
) -> None:
    """The recording with what was cut out, how loud its windows are, and how well it works in noise where the truth is known."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows: list[Any] = (
        [["wave", "wave"], ["level", "level"], ["sound", "noise"]] if scores else [["wave"], ["level"], ["sound"]]
    )
    figure, axes = plt.subplot_mosaic(rows, figsize=(11, 9), layout="constrained")
    seconds = len(samples) / rate
    thin = max(len(samples) // 20_000, 1)
    blocks = samples[: len(samples) // thin * thin].reshape(-1, thin)
    at = np.arange(len(blocks)) * thin / rate
    axes["wave"].fill_between(at, blocks.min(axis=1), blocks.max(axis=1), color="0.55", lw=0)
    cuts = [(row["time"] / 1e9, row["end"] / 1e9) for row in found.select(["time", "end"]).to_pylist()]
    _spans(axes["wave"], cuts, (0.0, 1.0), "#56b4e9", "cut out", alpha=0.35)
    if spans is not None:
        _spans(axes["wave"], spans, (0.95, 1.0), "#009e73", "truly spoken")
    axes["wave"].set(
        title="The recording, and what was cut out", xlabel="seconds", ylabel="amplitude", xlim=(0, seconds)
    )
    axes["wave"].legend(loc="lower right", ncols=2)
    windows = samples[: len(samples) // WINDOW * WINDOW].reshape(-1, WINDOW).std(axis=1)
    axes["level"].step(
        np.arange(len(windows)) * WINDOW / rate, 20 * np.log10(windows + 1e-9), where="post", color="#0072b2"
    )
    axes["level"].axhline(20 * np.log10(threshold), color="#d55e00", ls="--", label="threshold")
    title = f"How loud each window of {WINDOW} samples is"
    axes["level"].set(title=title, xlabel="seconds", ylabel="dB of full scale", xlim=(0, seconds))
    axes["level"].legend(loc="upper right")
    start, stop = cuts[len(cuts) // 2]
    part = samples[int(start * rate) : int(stop * rate)]
    axes["sound"].specgram(part, NFFT=1024, Fs=rate, noverlap=768, cmap="magma", vmin=-110)
    axes["sound"].set(title="One spoken part", xlabel="seconds", ylabel="Hz", ylim=(0, min(5_000, rate / 2)))
    if scores:
        axes["noise"].plot(list(scores), [s.recall for s in scores.values()], "o-", color="#009e73", label="recall")
        axes["noise"].plot(
            list(scores), [s.precision for s in scores.values()], "s--", color="#cc79a7", label="precision"
        )
        axes["noise"].set(
            title="How well it works in noise", xlabel="speech over noise, dB", ylabel="share of the time"
        )
        axes["noise"].set(ylim=(-0.05, 1.05))
        axes["noise"].legend(loc="lower right")
    write_picture(figure, path)


def _spans(axis: Any, spans: Any, height: tuple[float, float], color: str, label: str, alpha: float = 1.0) -> None:
    for number, (start, stop) in enumerate(spans):
        axis.axvspan(start, stop, *height, color=color, alpha=alpha, lw=0, label="_" * bool(number) + label)


if __name__ == "__main__":
    raise SystemExit(main())
