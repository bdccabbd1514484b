"""HDF5 and plain binary files."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
from tests.connect.formats import nanoseconds, samples

import hydrophone as hp


def test_datasets_groups_and_attributes(tmp_path: Path) -> None:
    x, y = np.random.default_rng(1).normal(size=(2, 500))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["run/x"], file["run/y"], file["names"] = x, y.astype("<f4"), ["text", "is no signal"]
        file["run"].attrs["fs"], file["run/y"].attrs["t0"] = "25.6kHz", 10**9
    read = hp.read.hdf5(tmp_path, rate_attribute="fs", start_attribute="t0")
    got = read.to_arrow()
    assert (samples(got, dataset="run/x") == x).all()
    assert (samples(got, dataset="run/y") == y.astype(np.float32)).all()
    assert nanoseconds(got)[0] == 0
    assert (samples(hp.read.hdf5(tmp_path, "/run/x", rate="25.6kHz").to_arrow()) == x).all()


def test_channels_and_types(tmp_path: Path) -> None:
    x = np.random.default_rng(1).integers(-100, 100, (300, 3)).astype(">i2")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=x, chunks=(64, 2), compression="gzip", shuffle=True)
    read = hp.read.hdf5(tmp_path, rate="1kHz")
    assert read.node.type.channels == 3
    assert (samples(read.to_arrow()) == x).all()


def test_what_is_missing_is_told(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"], file["cube"] = np.zeros(3), np.zeros((2, 2, 2))
        file["x"].attrs["rate"] = "often"
    for options, told in (
        ({"dataset": "y"}, "has no dataset 'y'; it has: cube, x"),
        ({"dataset": "cube", "rate": "1kHz"}, "'cube' is float64 of shape .* which is no signal"),
        ({}, "attributes of 'x': period: cannot read 'often'"),
        ({"rate_attribute": "fs"}, "nothing tells the rate of 'x'"),
    ):
        with pytest.raises(hp.DataError, match=rf"a\.h5.*{told}"):
            hp.read.hdf5(tmp_path, **options)


@pytest.mark.parametrize("dtype", ["<i2", ">i4", "<u1", "<f4", ">f8", "<f2", "<c8"])
def test_binary_layouts(tmp_path: Path, dtype: str) -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=600) * 50
    x = (x + 1j * x[::-1] if "c" in dtype else np.abs(x)).astype(dtype)
    (tmp_path / "a.bin").write_bytes(b"head!" + x.tobytes())
    got = hp.read.binary(tmp_path, dtype=dtype, rate="44.1kHz", header=5).to_arrow()
    value = got["value"]
    if "c" in dtype:
        assert [complex(v["re"], v["im"]) for v in value.to_pylist()] == x.tolist()
    else:
        assert (value.to_numpy() == x).all()
    if "c" not in dtype:
        two = hp.read.binary(tmp_path, dtype=dtype, channels=2, rate="44.1kHz", header=5)
        assert (samples(two.to_arrow()) == x.reshape(-1, 2)).all()


def test_a_layout_that_does_not_fit_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(bytes(101))
    with pytest.raises(hp.DataError, match=r"a\.bin has 101 bytes behind its header, and a frame has 4"):
        hp.read.binary(tmp_path, dtype="<i2", channels=2, rate="1kHz")
    for wrong in ({"dtype": "text"}, {"channels": 0}, {"header": -1}, {"dtype": "<c8", "channels": 2}):
        with pytest.raises(hp.ParameterError, match=r"read\.binary"):
            hp.read.binary(tmp_path, **({"dtype": "<i2", "rate": "1kHz"} | wrong))
