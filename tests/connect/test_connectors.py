"""A connector is one file: a format of files that this file alone knows runs in this process, in slices of time and as a stream."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

import hydrophone as hp
from hydrophone.connect.file_data import FileData
from hydrophone.connect.files import File
from hydrophone.errors import DataError
from hydrophone.plan.data import Piece, Times

cloudpickle.register_pickle_by_value(__import__(__name__, fromlist=["_"]))  # tasks cannot import this file

HEADER = "<4sqqq"  # mark, station, time of the first sample in ns, period in ns
SIZE = struct.calcsize(HEADER)


@dataclass(frozen=True, eq=False)
class Recording(FileData):
    """Files of float64 behind a header: one station, one period. A piece is a block of samples."""

    kind = "recording"
    suffixes = (".rec",)

    block: int = 100

    def schema_of(self, path: str) -> pa.Schema:
        return pa.schema({"station": pa.int64(), "ts": pa.int64(), "value": pa.float64()})

    def pieces_of(self, file: File, columns: Sequence[str], times: Times) -> Sequence[Piece]:
        _, first, period = header(file.path)
        edges = range(0, samples(file.path), self.block)
        rows = [min(self.block, samples(file.path) - e) for e in edges]
        begins = [first + e * period for e in edges]
        return [
            Piece(file, i, n, 8 * n, begin, times.ended(begin + (n - 1) * period), known=True)
            for i, (n, begin) in enumerate(zip(rows, begins, strict=True))
        ]

    def read_file(
        self, path: str, numbers: Sequence[int] | None, columns: Sequence[str], where: pc.Expression | None
    ) -> Iterator[pa.Table]:
        station, first, period = header(path)
        values = np.fromfile(path, np.float64, samples(path), offset=SIZE)
        for number in range(-(-len(values) // self.block)) if numbers is None else numbers:
            index = np.arange(number * self.block, min((number + 1) * self.block, len(values)))
            known = {"station": np.full(len(index), station), "ts": first + index * period, "value": values[index]}
            yield pa.table({name: known[name] for name in columns})


def header(path: str) -> tuple[int, int, int]:
    with open(path, "rb") as file:
        given = file.read(SIZE)
    if len(given) < SIZE or not given.startswith(b"REC1"):
        raise DataError(f"read.recording: {path}: no recording")
    return struct.unpack(HEADER, given)[1:]


def samples(path: str) -> int:
    count, rest = divmod(os.path.getsize(path) - SIZE, 8)
    if rest:
        raise DataError(f"read.recording: {path} ends in the middle of a sample")
    return count


def write(path: Path, station: int, first: int, values: Any, period: int = 10) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}")
    draft.write_bytes(struct.pack(HEADER, b"REC1", station, first, period) + np.asarray(values, np.float64).tobytes())
    draft.rename(path)


def read(folder: Path) -> hp.Stream:
    return hp.read.data(Recording(str(folder)), key="station", time="ts", progress=hp.delayed("6us"))


def query(folder: Path) -> Any:
    return read(folder).signal("value").sample(10).fir([0.25, 0.5, 0.25])


def hour(folder: Path, number: int) -> None:
    for station in (1, 2):
        values = np.random.default_rng([station, number]).normal(size=500)
        write(folder / f"{number}-{station}.rec", station, number * 5000, values)


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(zip(*(table[n].to_pylist() for n in ("station", "ts", "value")), strict=True))


def oracle(count: int) -> list[tuple[int, int, float]]:
    found = []
    for station in (1, 2):
        x = np.concatenate([np.random.default_rng([station, n]).normal(size=500) for n in range(count)])
        y = np.convolve(x, [0.25, 0.5, 0.25])[: len(x)]
        found += [(station, i * 10, v) for i, v in enumerate(y.tolist())]
    return sorted(found)


def test_in_this_process(tmp_path: Path) -> None:
    for n in range(3):
        hour(tmp_path, n)
    got = rows(query(tmp_path).to_arrow())
    assert [r[:2] for r in got] == [r[:2] for r in oracle(3)]
    np.testing.assert_allclose([r[2] for r in got], [r[2] for r in oracle(3)], rtol=1e-13, atol=1e-15)
    assert rows(pa.concat_tables(query(tmp_path).batches(70))) == got


@pytest.mark.spark
@pytest.mark.parametrize(("plan", "options"), [("slices", {"slices": 4}), ("shards", {"shards": 2}), ("auto", {})])
def test_tasks_of_a_batch(spark: SparkSession, tmp_path: Path, plan: Any, options: dict[str, int]) -> None:
    for n in range(3):
        hour(tmp_path, n)
    got = query(tmp_path).to_spark(spark, plan=plan, **options).toArrow()
    assert rows(got) == rows(query(tmp_path).to_arrow())


def test_statistics_choose_slices(tmp_path: Path) -> None:
    hour(tmp_path, 0)
    assert query(tmp_path).explain("spark").startswith("plan: slices")


@pytest.mark.spark
def test_arriving_files(spark: SparkSession, tmp_path: Path) -> None:
    hour(tmp_path / "in", 0)
    to, checkpoint = hp.write.parquet(str(tmp_path / "out")), str(tmp_path / "ckpt")
    for n in (1, 2):  # the second start goes on
        hour(tmp_path / "in", n)
        running = query(tmp_path / "in").start(spark, to=to, checkpoint=checkpoint, shards=2, trigger="available")
        running.wait()
    got = rows(hp.read.parquet(str(tmp_path / "out"), key="station", time="ts").to_arrow())
    wanted = rows(query(tmp_path / "in").to_arrow())
    # The mark is 6 us behind the last sample, which is at 14.99 us.
    assert got == [r for r in wanted if r[1] < 14_990 - 6_000]


def test_a_file_that_ends_early_is_told_on_every_way(tmp_path: Path) -> None:
    hour(tmp_path, 0)
    cut = tmp_path / "0-1.rec"
    cut.write_bytes(cut.read_bytes()[:-3])
    with pytest.raises(hp.DataError, match=r"0-1\.rec ends in the middle of a sample"):
        query(tmp_path).to_arrow()
    with pytest.raises(hp.DataError, match=r"0-1\.rec ends in the middle of a sample"):
        query(tmp_path).explain("spark")


def test_other_columns_than_planned_are_an_error(tmp_path: Path) -> None:
    """Values that the planned type holds are brought to it, as everywhere."""
    hour(tmp_path, 0)
    found = read(tmp_path)

    class Changed(Recording):
        def schema_of(self, path: str) -> pa.Schema:
            return super().schema_of(path).set(2, pa.field("value", pa.string()))

    wrong = hp.read.data(Changed(str(tmp_path)), key="station", time="ts")
    with pytest.raises(hp.DataError, match=r"column 'value' is double, and the query reads it as string"):
        wrong.to_arrow()
    assert len(found.to_arrow()) == 1000
