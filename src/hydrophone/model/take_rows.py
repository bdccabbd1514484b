"""Take rows of Arrow columns by position. Compiled for values of fixed width, several times faster than Arrow's `take`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hydrophone.model.compiled import compiled
from hydrophone.model.threads import ROWS_PER_THREAD, map_in_threads

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_BLOCK = 1 << 16
"""Rows per block: their positions stay in the cache while each column is copied."""
_KINDS = {c: pa.from_numpy_dtype(np.dtype(c)) for c in "bBhHiIlLqQfd"}
_WORDS = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


def take(column: pa.Array | pa.ChunkedArray, rows: Ints) -> pa.Array:
    """The values at these rows; null where a row is negative.

    Examples
    --------
    >>> take(pa.array([1.5, None, 2.5]), np.array([2, -1, 1, 0])).to_pylist()
    [2.5, None, None, 1.5]
    """
    return take_all([column], rows)[0]


def without_minus_zero(column: pa.Array) -> pa.Array:
    """Floats with -0.0 as 0.0: the two are equal, and only one may count. Half floats, with which Arrow does not compute, become single.

    Examples
    --------
    >>> without_minus_zero(pa.array([-0.0, 1.5])).to_pylist()
    [0.0, 1.5]
    """
    if pa.types.is_float16(column.type):
        column = column.cast(pa.float32())
    return pc.add(column, pa.scalar(0.0, column.type)) if pa.types.is_floating(column.type) else column


def take_all(columns: Sequence[pa.Array | pa.ChunkedArray], rows: Ints) -> list[pa.Array]:
    """The values of several columns at the same rows, which are read once for all columns."""
    rows = np.ascontiguousarray(rows, np.int64)
    there = rows >= 0 if rows.min(initial=0) < 0 else None
    arrays = [one_chunk(c) for c in columns]
    wide = {
        i: (_bits_of(a), empty_array(len(rows), _bits_of(a).dtype)) for i, a in enumerate(arrays) if _is_wide(a.type)
    }
    loop = _take if there is None else _take_some

    def copy(start: int) -> None:
        stop = start + _BLOCK
        for values, out in wide.values():
            loop(values, rows[start:stop], out[start:stop])

    starts = range(0, len(rows), _BLOCK)
    if wide and len(rows) >= ROWS_PER_THREAD:
        map_in_threads(copy, starts)
    else:
        for start in starts:
            copy(start)
    bits = None if there is None else pa.py_buffer(np.packbits(there, bitorder="little"))
    found = []
    for i, array in enumerate(arrays):
        if i in wide:
            valid = _validity(array, rows, there) if array.null_count else bits
            found.append(pa.Array.from_buffers(array.type, len(rows), [valid, pa.py_buffer(wide[i][1])]))
        else:
            found.append(array.take(pa.array(rows, mask=None if there is None else ~there)))
    return found


def take_values(values: Ints, rows: Ints, out: Ints | None = None) -> Ints:
    """``values[rows]``, into `out` where one is given; see `empty_array` for why NumPy is slower.

    Examples
    --------
    >>> take_values(np.array([5, 6, 7]), np.array([2, 0]))
    array([7, 5])
    """
    out = empty_array(len(rows), np.int64) if out is None else out
    _take(np.ascontiguousarray(values), np.ascontiguousarray(rows), out)
    return out


def take_table(table: pa.Table, rows: Ints) -> pa.Table:
    """The rows of a table that has columns."""
    return pa.table(take_all(table.columns, rows), schema=table.schema)


def empty_array(size: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """An uninitialised array in pages of normal size.

    NumPy and Arrow's default pool ask for huge pages. In fragmented memory these took several times as long as the work itself.
    """
    dtype = np.dtype(dtype)
    return np.frombuffer(pa.allocate_buffer(size * dtype.itemsize, memory_pool=pa.system_memory_pool()), dtype)


def number_column(values: npt.NDArray[Any]) -> pa.Array:
    """An array as a column, over the same memory where it can be. Arrow's own way takes several times as long for short ones.

    Examples
    --------
    >>> number_column(np.array([3, 4])).to_pylist()
    [3, 4]
    """
    kind = _KINDS.get(values.dtype.char)
    if kind is None or not values.flags.c_contiguous or not values.dtype.isnative:
        return pa.array(values)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def one_chunk(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column as one piece."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _is_wide(kind: pa.DataType) -> bool:
    """Whether values have a fixed width in whole bytes."""
    return bool(pa.types.is_primitive(kind)) and kind.bit_width in _WORDS


def _bits_of(array: pa.Array) -> npt.NDArray[Any]:
    """The values of a column as bits, without a copy."""
    word = np.dtype(_WORDS[array.type.bit_width])
    if not len(array):
        return np.zeros(0, word)
    return np.frombuffer(array.buffers()[1], word, len(array), array.offset * word.itemsize)


def _validity(array: pa.Array, rows: Ints, there: Mask | None) -> pa.Buffer:
    """Arrow's bits for the rows that are neither null nor negative."""
    known = pc.is_valid(array).to_numpy(zero_copy_only=False)[rows]
    return pa.py_buffer(np.packbits(known if there is None else there & known, bitorder="little"))


@compiled
def _take(values, rows, out):  # type: ignore[no-untyped-def]
    for i in range(len(rows)):
        out[i] = values[rows[i]]


@compiled
def _take_some(values, rows, out):  # type: ignore[no-untyped-def]
    for i in range(len(rows)):
        if rows[i] >= 0:
            out[i] = values[rows[i]]
        else:
            out[i] = 0
