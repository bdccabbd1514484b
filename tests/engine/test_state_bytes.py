"""What operators keep of a key: as many bytes as they say, and no more however long the signal runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scipy.signal

import hydrophone as hp
from hydrophone.compiler.compile import lower
from hydrophone.engine.pipeline import Pipeline
from hydrophone.model.batch import Progress, Segments
from hydrophone.model.state import SlotArrays
from hydrophone.model.timebase import Timebase, Timebases

PERIOD, KEYS, CHUNK = 1_000_000, 8, 100
SECTIONS = scipy.signal.butter(4, 0.2, output="sos")
TAPS = np.hanning(34)[1:-1]


class Leaky(hp.DigitalFilter):
    forward, backward, missing = 1, 1, "reset"

    def compute(self, x: Any, y: Any) -> Any:
        return 0.05 * x[-1] + 0.95 * y[-1]


QUERIES: dict[str, Callable[[hp.UniformSignal], Any]] = {
    "fir": lambda x: x.fir(TAPS),
    "iir": lambda x: x.iir([0.1], [1, -0.9]),
    "sos": lambda x: x.sos(SECTIONS),
    "ema": lambda x: x.ema(0.1),
    "filtfilt": lambda x: x.filtfilt(SECTIONS),
    "hilbert": lambda x: x.hilbert(65),
    "savgol": lambda x: x.savgol(11, 2),
    "filter": lambda x: x.filter(Leaky()),
    "moving": lambda x: x.moving_mean(50, missing="skip"),
    "median": lambda x: x.moving_median(25),
    "kurtosis": lambda x: x.kurtosis(64, hop=16),
    "hampel": lambda x: x.hampel(7),
    "zscore": lambda x: x.zscore(50),
    "detrend": lambda x: x.detrend(50),
    "difference": lambda x: x.difference(3),
    "integrate": lambda x: x.integrate(),
    "resample": lambda x: x.resample("300us"),
    "resample_poly": lambda x: x.resample_poly(up=3, down=2),
    "upsample": lambda x: x.upsample(2),
    "decimate": lambda x: x.decimate(4),
    "rfft": lambda x: x.window(256, hop=64).rfft(),
    "istft": lambda x: x.stft(64).istft(),
    "sliding_dft": lambda x: x.sliding_dft(64),
    "welch": lambda x: x.welch(64, average=4),
    "dwt": lambda x: x.dwt("haar", 2)[0],
    "trigger": lambda x: x.trigger(0.99, 0.5, report="100ms"),
    "find_peaks": lambda x: x.find_peaks(0.9, distance=5),
    "zero_crossings": lambda x: (x - 0.5).zero_crossings(),
    "sta_lta": lambda x: x.sta_lta(10, 100),
    "cfar": lambda x: x.cfar_score(cells=32),
    "shift": lambda x: x.shift(-5),
    "combine": lambda x: x.fir(TAPS) + x.shift(-20),
}


def signal() -> hp.UniformSignal:
    row = pa.table({"key": [0], "start": [0], "values": [[0.0]]})
    return hp.from_segments(row, key="key", time="start", samples="values", period=PERIOD)


def most(query: Any, chunks: int) -> tuple[int, Pipeline]:
    """The largest state while a signal comes in chunks, and the pipeline."""
    pipeline, peak = Pipeline(lower([query.node]).roots), 0
    slot = pipeline.keys(pipeline.ports[0]).slots([pa.array(np.arange(KEYS))])
    base, rng = Timebases.shared(Timebase.every(PERIOD)), np.random.default_rng(0)
    offsets = np.arange(KEYS + 1) * CHUNK
    for first in range(0, chunks * CHUNK, CHUNK):
        some = Segments(slot, np.full(KEYS, first), offsets, rng.random(KEYS * CHUNK), base)
        pipeline.step(0, some)
        pipeline.advance([Progress((first + CHUNK) * PERIOD)])
        pipeline.drain()
        peak = max(peak, pipeline.state_bytes)
    return peak, pipeline


@pytest.mark.parametrize("name", QUERIES)
def test_state_does_not_grow_with_time(name: str) -> None:
    query = QUERIES[name](signal())
    few, _ = most(query, 20)
    many, pipeline = most(query, 120)
    assert many <= 1.2 * few  # what waits for progress differs from chunk to chunk
    for kernel in (s.kernel for s in pipeline.stations.values() if s.kernel is not None):
        for state in kernel.states().values():
            if isinstance(state, SlotArrays) and len(state):
                assert state.nbytes <= state.bytes_per_slot * len(state) + 1 + len(state) // 1024


@pytest.mark.parametrize(
    ("query", "size"),
    [
        (lambda x: x.fir(TAPS), 31 * 8 + 17),
        (lambda x: x.fir(TAPS + 1j), 31 * 16 + 17),
        (lambda x: x.mean(64, hop=8), 63 * 8 + 17 + 17),
        (lambda x: x.mean(64, hop=8, missing="skip"), 63 * 8 + 17 + 63 + 17),
        (lambda x: x.window(256), 255 * 8 + 17 + 9),
    ],
    ids=["fir", "fir-complex", "mean", "mean-skip", "window"],
)
def test_explain_says_how_many_bytes_a_key_takes(query: Callable[[hp.UniformSignal], Any], size: int) -> None:
    assert f", state {size:,} B a key" in query(signal()).explain("lowered").splitlines()[0]
