"""Streams beside tables at rest."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, Generic

import narwhals as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hydrophone.api.query import Query, StreamT
from hydrophone.connect.arrow import frame_table, polars_table
from hydrophone.connect.files import list_files
from hydrophone.connect.parquet import ParquetData
from hydrophone.engine.ingest import instants
from hydrophone.errors import ParameterError, SignalTypeError
from hydrophone.model.halves import without_halves
from hydrophone.model.time import MAX_TIME, MIN_TIME
from hydrophone.ops.relational.lookup import SINCE, UNTIL, Lookup, LookupMany, Reference
from hydrophone.plan.source import plain_type
from hydrophone.plan.types import CLOCKS, DataType, clock_of


class Tables(Query, Generic[StreamT]):
    """Methods of `Stream`."""

    def lookup(
        self,
        table: Any,
        *,
        on: str | Sequence[str] | Mapping[str, str] | None = None,
        how: str = "inner",
        columns: Sequence[str] | None = None,
        since: str | None = None,
        until: str | None = None,
        many: bool = False,
    ) -> StreamT:
        """Add the columns of a table at rest to every event.

        Parameters
        ----------
        table : Arrow table, pandas or Polars or Spark DataFrame, or path of Parquet files
            Read now, once; it travels with the query.
        on : columns that must be equal, or ``{"ours": "theirs"}``; by default the key
        how : "inner" leaves out events that find no row, "left" gives them nulls
        columns : those of the table that are added; by default all
        since, until : columns of the table that say from when to when a row holds
            Without `until`, or where it is null, a row holds until the next one of the same `on`, or for ever. They are
            times of the same kind as the stream's: with a zone, without one, or integer nanoseconds.
        many : whether an event may find several rows, and is then there once for each; otherwise such a table is refused
            Rows without an end that begin together hold together, until the next ones.

        Examples
        --------
        >>> import pyarrow as pa, hydrophone as hp
        >>> readings = hp.from_arrow(pa.table({"sensor": [1, 1, 2], "t": [5, 15, 5], "v": [1.0, 1.0, 1.0]}), key="sensor", time="t")
        >>> gains = pa.table({"sensor": [1, 1], "from": [0, 10], "gain": [2.0, 3.0]})
        >>> readings.lookup(gains, on="sensor", since="from").to_pandas()["gain"].tolist()
        [2.0, 3.0]
        """
        key: list[str] = self.node.type.key.names
        if on is None and not key:
            raise ParameterError(
                "lookup: needs on=, the columns that must be equal: this stream has no key",
                hint='lookup(table, on="sensor")',
            )
        on = key if on is None else on
        rows = _arrow(table)
        rows = rows.cast(pa.schema([f.with_type(plain_type(f.type)) for f in rows.schema]))
        pairs = {on: on} if isinstance(on, str) else dict(on) if isinstance(on, Mapping) else {c: c for c in on}
        named = {*pairs.values(), *(columns or ()), *filter(None, (since, until))}
        for name in sorted(named - set(rows.column_names)):
            raise ParameterError(
                f"lookup: the table has no column {name!r}; it has: {', '.join(rows.column_names)}",
                hint='columns that are called otherwise there: on={"ours": "theirs"}'
                if name in pairs.values()
                else None,
            )
        kept = [n for n in rows.column_names if n not in (since, until) and (columns is None or n in columns)]
        theirs = list(pairs.values())
        held = rows.select(theirs + [n for n in kept if n not in theirs])
        for name in filter(None, (since, until)):
            _check_clock(rows.schema.field(name), self.node.type)
        start, end = _holds(rows, since, until)
        held = held.append_column(SINCE, start).append_column(UNTIL, end)
        kind = LookupMany if many else Lookup
        return self._then(kind, reference=Reference(held), on=tuple(pairs.items()), how=how)


def _arrow(table: Any) -> pa.Table:
    """Whatever people have, as an Arrow table that Spark could have too."""
    return without_halves(_as_arrow(table))


def _as_arrow(table: Any) -> pa.Table:
    if isinstance(table, str | PathLike):
        list_files(os.fspath(table), what="lookup")  # which says so where there is nothing
        data = ParquetData(os.fspath(table))
        return pa.concat_tables(data.tables(data.schema.names))
    if hasattr(table, "toArrow"):  # Spark's
        return table.toArrow()
    try:
        frame = nw.from_native(table, eager_only=True)
    except TypeError:
        raise ParameterError(
            f"lookup: a {type(table).__name__} is no table", hint="give an Arrow table, a DataFrame or a path"
        ) from None
    if frame.implementation.is_pandas_like():
        return frame_table(frame.to_native(), "lookup")
    return polars_table(frame.to_native(), "lookup") if frame.implementation.is_polars() else frame.to_arrow()


def _check_clock(field: pa.Field, kind: DataType) -> None:
    """Refuse times that cannot be compared with the stream's: text, dates, or instants of another clock."""
    clock = clock_of(field.type)
    if clock != kind.clock and not pa.types.is_null(field.type):
        theirs = f"{field.type}, which is no time" if clock is None else CLOCKS[clock]
        raise SignalTypeError(
            f"lookup: {field.name!r} of the table has {theirs}, and the stream has {CLOCKS[kind.clock]}",
            hint="cast the column of the table",
        )


def _holds(table: pa.Table, since: str | None, until: str | None) -> tuple[pa.Array, pa.Array]:
    """From when to when every row holds; null: until the next one."""
    start = np.full(len(table), MIN_TIME) if since is None else instants(table[since], since)
    if until is None:
        return pa.array(start), pa.nulls(len(table), pa.int64())
    told = pc.is_valid(table[until]).to_numpy()
    end = np.full(len(table), MAX_TIME)
    end[told] = instants(table[until].filter(pa.array(told)), until)
    if (end <= start).any():
        raise ParameterError(f"lookup: {int((end <= start).sum())} rows of the table end before they begin")
    return pa.array(start), pa.array(end, mask=~told)
