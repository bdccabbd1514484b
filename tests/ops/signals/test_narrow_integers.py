"""Operators that give doubles compute in doubles: integers of any width, and single precision, give what the same doubles give."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hydrophone as hp

KINDS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def ends(kind: str) -> np.ndarray:
    """Numbers at the ends of a type, some of them equal in a row."""
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    values = np.random.default_rng(3).choice(np.array([low, low // 3 * 2, high // 3 * 2, high], kind), 120)
    values[50:60] = low
    return values


QUERIES: dict[str, Callable[[Any], Any]] = {
    "differentiate": lambda x: x.differentiate(),
    "teager": lambda x: x.teager(),
    "integrate": lambda x: x.integrate(),
    "integrate-rectangle": lambda x: x.integrate(rule="rectangle"),
    "over": lambda x: x / x,
    "scale": lambda x: x.scale(3.0),
    "zscore": lambda x: x.zscore(9),
    "normalise": lambda x: x.normalise(9),
    "detrend": lambda x: x.detrend(9),
    "ema": lambda x: x.ema(0.2),
    "envelope": lambda x: x.envelope(17),
    "fir": lambda x: x.fir([0.5, 0.5]),
    "savgol": lambda x: x.savgol(5, 2),
    "lowpass": lambda x: x.lowpass(100),
    "iir": lambda x: x.iir([1, 1], [1, -0.5]),
    "sta-lta": lambda x: x.sta_lta(3, 9),
    "sta-lta-recursive": lambda x: x.sta_lta(3, 9, recursive=True),
    "cfar": lambda x: x.cfar_score(cells=8),
    "cfar-average": lambda x: x.cfar_score(cells=8, noise="average"),
    "resample": lambda x: x.resample("1500us", fill=hp.linear()),
    "resample-poly": lambda x: x.resample_poly(up=3, down=2),
    "dwt": lambda x: x.dwt("db2", 2)[0],
    "window-detrend": lambda x: x.window(16).detrend(),
    "window-taper": lambda x: x.window(16).taper(),
    "window-power": lambda x: x.window(16).power(),
    "autocorrelate": lambda x: x.window(16).autocorrelate(),
    "welch": lambda x: x.welch(16, average=2),
    "unwindow-mean": lambda x: x.window(16, hop=4).unwindow("mean"),
    "tumble": lambda x: x.events("v").tumble("10ms").agg(s=hp.sum("v"), m=hp.mean("v"), d=hp.std("v")),
    **{f"moving-{k}": lambda x, k=k: x.moving(k, 5) for k in ("sum", "mean", "std", "energy", "rms", "median")},
    **{
        f"rolling-{k}": lambda x, k=k: x.rolling(k, 5, hop=2)
        for k in ("sum", "mean", "std", "energy", "power", "rms", "kurtosis", "crest")
    },
    "fir-whole": lambda x: x.fir([3, -2, 1]),
    "convolve": lambda x: x.convolve([3, -2, 1]),
    "correlate": lambda x: x.correlate([3, -2, 1]),
    "matched": lambda x: x.matched_filter([3, -2, 1]),
    "fir-ahead": lambda x: x.fir_ahead([3, -2, 1]),
    "window-convolve": lambda x: x.window(16).convolve([3, -2, 1]),
    "instantaneous": lambda x: x.envelope(17),
    "goertzel": lambda x: x.goertzel(100, 10),
    "shift-frequency": lambda x: x.shift_frequency(100),
    "sliding-dft": lambda x: x.sliding_dft(16),
    "stft": lambda x: x.stft(16),
    "norm": lambda x: x.norm(),
}
DOUBLE: dict[str, Callable[[Any], Any]] = {
    "sos-steady": lambda x: x.lowpass(100, initial="steady"),
    "single-pole": lambda x: x.single_pole(0.2),
    "dc-block": lambda x: x.dc_block(0.9),
    "notch": lambda x: x.notch(100),
    "decimate": lambda x: x.decimate(2),
    "hampel": lambda x: x.hampel(5),
}


SUMS = ("tumble", "moving-sum", "rolling-sum")
"""Of integers of 64 bits these are exact or an error, see test_numbers.py."""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", QUERIES)
def test_integers_and_the_same_doubles(name: str, kind: str) -> None:
    if name in SUMS and kind.endswith("64"):
        return
    values = ends(kind)
    narrow, wide = (QUERIES[name](_signal(v)).to_arrow() for v in (values, values.astype(float)))
    for column in narrow.column_names:
        found, expected = (_numbers(t[column]) for t in (narrow, wide))
        # Relative to the largest: differences of doubles of 64 bits lose digits that those of integers keep.
        scale = max(1.0, float(np.abs(expected[np.isfinite(expected)]).max(initial=0)))
        np.testing.assert_allclose(found / scale, expected / scale, rtol=1e-9, atol=1e-9, err_msg=column)


@pytest.mark.parametrize("name", [*QUERIES, *DOUBLE])
def test_what_is_double_was_computed_in_double(name: str) -> None:
    """From single precision, where the answer is double: its digits are those of the same numbers as doubles."""
    values = (np.random.default_rng(4).normal(size=120) * 1e19).astype(
        np.float32
    )  # squares have no room in single precision
    query = (QUERIES | DOUBLE)[name]
    single, double = query(_signal(values)), query(_signal(values.astype(float)))
    found, expected = single.to_arrow(), double.to_arrow()
    for column in found.column_names:
        if _is_double(found.schema.field(column).type):
            a, b = _numbers(found[column]), _numbers(expected[column])
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12 * np.abs(b[np.isfinite(b)]).max(initial=0))


def test_goertzel_of_single_precision_is_double() -> None:
    found = _signal(np.ones(20, np.float32)).goertzel(100, 10).to_arrow()
    assert _is_double(found.schema.field("value").type)


def test_differences_of_long_integers_stay_exact() -> None:
    stamps = np.array([2**62, 2**62 + 1, 2**62 + 3])  # a double would see no change here
    assert _signal(stamps).differentiate().to_arrow()["value"].to_pylist() == [1e3, 2e3]


def test_differences_of_unsigned_integers_may_be_negative() -> None:
    falling = np.array([5, 3, 4], np.uint64)
    assert _signal(falling).differentiate().to_arrow()["value"].to_pylist() == [-2e3, 1e3]


def _is_double(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        kind = kind.field(0).type
    return (kind.value_type if pa.types.is_list(kind) else kind) == pa.float64()


def _numbers(column: pa.ChunkedArray) -> np.ndarray:
    rows = column.to_pylist()
    return np.array([np.asarray(v["re"]) + 1j * np.asarray(v["im"]) if isinstance(v, dict) else v for v in rows]) * 1.0


def _signal(values: np.ndarray) -> Any:
    rows = pa.table({"t": np.arange(len(values)) * 1_000_000, "v": values})
    return hp.from_arrow(rows, time="t").signal("v").sample("1ms")
