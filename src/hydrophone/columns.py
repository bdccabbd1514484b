"""Rows of Arrow columns by position, compiled where values have a fixed width: several times faster than Arrow's own `take`."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_MANY = 1 << 20
"""Rows for which it pays to share out the columns over threads."""
_WORDS = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


def take(column: pa.Array | pa.ChunkedArray, rows: Ints) -> pa.Array:
    """The values at these rows; null where a row is negative.

    Examples
    --------
    >>> take(pa.array([1.5, None, 2.5]), np.array([2, -1, 1, 0])).to_pylist()
    [2.5, None, None, 1.5]
    """
    return take_all([column], rows)[0]


def take_all(columns: Sequence[pa.Array | pa.ChunkedArray], rows: Ints) -> list[pa.Array]:
    """The values of several columns at the same rows."""
    rows = np.ascontiguousarray(rows, np.int64)
    there = rows >= 0 if rows.min(initial=0) < 0 else None
    bits = None if there is None else pa.py_buffer(np.packbits(there, bitorder="little"))

    def taken(column: pa.Array | pa.ChunkedArray) -> pa.Array:
        return _taken(one(column), rows, there, bits)

    if len(columns) > 1 and len(rows) >= _MANY and pa.cpu_count() > 1:
        with ThreadPoolExecutor(pa.cpu_count()) as threads:
            return list(threads.map(taken, columns))
    return [taken(c) for c in columns]


def take_table(table: pa.Table, rows: Ints) -> pa.Table:
    """The rows of a table that has columns."""
    return pa.table(take_all(table.columns, rows), schema=table.schema)


def room(size: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """An array in Arrow's memory, with no values yet: it keeps what was freed for the next one, where NumPy asks the system anew."""
    dtype = np.dtype(dtype)
    return np.frombuffer(pa.allocate_buffer(size * dtype.itemsize), dtype)


def one(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column as one piece."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _taken(array: pa.Array, rows: Ints, there: Mask | None, bits: pa.Buffer | None) -> pa.Array:
    kind = array.type
    if not pa.types.is_primitive(kind) or kind.bit_width not in _WORDS:
        return array.take(pa.array(rows, mask=None if there is None else ~there))
    word = np.dtype(_WORDS[kind.bit_width])
    data = array.buffers()[1] if len(array) else b""
    values = np.frombuffer(data, word, len(array), array.offset * word.itemsize if len(array) else 0)
    out = room(len(rows), word)
    (_take if there is None else _take_some)(values, rows, out)
    if array.null_count:
        known = pc.is_valid(array).to_numpy(zero_copy_only=False)
        bits = pa.py_buffer(np.packbits(known[rows] if there is None else there & known[rows], bitorder="little"))
    return pa.Array.from_buffers(kind, len(rows), [bits, pa.py_buffer(out)])


@numba.njit(cache=True, nogil=True)
def _take(values, rows, out):  # type: ignore[no-untyped-def]
    for i in range(len(rows)):
        out[i] = values[rows[i]]


@numba.njit(cache=True, nogil=True)
def _take_some(values, rows, out):  # type: ignore[no-untyped-def]
    for i in range(len(rows)):
        if rows[i] >= 0:
            out[i] = values[rows[i]]
        else:
            out[i] = 0
