"""`asof`: every row of a long table with the last one before it of a shorter one; peers: Polars, pandas, DuckDB, Spark SQL, dbl-tempo.

Both tables are in the order of time; of 1,000 keys one has a third of the rows.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import hydrophone as hp
from hydrophone.bench.harness import Answer, Case
from hydrophone.bench.jobs import job
from hydrophone.bench.peers import asof_duckdb, asof_pandas, asof_polars, asof_spark_sql, asof_tempo
from hydrophone.bench.peers.outside import say_absent

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KEYS = 1_000
HOT = 1 / 3
SPAN = 3_600_000_000_000
"""Nanoseconds in which all rows lie."""
FILES = 8


def rows(count: int, seed: int, columns: Sequence[str]) -> pa.Table:
    """Rows in the order of time."""
    random = np.random.default_rng(seed)
    key = np.where(random.random(count) < HOT, 0, random.integers(0, KEYS, count))
    time = np.sort(random.integers(0, SPAN, count))
    return pa.table({"key": key, "time": time, **{name: random.random(count) for name in columns}})


def cases(quick: bool) -> Iterator[Case]:
    """In this process from memory, and on Spark from Parquet files; 10 columns, and without `--quick` also 100.

    With 100 columns the result has 8 GB, and pandas would hold it twice: it is left out there.
    """
    left, right = 10_000_000, 1_000_000
    widths = (10,) if quick else (10, 100)
    for columns in widths:
        tables = rows(left, 1, ["value"]), rows(right, 2, _names(columns))
        what = f"{left} x {right} rows, {columns} columns"
        peers = {"Polars": _polars(*tables), "DuckDB": _once(partial(asof_duckdb.asof, *tables), _answer)}
        if columns == 10:
            peers["pandas"] = _pandas(*tables)
        yield Case(f"local, {what}", _once(partial(ours, *tables), _answer), peers, 5)
    for columns in widths:
        yield from _on_spark(left, right, columns, 3)


def _names(columns: int) -> list[str]:
    return [f"c{i}" for i in range(columns)]


def ours(left: pa.Table, right: pa.Table) -> pa.Table:
    """The local engine."""
    a, b = (hp.from_arrow(t, key="key", time="time") for t in (left, right))
    return a.asof_join(b).to_arrow()


def _polars(left: pa.Table, right: pa.Table) -> Callable[[], Answer]:
    import polars as pl

    frames: list[Any] = [pl.from_arrow(t) for t in (left, right)]
    return _once(partial(asof_polars.asof, *frames), lambda found: _answer(found.to_arrow()))


def _pandas(left: pa.Table, right: pa.Table) -> Callable[[], Answer]:
    frames = left.to_pandas(), right.to_pandas()
    return _once(
        partial(asof_pandas.asof, *frames), lambda found: _answer(pa.Table.from_pandas(found, preserve_index=False))
    )


def _once(way: Callable[[], Any], answer: Callable[[Any], Answer]) -> Callable[[], Answer]:
    """Run the way each time, and make its answer out of the first result only, which is not timed."""
    known: list[Answer] = []

    def timed() -> Answer:
        found = way()
        if not known:
            known.append(answer(found))
        return known[0]

    return timed


def _answer(table: pa.Table) -> Answer:
    """How many rows, how many have a match, and the sums of the times and of all columns of the right."""
    columns = [n for n in table.column_names if n.startswith("c")]
    times = table["time_right"].cast(pa.float64(), safe=False)
    sums = [pc.sum(c).as_py() for c in (times, *(table[n] for n in columns))]
    return len(table), len(times) - times.null_count, *sums


def _on_spark(left: int, right: int, columns: int, runs: int) -> Iterator[Case]:
    from hydrophone.spark.session import session

    spark = session("hydrophone-bench")
    names = _names(columns)
    with tempfile.TemporaryDirectory() as name:
        for side, table in (("left", rows(left, 1, ["value"])), ("right", rows(right, 2, names))):
            folder = Path(name, side)
            folder.mkdir()
            size = -(-len(table) // FILES)
            for number in range(FILES):
                pq.write_table(table.slice(number * size, size), folder / f"part-{number}.parquet")

        def ours_there(tolerance: str | None) -> DataFrame:
            a, b = (hp.read.parquet(f"{name}/{side}", key="key", time="time") for side in ("left", "right"))
            found: DataFrame = a.asof_join(b, tolerance=tolerance).to_spark(spark)
            return found

        def theirs(way: Callable[[DataFrame, DataFrame], DataFrame]) -> DataFrame:
            return way(*(spark.read.parquet(f"{name}/{side}") for side in ("left", "right")))

        total = partial(_spark_answer, columns=names)
        peers = {"Spark SQL by hand": job(partial(theirs, asof_spark_sql.asof), total)}
        if reason := asof_tempo.absent():
            say_absent("dbl-tempo", reason)
        else:
            peers["dbl-tempo"] = job(partial(theirs, asof_tempo.asof), total)
        what = f"{left} x {right} rows, {columns} columns"
        yield Case(f"Spark, {what}", job(partial(ours_there, None), total), peers, runs)


def _spark_answer(frame: DataFrame, columns: Sequence[str]) -> Answer:
    sums = [f"sum({n})" for n in columns]
    (row,) = frame.selectExpr("count(*)", "count(time_right)", "sum(cast(time_right as double))", *sums).collect()
    return tuple(float(x) for x in row)
