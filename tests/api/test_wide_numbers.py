"""Numbers that are wider than Arrow's, in parameters, functions, frames and text: taken as doubles where that is said, or refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import hydrophone as hp

WIDE = np.longdouble


def signal() -> Any:
    rows = pa.table({"t": np.arange(32) * 1_000_000, "v": np.sin(np.arange(32.0))})
    return hp.from_arrow(rows, time="t").signal("v").sample("1ms")


GIVEN: dict[str, Callable[[Any], Any]] = {
    "fir": lambda kind: signal().fir(np.array([0.5, 0.25], kind)),
    "iir": lambda kind: signal().iir(np.array([0.5], kind), np.array([1, 0.5], kind)),
    "sos": lambda kind: signal().sos(np.array([[1, 0, 0, 1, 0.5, 0]], kind)),
    "ema": lambda kind: signal().ema(kind(0.5)),
    "lowpass": lambda kind: signal().lowpass(kind(100)),
    "notch": lambda kind: signal().notch(kind(100), q=kind(3)),
    "taper": lambda kind: signal().window(4).taper(np.ones(4, kind)),
    "convolve": lambda kind: signal().window(4).convolve(np.ones(2, kind)),
    "stft": lambda kind: signal().stft(4, window=np.ones(4, kind)),
    "resample_poly": lambda kind: signal().resample_poly(up=2, down=1, window=np.ones(5, kind)),
    "map": lambda kind: signal().map(lambda x: x.astype(kind)),
    "map-windows": lambda kind: signal().window(4).map(lambda x: x.astype(kind)),
    "reduce": lambda kind: signal().window(4).reduce(lambda x: x.sum(axis=1).astype(kind)),
    "fill_with": lambda kind: signal().resample(
        "500us", fill=hp.fill_with(lambda at, v: v[:, 0].astype(kind), points=2)
    ),
}


@pytest.mark.parametrize("name", GIVEN)
def test_extended_precision_gives_the_answer_of_doubles(name: str) -> None:
    found, expected = GIVEN[name](WIDE).to_arrow(), GIVEN[name](np.float64).to_arrow()
    assert found.equals(expected) and len(found)


def test_complex_numbers_of_extended_precision() -> None:
    wide, double = (signal().map(lambda x, kind=kind: x.astype(kind)).to_arrow() for kind in ("G", "D"))
    assert wide.equals(double)


@pytest.mark.parametrize(
    "column",
    [
        np.ones(1, WIDE),
        np.ones(1, complex),
        [2**70],
        [object()],
        pd.arrays.SparseArray([1]),
    ],
    ids=["extended", "complex", "large", "objects", "sparse"],
)
def test_columns_of_pandas_that_arrow_cannot_hold_are_refused(column: Any) -> None:
    frame = pd.DataFrame({"t": [1], "v": column})
    with pytest.raises(hp.ParameterError, match=r"from_pandas: Arrow cannot hold this frame: .") as told:
        hp.from_pandas(frame, time="t")
    assert told.value.hint


@pytest.mark.parametrize("kind", [pl.Int128, pl.Object])
def test_columns_of_polars_that_arrow_cannot_hold_are_refused(kind: Any) -> None:
    frame = pl.DataFrame({"t": [1], "v": pl.Series([2**100], dtype=kind)})
    stream = hp.from_arrow(pa.table({"t": [1], "n": [1]}), time="t")
    with pytest.raises(
        hp.ParameterError, match=r"from_polars: (Arrow cannot hold this frame|column 'v' holds Python objects)"
    ):
        hp.from_polars(frame, time="t")
    with pytest.raises(
        hp.ParameterError, match=r"lookup: (Arrow cannot hold this frame|column 'v' holds Python objects)"
    ):
        stream.lookup(frame, on={"n": "t"})


@pytest.mark.parametrize(
    "rows", ["1,18446744073709551615\n", "1,0.5\n2,-99999999999999999999\n", "1,12345678901234567890\n"]
)
def test_integers_of_csv_without_room_in_64_bits_are_not_rounded(tmp_path: Path, rows: str) -> None:
    (tmp_path / "a.csv").write_text("t,v\n1,7\n")
    (tmp_path / "b.csv").write_text("t,v\n" + rows)
    with pytest.raises(hp.DataError, match=r"b\.csv: column 'v' holds the integer -?\d{20}, which 64 bits do not hold"):
        hp.read.csv(tmp_path, time="t").to_arrow()
    stated = hp.read.csv(tmp_path, time="t", types={"v": "float64"})
    assert len(stated.to_arrow()) == 1 + rows.count("\n")


def test_large_doubles_of_csv_are_doubles(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("t,v\n1,1e20\n2,100000000000000000000\n3,1e300\n4,inf\n5,\n")
    assert hp.read.csv(tmp_path, time="t").to_arrow()["v"].to_pylist() == [1e20, 1e20, 1e300, float("inf"), None]


def test_a_tolerance_without_end_is_called_so() -> None:
    stream = hp.from_arrow(pa.table({"t": [1], "v": [1.0]}), time="t")
    with pytest.raises(hp.ParameterError, match="tolerance has no end"):
        stream.asof_join(stream, tolerance=2**63 - 1)


def test_the_difference_of_samples_is_not_that_of_sets() -> None:
    with pytest.raises(AttributeError, match=r"write difference\(\)$"):
        signal().diff()
    with pytest.raises(AttributeError, match=r"write overlap_add\(\)\.difference\(\)$"):
        signal().window(4).diff()
