"""Operators on rows of the catalogue, against pandas, Polars and NumPy.

Rows come in the order of time, those of all keys in turn. pandas works in one thread, Polars in as many as it says.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl
import pyarrow as pa

import hydrophone as hp
from hydrophone.bench.catalogue_entry import PERIOD, RowEntry

Array = npt.NDArray[Any]
POLARS = f"Polars, {pl.thread_pool_size()} threads"
BUCKET = 100 * PERIOD


@cache
def rows_of_keys(keys: int, total: int) -> pa.Table:
    """Readings of all keys, one period apart."""
    length = total // keys
    return pa.table(
        {
            "key": np.tile(np.arange(keys), length),
            "time": np.repeat(np.arange(length) * PERIOD, keys),
            "value": np.random.default_rng(3).normal(size=keys * length),
        }
    )


@cache
def _other(keys: int, total: int) -> pa.Table:
    """A tenth as many rows, halfway between the others."""
    length = max(total // keys // 10, 1)
    return pa.table(
        {
            "key": np.tile(np.arange(keys), length),
            "time": np.repeat(np.arange(length) * 10 * PERIOD + PERIOD // 2, keys),
            "level": np.random.default_rng(4).normal(size=keys * length),
        }
    )


def _beside(table: pa.Table) -> pa.Table:
    keys = int(table["key"].to_numpy().max()) + 1
    return _other(keys, len(table))


def numbers(column: str) -> Any:
    """The values of a column in order of size: rows may come in any order."""

    def found(result: Any) -> Array:
        if isinstance(result, np.ndarray):
            return np.sort(result.astype(float))
        return np.sort(np.asarray(result[column].to_numpy(), float))

    return found


def _cells(table: pa.Table) -> Array:
    window = table["time"].to_numpy() // BUCKET
    return np.asarray(table["key"].to_numpy() * (int(window.max()) + 1) + window)


def _counts(table: pa.Table) -> Array:
    found = np.bincount(_cells(table))
    return found[found > 0]


def _sums(table: pa.Table) -> Array:
    cells = _cells(table)
    found = np.bincount(cells, table["value"].to_numpy())
    return np.asarray(found[np.bincount(cells) > 0])


def _grouped(table: pa.Table, what: Any) -> pl.DataFrame:
    frame: Any = pl.from_arrow(table)
    return frame.group_by("key", pl.col("time") // BUCKET).agg(what.alias("x"))


def _pandas_grouped(table: pa.Table, how: str) -> Any:
    frame = pd.DataFrame({name: table[name].to_numpy() for name in table.column_names})
    return frame.groupby(["key", frame["time"] // BUCKET])["value"].agg(how).rename("x").reset_index()


def _over(table: pa.Table, what: Any) -> pl.DataFrame:
    frame: Any = pl.from_arrow(table)
    return frame.select(what.over("key").alias("x")).drop_nulls()


def _merged(table: pa.Table) -> Any:
    frame: Any = pl.from_arrow(table)
    return frame.join_asof(pl.from_arrow(_beside(table)), on="time", by="key", check_sortedness=False)


def _pandas_merged(table: pa.Table) -> Any:
    left, right = (pd.DataFrame({name: t[name].to_numpy() for name in t.column_names}) for t in (table, _beside(table)))
    return pd.merge_asof(left, right, on="time", by="key")


def _sessions(table: pa.Table) -> pl.DataFrame:
    frame: Any = pl.from_arrow(table)
    frame = frame.filter(pl.col("value") > 0)
    late = (pl.col("time").diff() >= 4 * PERIOD).fill_null(value=True).cum_sum().over("key")
    return frame.with_columns(late.alias("n")).group_by("key", "n").agg(pl.len().alias("x"))


def _sliding(table: pa.Table) -> Any:
    frame: Any = pl.from_arrow(table)
    windows = frame.group_by_dynamic(
        "time", every=f"{BUCKET // 2}i", period=f"{BUCKET}i", group_by="key", offset=f"-{BUCKET // 2}i"
    )
    return windows.agg(pl.col("value").mean().alias("x"))


def _largest(table: pa.Table) -> pl.DataFrame:
    frame: Any = pl.from_arrow(table)
    return frame.group_by("key", pl.col("time") // BUCKET).agg(pl.col("value").top_k(3).alias("x")).explode("x")


def _frame(table: pa.Table) -> Any:
    return pl.from_arrow(table)


def _names(table: pa.Table) -> pa.Table:
    keys = int(table["key"].to_numpy().max()) + 1
    return pa.table({"key": np.arange(keys), "gain": np.linspace(1, 2, keys)})


def _between(table: pa.Table) -> Array:
    """Twice as many samples, on straight lines: all keys have rows at the same times."""
    keys = int(table["key"].to_numpy().max()) + 1
    known = table["value"].to_numpy().reshape(-1, keys)
    out = np.empty((2 * len(known) - 1, keys))
    out[::2] = known
    out[1::2] = (known[1:] + known[:-1]) / 2
    return out.reshape(-1)


ROWS = (
    RowEntry(
        "tumble, count",
        lambda s, t: s.tumble(BUCKET).agg(x=hp.count()),
        {
            "NumPy bincount": _counts,
            POLARS: lambda t: _grouped(t, pl.len()),
            "pandas groupby": lambda t: _pandas_grouped(t, "count"),
        },
        numbers("x"),
    ),
    RowEntry(
        "tumble, sum",
        lambda s, t: s.tumble(BUCKET).agg(x=hp.sum("value")),
        {
            "NumPy bincount": _sums,
            POLARS: lambda t: _grouped(t, pl.col("value").sum()),
            "pandas groupby": lambda t: _pandas_grouped(t, "sum"),
        },
        numbers("x"),
    ),
    RowEntry(
        "tumble, std",
        lambda s, t: s.tumble(BUCKET).agg(x=hp.std("value")),
        {POLARS: lambda t: _grouped(t, pl.col("value").std(ddof=0))},
        numbers("x"),
    ),
    RowEntry(
        "tumble, median",
        lambda s, t: s.tumble(BUCKET).agg(x=hp.quantile("value", 0.5)),
        {
            POLARS: lambda t: _grouped(t, pl.col("value").median()),
            "pandas groupby": lambda t: _pandas_grouped(t, "median"),
        },
        numbers("x"),
    ),
    RowEntry(
        "sliding, mean",
        lambda s, t: s.sliding(BUCKET, every=BUCKET // 2).agg(x=hp.mean("value")),
        {POLARS: _sliding},
        numbers("x"),
    ),
    RowEntry(
        "session, count",
        lambda s, t: s.where(hp.col("value") > 0).session(4 * PERIOD).agg(x=hp.count()),
        {POLARS: _sessions},
        numbers("x"),
    ),
    RowEntry(
        "last_n, mean of 20 rows",
        lambda s, t: s.last_n(20).agg(x=hp.mean("value")),
        {POLARS: lambda t: _over(t, pl.col("value").rolling_mean(20, min_samples=1))},
        numbers("x"),
    ),
    RowEntry(
        "pairs",
        lambda s, t: s.pairs(),
        {POLARS: lambda t: _over(t, pl.col("value").shift(1)).rename({"x": "value_before"})},
        numbers("value_before"),
    ),
    RowEntry(
        "where",
        lambda s, t: s.where(hp.col("value") > 0),
        {POLARS: lambda t: _frame(t).filter(pl.col("value") > 0)},
        numbers("value"),
    ),
    RowEntry(
        "with_columns",
        lambda s, t: s.with_columns(x=hp.col("value") * 2 + 1),
        {POLARS: lambda t: _frame(t).with_columns(x=pl.col("value") * 2 + 1)},
        numbers("x"),
    ),
    RowEntry(
        "sort", lambda s, t: s.sort(), {POLARS: lambda t: _frame(t).sort("time", maintain_order=True)}, numbers("value")
    ),
    RowEntry(
        "top_k, 3 rows",
        lambda s, t: s.top_k(3, by="value", size=BUCKET),
        {POLARS: lambda t: _largest(t).rename({"x": "value"})},
        numbers("value"),
    ),
    RowEntry(
        "asof_join",
        lambda s, t: s.asof_join(hp.from_arrow(_beside(t), key="key", time="time")),
        {POLARS: _merged, "pandas merge_asof": _pandas_merged},
        numbers("level"),
    ),
    RowEntry(
        "lookup",
        lambda s, t: s.lookup(_names(t), on="key"),
        {POLARS: lambda t: _frame(t).join(_frame(_names(t)), on="key")},
        numbers("gain"),
    ),
    RowEntry(
        "signal and sample, linear",
        lambda s, t: s.signal("value").sample(PERIOD // 2, fill=hp.linear()),
        {"NumPy": _between},
        numbers("value"),
    ),
)
