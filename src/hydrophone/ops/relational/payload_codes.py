"""Payloads that are equal: a number for every row of some tables, equal where all columns are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hydrophone.model.batch import Events, Ints
from hydrophone.model.key_table import shard_of_keys

_LARGEST_CODE = 2**63 - 2


def payload_codes(batches: Sequence[Events]) -> list[Ints]:
    """For every row a number that stands for its slot and payload, the same in all batches and in the order of slots.

    Null equals null and NaN equals NaN; -0.0 and 0.0 are two values.

    Examples
    --------
    >>> rows = Events(np.array([0, 0, 1]), np.array([1, 2, 3]), None, pa.table({"v": [5.0, 5.0, 5.0]}))
    >>> payload_codes([rows])
    [array([0, 0, 1])]
    """
    code: Ints = np.concatenate([b.slot for b in batches])
    tables = [b.columns for b in batches]
    for i in range(tables[0].num_columns):
        chunks = [c for t in tables for c in t.column(i).chunks]
        whole = pa.concat_arrays(chunks) if chunks else pa.array([], tables[0].field(i).type)
        for column in _comparable_columns(whole):
            encoded = pc.dictionary_encode(column, null_encoding="encode")
            index = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
            code = np.unique(code * max(len(encoded.dictionary), 1) + index, return_inverse=True)[1].astype(np.int64)
    return [*np.split(code, np.cumsum([len(b) for b in batches])[:-1])]


def column_hashes(column: pa.Array) -> list[Ints]:
    """Numbers for every row of a column that depend on its value alone, the same in every process; 0 is null.

    NaN equals NaN, and -0.0 equals 0.0.

    Examples
    --------
    >>> [(n == n[0]).tolist() for n in column_hashes(pa.array([-0.0, 0.0, None, 1.0]))]
    [[True, True, False, False]]
    >>> [(n == n[0]).tolist() for n in column_hashes(pa.array([pa.MonthDayNano([1, 2, 3]), pa.MonthDayNano([1, 2, 3]), None]))]
    [[True, True, False]]
    """
    out = []
    for part in _comparable_columns(column):
        there = part.is_valid().to_numpy(zero_copy_only=False)
        number = np.zeros(len(part), np.int64)
        number[there] = 1 + shard_of_keys([_comparable_numbers(part.drop_null())], _LARGEST_CODE, int(there.sum()))
        out.append(number)
    return out


def _comparable_numbers(column: pa.Array) -> pa.Array:
    """Floats by their bits and times as they are counted; texts stay."""
    if pa.types.is_floating(column.type):
        values = column.cast(pa.float64()).to_numpy(zero_copy_only=False) + 0.0
        return pa.array(np.where(np.isnan(values), np.nan, values).view(np.int64))
    if pa.types.is_temporal(column.type):
        return column.view({4: pa.int32(), 8: pa.int64()}[column.type.bit_width // 8])
    return column


def _comparable_columns(column: pa.Array) -> Iterator[pa.Array]:
    """Columns that can be told apart by their values."""
    if pa.types.is_struct(column.type):
        yield pc.is_null(column)
        for i in range(column.type.num_fields):
            yield from _comparable_columns(pc.struct_field(column, [i]))
    elif pa.types.is_nested(column.type) or pa.types.is_interval(column.type):
        yield pa.array([str(v) for v in column.to_pylist()], pa.string())
    else:
        yield column
