"""Which rows are shed: a hash of source, key, time and sequence against a factor, the same in every process and for every chunking."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hydrophone.model.batch import Ints, Mask
from hydrophone.model.key_table import hash_of_columns

Hashes = npt.NDArray[np.uint64]


def row_hashes(
    source: str,
    key: Sequence[pa.Array | pa.ChunkedArray],
    time: Ints,
    sequence: pa.Array | pa.ChunkedArray | None = None,
) -> Hashes:
    """A number for every row, evenly spread over all of 64 bits.

    Rows of one key and one time without a sequence have the same number.

    Examples
    --------
    >>> row_hashes("readings", [pa.array(["a", "b"])], np.array([5, 5])).tolist()
    [15451401289653393801, 16051796894050392167]
    """
    start = int.from_bytes(hashlib.blake2b(source.encode(), digest_size=8).digest(), "little")
    columns = [*key, pa.array(time), *([] if sequence is None else [_filled(sequence)])]
    return hash_of_columns(columns, np.full(len(time), np.uint64(start)))


def kept_rows(hashes: Hashes, factor: float) -> Mask:
    """The rows that stay where a share of `factor` is shed: a larger factor sheds these and more.

    Examples
    --------
    >>> numbers = row_hashes("readings", [], np.arange(10_000))
    >>> [int(kept_rows(numbers, factor).sum()) for factor in (0.0, 0.25, 0.75, 1.0)]
    [10000, 7560, 2521, 0]
    """
    if factor >= 1:
        return np.zeros(len(hashes), np.bool_)
    kept: Mask = hashes >= np.uint64(int(factor * 2**64))
    return kept


def _filled(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Without nulls; a type that no key has as text."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not (pa.types.is_integer(column.type) or pa.types.is_binary(column.type)):
        column = column.cast(pa.string())
    return pc.fill_null(column, 0 if pa.types.is_integer(column.type) else "") if column.null_count else column
