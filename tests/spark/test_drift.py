"""Files that arrive in a stream with other types than those that were there when it started."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from tests.spark.test_streaming import arrive, folders, result

import hydrophone as hp

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def file(number: int, **kinds: pa.DataType) -> pa.Table:
    at = np.arange(10 * number, 10 * number + 10)
    plain = {"k": at % 2, "t": at * 1_000, "v": at / 2, "n": at}
    return pa.table({n: pa.array(c).cast(kinds[n]) if n in kinds else pa.array(c) for n, c in plain.items()})


def test_later_files_are_promoted_or_told_and_nothing_is_lost(spark: SparkSession, tmp_path: Path) -> None:
    """The folder is empty at first, and the columns are stated; then files of other types arrive, and at last one that does not fit."""
    folder, bad = tmp_path / "in", tmp_path / "in" / "part-0004.parquet"
    folder.mkdir()
    stated = {"k": "int64", "t": "int64", "v": "float64", "n": "int64"}
    source = hp.read.parquet(str(folder), key="k", time="t", progress=hp.delayed("1h"), schema=stated)

    def run() -> None:
        to = hp.write.parquet(str(tmp_path / "out"))
        source.start(spark, to=to, checkpoint=str(tmp_path / "c"), trigger="available").wait()

    narrow: dict[str, Any] = {"k": pa.int8(), "t": pa.int32(), "v": pa.float32(), "n": pa.uint16()}
    arrive(folder, [file(0), file(1, **narrow).select(["v", "n", "t", "k"])])
    arrive(
        folder, [file(2, n=pa.float64()), file(3).drop_columns("n")], first=2
    )  # whole numbers as floats; a column less
    run()
    found = result(tmp_path / "out").sort_by("t")
    assert found.schema.field("v").type == pa.float64() and found["t"].to_pylist() == [n * 1_000 for n in range(40)]
    assert found["v"].to_pylist() == [n / 2 for n in range(40)]
    assert found["n"].to_pylist() == [n if n < 30 else None for n in range(40)]
    fits = file(4)
    for column, values, says in [
        ("v", pa.array(["text"] * 10), "column 'v' is string, and the query reads it as double"),
        (
            "t",
            pa.array(range(10), pa.timestamp("ns")),
            r"column 't' is timestamp\[ns\], and the query reads it as int64",
        ),
        ("n", pa.array([0.5] * 10), "column 'n' is double, .* as int64, which does not hold 0.5"),
    ]:
        arrive(folder, [fits.set_column(fits.column_names.index(column), column, values)], first=4)
        with pytest.raises(hp.DataError, match=rf"part-0004\.parquet: {says}") as told:
            run()
        assert "write the file again" in str(told.value.hint) and folders(tmp_path / "out") == [0]
    bad.unlink()
    arrive(folder, [fits], first=4)
    run()
    assert sorted(result(tmp_path / "out")["t"].to_pylist()) == [n * 1_000 for n in range(50)]
