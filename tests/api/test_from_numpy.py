"""Arrays in memory as signals."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import scipy.signal

import hydrophone as hp
from hydrophone.connect import recording


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i2", "u1", ">i4", "c16", "c8"])
def test_samples_and_times(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hydrophone.api.samples.BLOCK", 100)
    x = (np.random.default_rng(1).normal(size=1234) * 20).astype("c16" if "c" in dtype else "f8")
    x = (x if "c" in dtype else np.abs(x)).astype(dtype)
    got = hp.from_numpy(x, rate="44.1kHz").to_arrow().sort_by("time")
    found = [complex(v["re"], v["im"]) for v in got["value"].to_pylist()] if "c" in dtype else got["value"].to_numpy()
    assert (found == x).all()
    assert got["time"].to_pylist() == [k * 10_000_000 // 441 for k in range(1234)]
    assert got.column_names == ["time", "value"]


def test_channels_keys_and_a_start_between_the_samples_of_the_epoch() -> None:
    x = np.random.default_rng(2).normal(size=(500, 3))
    read = hp.from_numpy({"a": x, "b": x[:10] * 2}, rate="44.1kHz", start="2026-01-01T00:00:00.123456789Z")
    got = read.to_arrow().sort_by([("key", "ascending"), ("time", "ascending")])
    assert got["key"].to_pylist() == ["a"] * 500 + ["b"] * 10
    assert (np.stack([got[f"value_{i}"].to_numpy() for i in range(3)], 1) == np.concatenate([x, x[:10] * 2])).all()
    assert got.schema.field("time").type == pa.timestamp("ns", "UTC")
    begin = 1_767_225_600_123_456_789
    assert got["time"].cast(pa.int64()).to_pylist()[:500] == [begin + k * 10_000_000 // 441 for k in range(500)]


def test_a_filter_over_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hydrophone.api.samples.BLOCK", 64)
    x = np.random.default_rng(3).normal(size=1000)
    got = hp.from_numpy(x, rate="1kHz", key=7).lowpass(100, 4).to_arrow().sort_by("time")
    wanted = scipy.signal.sosfilt(scipy.signal.butter(4, 100, fs=1000, output="sos"), x)
    np.testing.assert_allclose(got["value"].to_numpy(), wanted, atol=1e-12)


def test_nothing_is_a_signal_too() -> None:
    assert hp.from_numpy(np.zeros(0), rate="1kHz").to_arrow().num_rows == 0
    assert recording.BLOCK > 1


@pytest.mark.parametrize(
    ("x", "options", "told"),
    [
        (["a"], {}, "holds no samples"),
        ([True], {}, "an array of bool holds no samples"),
        (np.zeros((2, 2, 2)), {}, r"an array of shape \(2, 2, 2\) is no signal"),
        (3.0, {}, r"an array of shape \(\) is no signal"),
        ({}, {}, "the mapping holds no array"),
        ({"a": [1.0]}, {"key": "b"}, "leave key= out"),
        ({"a": [1.0], "b": [[1.0, 2.0]]}, {}, "different channels"),
        ({"a": [1.0], 2: [1.0]}, {}, "keys must be texts or whole numbers"),
        ([1.0], {"rate": "often"}, "cannot read 'often'"),
    ],
)
def test_what_is_no_signal_is_told(x: object, options: dict[str, object], told: str) -> None:
    with pytest.raises(hp.ParameterError, match=told):
        hp.from_numpy(x, **({"rate": "1kHz"} | options))
