"""Streams beside tables at rest."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from hydrophone.engine.ingest import instants
from hydrophone.errors import ParameterError
from hydrophone.handles.query import Query
from hydrophone.io.files import list_files
from hydrophone.io.parquet import dataset
from hydrophone.ops.lookup import SINCE, UNTIL, Lookup, Reference
from hydrophone.plan.source import plain
from hydrophone.time import MAX_TIME, MIN_TIME

if TYPE_CHECKING:
    from hydrophone.handles.stream import Stream


class Tables(Query):
    """Methods of `Stream`."""

    def lookup(
        self,
        table: Any,
        *,
        on: str | Sequence[str] | Mapping[str, str],
        how: str = "inner",
        columns: Sequence[str] | None = None,
        since: str | None = None,
        until: str | None = None,
    ) -> Stream:
        """Add the columns of a table at rest to every event.

        Parameters
        ----------
        table : Arrow table, pandas or Polars or Spark DataFrame, or path of Parquet files
            Read now, once; it travels with the query.
        on : columns that must be equal, or ``{"ours": "theirs"}``
        how : "inner" leaves out events that find no row, "left" gives them nulls
        columns : those of the table that are added; by default all
        since, until : columns of the table that say from when to when a row holds
            Without `until`, or where it is null, a row holds until the next one of the same `on`, or for ever.

        Examples
        --------
        >>> import pyarrow as pa, hydrophone as hp
        >>> readings = hp.from_arrow(pa.table({"sensor": [1, 1, 2], "t": [5, 15, 5], "v": [1.0, 1.0, 1.0]}), key="sensor", time="t")
        >>> gains = pa.table({"sensor": [1, 1], "from": [0, 10], "gain": [2.0, 3.0]})
        >>> readings.lookup(gains, on="sensor", since="from").to_pandas()["gain"].tolist()
        [2.0, 3.0]
        """
        rows = _arrow(table)
        rows = rows.cast(pa.schema([f.with_type(plain(f.type)) for f in rows.schema]))
        pairs = {on: on} if isinstance(on, str) else dict(on) if isinstance(on, Mapping) else {c: c for c in on}
        named = {*pairs.values(), *(columns or ()), *filter(None, (since, until))}
        for name in sorted(named - set(rows.column_names)):
            raise ParameterError(f"lookup: the table has no column {name!r}; it has: {', '.join(rows.column_names)}")
        kept = [n for n in rows.column_names if n not in (since, until) and (columns is None or n in columns)]
        theirs = list(pairs.values())
        held = rows.select(theirs + [n for n in kept if n not in theirs])
        start, end = _holds(rows, theirs, since, until)
        held = held.append_column(SINCE, pa.array(start)).append_column(UNTIL, pa.array(end))
        return self._then(Lookup, reference=Reference(held), on=tuple(pairs.items()), how=how)


def _arrow(table: Any) -> pa.Table:
    """Whatever people have, as an Arrow table."""
    if isinstance(table, str | PathLike):
        path = os.fspath(table)
        return dataset(list_files(path, what="lookup"), path).to_table()
    if isinstance(table, pa.Table):
        return table
    if isinstance(table, ds.Dataset):
        return table.to_table()
    for method in ("toArrow", "to_arrow"):
        if hasattr(table, method):
            return getattr(table, method)()
    if hasattr(table, "columns") and hasattr(table, "iloc"):
        return pa.Table.from_pandas(table, preserve_index=False)
    raise ParameterError(
        f"lookup: a {type(table).__name__} is no table", hint="give an Arrow table, a DataFrame or a path"
    )


def _holds(table: pa.Table, on: list[str], since: str | None, until: str | None) -> tuple[Any, Any]:
    """From when to when every row holds."""
    start = np.full(len(table), MIN_TIME) if since is None else instants(table[since], since)
    if until is None and since is not None:
        return start, _until_next(table, on, start)
    if until is None:
        return start, np.full(len(table), MAX_TIME)
    open_ = pc.is_null(table[until]).to_numpy()
    filled = pc.fill_null(table[until], pa.scalar(0, pa.int64()).cast(table[until].type))
    end = np.where(open_, MAX_TIME, instants(filled, until))
    if (end <= start).any():
        raise ParameterError(f"lookup: {int((end <= start).sum())} rows of the table end before they begin")
    return start, end


def _until_next(table: pa.Table, on: list[str], start: Any) -> Any:
    """Where only the begin is told, a row holds until the next one of the same values."""
    order = pa.table(
        [*(table[n] for n in on), pa.array(start), pa.array(np.arange(len(table)))], names=[*on, SINCE, UNTIL]
    )
    order = order.sort_by([(n, "ascending") for n in (*on, SINCE)])
    row, begin = order[UNTIL].to_numpy(), order[SINCE].to_numpy()
    same = np.ones(max(len(table) - 1, 0), np.bool_)
    for name in on:
        column = order[name].combine_chunks()
        same &= pc.fill_null(pc.equal(column.slice(1), column.slice(0, max(len(column) - 1, 0))), False).to_numpy(
            zero_copy_only=False
        )
    end = np.full(len(table), MAX_TIME)
    end[row[:-1][same]] = begin[1:][same]
    return end
