"""The footer of a Parquet file, checked before Arrow uses its statistics: with damaged ones Arrow ends the process or waits for ever."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hydrophone.model.compiled import compiled

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]


def check_statistics(path: str) -> None:
    """Raise `pa.ArrowInvalid` if the statistics of a column chunk do not fit the type of its column.

    Arrow (26) throws where nothing catches it: when Python asks for the statistics, and in a thread that reads with a filter.
    """
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(size - 8, 0))
        length = int.from_bytes(file.read(4), "little")
        file.seek(max(size - 8 - length, 0))
        data = file.read(length)
    fault, group, column = _walked(data)
    if fault:
        place = f": {_FAULTS[fault]} in column {column} of row group {group}" if fault in _FAULTS else ""
        raise pa.ArrowInvalid(f"the footer is damaged{place}")


_SHORT = 1 << 16
"""Bytes of a footer up to which it may be walked through in Python."""
_PATIENCE = 2.0
"""Seconds of that after which compiling pays: it takes several."""


def _walked(data: bytes) -> tuple[int, int, int]:
    walk: Any = _first_fault
    found: tuple[int, int, int]
    if len(data) > _SHORT or walk.spent > _PATIENCE:
        found = walk(np.frombuffer(data, np.uint8))
        return found
    try:
        found = walk.interpreted(data)
    except (IndexError, OverflowError):  # compiled code looks at the length instead
        return _MALFORMED, 0, 0
    return found


# What `_first_fault` finds
_SOUND, _MALFORMED, _OTHER_TYPE, _NO_TYPE, _BOUNDS, _SIZES = range(6)
_FAULTS = {
    _OTHER_TYPE: "another type than in the schema",
    _NO_TYPE: "a type that there is not",
    _BOUNDS: "bounds of another length than the values",
    _SIZES: "statistics of sizes that do not fit the schema",
}

# The structs of a footer that matter, and what leads from one to the next (numbers of fields as in parquet.thrift)
_REST, _FOOTER, _ELEMENT, _GROUP, _CHUNK, _ABOUT, _STATISTICS, _SIZE_STATISTICS = range(8)
_FIELDS = 17
_INTO = np.full((8, _FIELDS), _REST)
# What is noted of an element of the schema or of a column chunk, and by which field of which struct
_NOTES = 8
_KIND, _REPETITION, _CHILDREN, _SHORTEST, _LONGEST, _BYTES, _REPEATED, _DEFINED = range(_NOTES)
_NOTE = np.full((8, _FIELDS), -1)
# Thrift's compact protocol; a field of another kind than is written here means nothing to readers
_STOP, _TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT, _UUID = range(14)
_OF = np.full((8, _FIELDS), _STOP)

for _struct, _field, _into, _kind in (
    (_FOOTER, 2, _ELEMENT, _LIST),
    (_FOOTER, 4, _GROUP, _LIST),
    (_GROUP, 1, _CHUNK, _LIST),
    (_CHUNK, 3, _ABOUT, _STRUCT),
    (_ABOUT, 12, _STATISTICS, _STRUCT),
    (_ABOUT, 16, _SIZE_STATISTICS, _STRUCT),
):
    _INTO[_struct, _field], _OF[_struct, _field] = _into, _kind
for _struct, _field, _note, _kind in (
    (_ELEMENT, 1, _KIND, _I32),
    (_ELEMENT, 3, _REPETITION, _I32),
    (_ELEMENT, 5, _CHILDREN, _I32),
    (_ABOUT, 1, _KIND, _I32),
    *((_STATISTICS, bound, _LONGEST, _BINARY) for bound in (1, 2, 5, 6)),  # max, min, max_value, min_value
    (_SIZE_STATISTICS, 1, _BYTES, _I64),
    (_SIZE_STATISTICS, 2, _REPEATED, _LIST),
    (_SIZE_STATISTICS, 3, _DEFINED, _LIST),
):
    _NOTE[_struct, _field], _OF[_struct, _field] = _note, _kind

_WIDTHS = np.array([1, 4, 8, 12, 4, 8, -1, -1])
"""Bytes of a bound by physical type; those of byte arrays may have any length."""
_BYTE_ARRAY = 6
_OPTIONAL, _REPEAT = 1, 2

_DEEPEST = 64


@compiled
def _first_fault(data: Bytes) -> tuple[int, int, int]:
    """The first fault of a footer with its row group and column; a walk over all fields, with the open structs and lists on a stack."""
    schema, elements = np.empty((len(data), 3), np.int64), 0
    leaves, columns = np.empty((0, 3), np.int64), 0
    struct, field = np.zeros(_DEEPEST, np.int64), np.zeros(_DEEPEST, np.int64)
    left, of, then = (
        np.zeros(_DEEPEST, np.int64),
        np.zeros(_DEEPEST, np.int64),
        np.zeros(_DEEPEST, np.int64),
    )  # of lists
    notes = np.full(_NOTES, -1)
    struct[0], depth, at, group, column = _FOOTER, 0, 0, 0, 0
    while depth >= 0:
        here = struct[depth]
        if of[depth]:
            if not left[depth]:
                depth -= 1
                continue
            left[depth] -= 1
            what, into, note = of[depth], here, -1
            of[depth], then[depth] = then[depth], what
            if what <= _FALSE:
                what = _BYTE
        else:
            if at >= len(data):
                return _MALFORMED, 0, 0
            head, at = np.int64(data[at]), at + 1
            what, number = head & 15, field[depth] + (head >> 4)
            if what == _STOP:
                depth -= 1
                if here == _ELEMENT:
                    schema[elements], elements = notes[:3], elements + 1
                elif here == _CHUNK:
                    if not group and not column:
                        leaves, columns = _leaves(schema[:elements])
                    fault = _fault_of_chunk(notes, leaves[column]) if column < columns else _OTHER_TYPE
                    if fault:
                        return fault, group, column
                    column += 1
                elif here == _GROUP:
                    group, column = group + 1, 0
                continue
            if not head >> 4:
                number, at = _whole(data, at)
            field[depth] = number
            known = 0 <= number < _FIELDS and _OF[here, number] == what
            into, note = (_INTO[here, number], _NOTE[here, number]) if known else (_REST, -1)
        if what >= _LIST and (what > _UUID or depth == _DEEPEST - 1 or at >= len(data)):
            return _MALFORMED, 0, 0
        if what == _STRUCT:
            depth += 1
            struct[depth], field[depth], of[depth] = into, 0, 0
            if into in (_ELEMENT, _CHUNK):
                notes[:] = -1
        elif what in (_LIST, _SET, _MAP):
            count, first, second, at = _list_head(data, at, what == _MAP)
            depth += 1
            struct[depth], left[depth], of[depth], then[depth] = into, count, first, second
            if min(first, second) <= _STOP or max(first, second) > _UUID:
                return _MALFORMED, 0, 0
            if note in (_REPEATED, _DEFINED):
                notes[note] = count
        elif what == _BINARY:
            length, at = _varint(data, at)
            if not 0 <= length <= len(data):
                return _MALFORMED, 0, 0
            at += length
            if note == _LONGEST:
                notes[_SHORTEST] = length if notes[_SHORTEST] < 0 else min(notes[_SHORTEST], length)
                notes[_LONGEST] = max(notes[_LONGEST], length)
        elif _I16 <= what <= _I64:
            value, at = _whole(data, at)
            if note >= 0:
                notes[note] = value
        elif what > _FALSE:
            at += 1 if what == _BYTE else 8 if what == _DOUBLE else 16
        if at > len(data):
            return _MALFORMED, 0, 0
    return _SOUND, 0, 0


@compiled
def _leaves(schema: Ints) -> tuple[Ints, int]:
    """The columns of a schema, whose elements lie depth first: physical type, and how deep repetitions and definitions go."""
    found, count = np.empty((len(schema), 3), np.int64), 0
    children = np.zeros(_DEEPEST, np.int64)
    repeated, defined = np.zeros(_DEEPEST, np.int64), np.zeros(_DEEPEST, np.int64)
    depth = 0  # of the root, which is no column and repeats nothing
    children[0] = schema[0, _CHILDREN] if len(schema) else 0
    for kind, repetition, inside in schema[1:]:
        while depth > 0 and children[depth] <= 0:
            depth -= 1
        children[depth] -= 1
        again = repeated[depth] + (repetition == _REPEAT)
        there = defined[depth] + (repetition in (_REPEAT, _OPTIONAL))
        if inside > 0 and depth < _DEEPEST - 1:
            depth += 1
            children[depth], repeated[depth], defined[depth] = inside, again, there
        else:
            found[count, 0], found[count, 1], found[count, 2] = kind, again, there
            count += 1
    return found, count


@compiled
def _fault_of_chunk(notes: Ints, leaf: Ints) -> int:
    """What is wrong with a column chunk: its type, the lengths of its bounds, its statistics of sizes."""
    kind = notes[_KIND]
    if kind != leaf[0]:
        return _OTHER_TYPE
    if not 0 <= kind < len(_WIDTHS):
        return _NO_TYPE
    if _WIDTHS[kind] > 0 and notes[_LONGEST] >= 0 and not notes[_SHORTEST] == notes[_LONGEST] == _WIDTHS[kind]:
        return _BOUNDS
    if notes[_BYTES] != -1 and kind != _BYTE_ARRAY:
        return _SIZES
    if (notes[_REPEATED] > 0 and notes[_REPEATED] != leaf[1] + 1) or (
        notes[_DEFINED] > 0 and notes[_DEFINED] != leaf[2] + 1
    ):
        return _SIZES
    return _SOUND


@compiled
def _list_head(data: Bytes, at: int, pairs: bool) -> tuple[Any, Any, Any, Any]:
    """How many values a list or map has, of which kinds by turns, and where they begin."""
    head = np.int64(data[at])
    if not pairs:
        count, at = (head >> 4, at + 1) if head >> 4 < 15 else _varint(data, at + 1)
        return count, head & 15, head & 15, at
    count, at = _varint(data, at)
    if count == 0 or at >= len(data):
        return 0, _BYTE, _BYTE, at
    head = np.int64(data[at])
    return 2 * count, head >> 4, head & 15, at + 1


@compiled
def _varint(data: Bytes, at: int) -> tuple[Any, int]:
    value, shift = np.int64(0), np.int64(0)
    while at < len(data) and shift < 64:
        byte = np.int64(data[at])
        value |= (byte & 127) << shift
        at += 1
        if byte < 128:
            return value, at
        shift += 7
    return np.int64(-1), len(data) + 1  # it does not end


@compiled
def _whole(data: Bytes, at: int) -> tuple[Any, int]:
    """A whole number with its sign in the lowest bit."""
    value, at = _varint(data, at)
    return (value >> 1) ^ -(value & 1), at
