"""`applications`: detect_audio, pipeline_leak and netmon, beside the rates that XStream's paper reports for its own.

The peer is a rate and not a program: so long the paper's machine (2.8 GHz) would take for as many samples or packets. Its answer is
the truth that the data was made with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from hydrophone.apps import detect_audio, netmon, pipeline_leak
from hydrophone.bench.harness import Answer, Case, Timed

SAMPLES_OF_DETECT_AUDIO = 7.5e6
SAMPLES_OF_PIPELINE = 4.3e6
PACKETS = 241_500
"""A second, in the paper's section II."""


def cases(quick: bool) -> Iterator[Case]:
    """The data is made before the clock runs."""
    yield _detect_audio(10 if quick else 60)
    yield _pipeline_leak(6 if quick else 30)
    for receivers in (3, netmon.RECEIVERS):
        yield _netmon(5_000 if quick else 100_000, receivers)


def _paper(amount: int, rate: float, answer: Answer) -> Mapping[str, Callable[[], Timed]]:
    return {"the paper's rate": lambda: Timed(amount / rate, answer)}


def _detect_audio(seconds: int) -> Case:
    recording = detect_audio.record(seconds, 20.0)
    query = detect_audio.heard(recording.signal)

    def ours() -> Answer:
        score = detect_audio.judge(recording, query.to_arrow())
        return score.precision, score.recall

    samples = seconds * detect_audio.RATE * len(detect_audio.MICROPHONES)
    return Case(f"detect_audio, {samples:,} samples", ours, _paper(samples, SAMPLES_OF_DETECT_AUDIO, (1, 1)))


def _pipeline_leak(seconds: int) -> Case:
    recording = pipeline_leak.record(seconds, 20.0, seed=2)
    query = pipeline_leak.cracks(recording.signal)

    def ours() -> Answer:
        score = pipeline_leak.judge(recording, query.to_arrow())
        return score.precision, score.recall

    samples = seconds * pipeline_leak.RATE * pipeline_leak.SENSORS
    return Case(f"pipeline_leak, {samples:,} samples", ours, _paper(samples, SAMPLES_OF_PIPELINE, (1, 1)))


def _netmon(count: int, receivers: int) -> Case:
    traffic = netmon.transmit(count, 0.0)
    heard = netmon.copies(traffic.signals[:receivers], traffic.lags.tolist()[:receivers])
    query = netmon.reconstructed(heard, (1,) * receivers)
    name = f"netmon, {count:,} packets of {8 * netmon.WORDS} bytes from {receivers} receivers"
    return Case(name, lambda: (len(query.to_arrow()),), _paper(count, PACKETS, (count,)))
