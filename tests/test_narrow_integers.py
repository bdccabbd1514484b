"""Operators that give floats compute in floats: small integers give what the same numbers give as doubles."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hydrophone as hp

VALUES = np.random.default_rng(3).choice(np.array([-32768, -20000, 20000, 32767], np.int16), 120)
VALUES[50:60] = -32768

QUERIES: dict[str, Callable[[Any], Any]] = {
    "differentiate": lambda x: x.differentiate(),
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
}


@pytest.mark.parametrize("name", QUERIES)
def test_small_integers_and_the_same_doubles(name: str) -> None:
    narrow, wide = (QUERIES[name](_signal(v)).to_arrow() for v in (VALUES, VALUES.astype(float)))
    for column in narrow.column_names:
        found, expected = (np.array(t[column].to_pylist(), float) for t in (narrow, wide))
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9, err_msg=column)


def test_differences_of_long_integers_stay_exact() -> None:
    stamps = np.array([2**62, 2**62 + 1, 2**62 + 3])  # a double would see no change here
    assert _signal(stamps).differentiate().to_arrow()["value"].to_pylist() == [1e3, 2e3]


def test_differences_of_unsigned_integers_may_be_negative() -> None:
    falling = np.array([5, 3, 4], np.uint64)
    assert _signal(falling).differentiate().to_arrow()["value"].to_pylist() == [-2e3, 1e3]


def _signal(values: np.ndarray) -> Any:
    rows = pa.table({"t": np.arange(len(values)) * 1_000_000, "v": values})
    return hp.from_arrow(rows, time="t").signal("v").sample("1ms")
