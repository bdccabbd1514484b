"""The key table: it gives every key of a scope a slot (a dense integer). Also the hash that spreads keys over shards."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hydrophone.errors import DataError
from hydrophone.model.batch import SLOTS_PER_BLOCK, Ints, Mask
from hydrophone.model.compiled import compiled
from hydrophone.model.hashing import mix
from hydrophone.model.integer_keys import IntegerKeys
from hydrophone.model.take_rows import empty_array, take_all
from hydrophone.model.threads import map_in_threads, split_rows

_FIRST_ROWS = 1 << 17
_LUT_LIMIT = 1 << 24
"""Widest range of integer keys for which a direct look-up array is faster than hashing."""


_FEW_ROWS = 64
"""Rows whose keys are compared with those of the last rows, before they are looked up."""


class KeyTable:
    """Slots for the keys of one scope; slots of released keys are used again.

    Examples
    --------
    >>> keys = KeyTable(pa.schema([("sensor", pa.string())]))
    >>> keys.slots([pa.array(["b", "a", "b"])])
    array([0, 1, 0])
    >>> keys.columns(np.array([1, 0]))[0].to_pylist()
    ['a', 'b']
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        # Operators of several regions of a graph may look up keys at the same time.
        self._lock = threading.RLock()
        self.used: Mask = np.zeros(0, np.bool_)
        self._columns: list[pa.Array] = [pa.array([], f.type) for f in schema]
        self._lookup: pa.Array = pa.array([], _lookup_type(schema))
        self._lut: Ints | None = None
        self._lut_low = 0
        self.dirty = np.zeros(0, np.bool_)
        # Pieces of a stream often have the same keys one after the other: those of the last few rows are remembered.
        self._recent: tuple[Sequence[pa.Array | pa.ChunkedArray], Ints] | None = None
        self._shown: tuple[bytes, list[pa.Array]] | None = None
        whole = len(schema) > 1 and all(pa.types.is_integer(f.type) for f in schema)
        self._rows = IntegerKeys(len(schema)) if whole else None

    def __len__(self) -> int:
        """How many slots have been handed out, free ones included."""
        return len(self.used)

    @property
    def live(self) -> int:
        """How many keys are known now."""
        return int(self.used.sum())

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        if self._rows is not None:
            return self.used.nbytes + self.dirty.nbytes + self._rows.nbytes
        arrays = [self.used, self.dirty, self._lookup, *self._columns, *([] if self._lut is None else [self._lut])]
        shared = self._columns and self._lookup is self._columns[0]
        return sum(a.nbytes for a in arrays) - (self._lookup.nbytes if shared else 0)

    def slots(self, columns: Sequence[pa.Array | pa.ChunkedArray]) -> Ints:
        """The slot of every row; keys not seen before get a new one."""
        if not self.schema.names:
            return self.zeros(len(columns[0]) if columns else 0)
        with self._lock:
            if self._recent is not None and _are_equal(columns, self._recent[0]):
                return self._recent[1].copy()
            slot = self._slots(columns)
            self._recent = (columns, slot.copy()) if len(slot) <= _FEW_ROWS else None
        return slot

    def _slots(self, columns: Sequence[pa.Array | pa.ChunkedArray]) -> Ints:
        columns = [_flat_key_column(c, f.type, f.name) for c, f in zip(columns, self.schema, strict=True)]
        if len(columns) == 1 and pa.types.is_integer(columns[0].type):
            return self._integer_slots(columns[0])
        if self._rows is not None:
            return self._row_slots(self._rows, _key_matrix(columns))
        unique, codes = _distinct_keys(columns)
        lookup = _canonical_key(unique)
        found = pc.index_in(lookup, value_set=self._lookup)
        if found.null_count:
            new = pc.is_null(found)
            self._add([c.filter(new) for c in unique], lookup.filter(new))
            found = pc.index_in(lookup, value_set=self._lookup)
        return found.to_numpy(zero_copy_only=False).astype(np.int64)[codes]

    def zeros(self, rows: int) -> Ints:
        """Slots for a scope without key columns: all rows have slot 0."""
        if not self.used.any():
            with self._lock:
                if not self.used.any():
                    self._add([], pa.nulls(1))
        return np.zeros(rows, np.int64)

    def columns(self, slot: Ints) -> list[pa.Array]:
        """The key columns of these slots."""
        with self._lock:
            if self._shown is not None and len(slot) <= _FEW_ROWS and slot.tobytes() == self._shown[0]:
                return list(self._shown[1])
            if self._rows is not None:
                rows = self._rows.rows[slot]
                found = [pa.array(rows[:, i]).cast(f.type, safe=False) for i, f in enumerate(self.schema)]
            else:
                found = take_all(self._columns, slot)
            self._shown = (slot.tobytes(), found) if len(slot) <= _FEW_ROWS else None
        return list(found)

    def of_key(self, slot: int) -> str:
        """The key of a slot, for messages: `` of key {'sensor': 3}``; nothing where there is no key."""
        found = zip(self.schema.names, self.columns(np.array([slot], np.int64)), strict=True)
        key = {name: column[0].as_py() for name, column in found}
        return f" of key {key}" if key else ""

    def column(self, name: str) -> pa.Array:
        """One key column of all slots, free ones included."""
        at = self.schema.names.index(name)
        with self._lock:
            if self._rows is not None:
                return pa.array(self._rows.rows[: len(self), at]).cast(self.schema.field(at).type, safe=False)
            return self._columns[at]

    def release(self, slots: Ints) -> None:
        """Forget these keys; their slots will be handed out again."""
        self._recent = self._shown = None
        self.used[slots] = False
        if self._rows is not None:
            self._rows.drop(slots)
            self._touch(slots)
            return
        mask = np.zeros(len(self), np.bool_)
        mask[slots] = True
        gone = pa.array(mask)
        self._columns = [pc.if_else(gone, pa.scalar(None, c.type), c) for c in self._columns]
        self._lookup = pc.if_else(gone, pa.scalar(None, self._lookup.type), self._lookup)
        self._lut = None
        self._touch(slots)

    def restore(self, slots: Ints, columns: Sequence[pa.Array]) -> None:
        """Put keys back at given slots (of a table that was just made)."""
        self._recent = self._shown = None
        size = max(len(self), int(slots.max(initial=-1)) + 1)
        if self._rows is not None:
            self._rows.put(slots, _key_matrix(columns))
            self._use(slots, size)
            return
        lookup = _canonical_key(list(columns)) if columns else pa.nulls(len(slots))
        old, new = [*self._columns, self._lookup], [*columns, lookup]
        if np.array_equal(slots, np.arange(len(self), size)):
            new = [pa.concat_arrays([a, b]) for a, b in zip(old, new, strict=True)]
        else:
            where = np.full(size, -1, np.int64)
            where[slots] = np.arange(len(slots))
            take = pa.array(where, mask=where < 0)
            new = [pc.coalesce(b.take(take), _grown(a, size)) for a, b in zip(old, new, strict=True)]
        *self._columns, self._lookup = new
        if len(columns) == 1:
            self._lookup = self._columns[0]
        self._lut = None
        self._use(slots, size)

    def blocks(self, changed: bool) -> Iterator[tuple[int, pa.Table | None]]:
        """Every block of slots (or every changed one) as a table; None says that the block is empty now."""
        dirty = np.flatnonzero(self.dirty if changed else np.ones(len(self), np.bool_))
        for block in np.unique(dirty // SLOTS_PER_BLOCK):
            slots = block * SLOTS_PER_BLOCK + np.flatnonzero(
                self.used[block * SLOTS_PER_BLOCK : (block + 1) * SLOTS_PER_BLOCK]
            )
            names = ["__slot", *(f"k{i}" for i in range(len(self.schema)))]
            yield int(block), pa.table([pa.array(slots), *self.columns(slots)], names=names) if len(slots) else None
        self.dirty[:] = False

    def load(self, table: pa.Table) -> None:
        """Put a block back."""
        table = table.combine_chunks()
        self.restore(
            table["__slot"].to_numpy(), [_flat_key_column(table[f"k{i}"], f.type) for i, f in enumerate(self.schema)]
        )
        self.dirty[:] = False

    def _row_slots(self, rows: IntegerKeys, keys: Ints) -> Ints:
        slot, at, size = np.empty(len(keys), np.int64), 0, _FIRST_ROWS
        while at < len(keys):
            # The first rows often hold all new keys: then no memory for one key per row is needed.
            slot[at : at + size] = self._next_row_slots(rows, keys[at : at + size])
            at, size = at + size, 4 * size
        return slot

    def _next_row_slots(self, rows: IntegerKeys, keys: Ints) -> Ints:
        slot = rows.known(keys)
        unknown = np.flatnonzero(slot < 0)
        if len(unknown):
            # The number of new keys is known only after they are added.
            slot[unknown] = rows.slots(keys[unknown], self._free(len(unknown)))
            new = slot[unknown]
            self._use(new, max(len(self), int(new.max()) + 1))
        return slot

    def _integer_slots(self, column: pa.Array) -> Ints:
        key = column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
        if not len(key):
            return key
        low, high = int(key.min()), int(key.max())
        if self._lut is None or low < self._lut_low or high >= self._lut_low + len(self._lut):
            self._rebuild(low, high)
        if self._lut is None:
            return self._hashed_integer_slots(column)
        slot = empty_array(len(key), np.int64)
        # The first rows often hold all new keys: then the others are looked up once.
        for some in (slice(0, _FIRST_ROWS), slice(_FIRST_ROWS, None)):
            self._look_up(key[some], slot[some])
        return slot

    def _look_up(self, key: Ints, slot: Ints) -> None:
        assert self._lut is not None
        lut, unknown = self._lut, np.zeros(len(self._lut), np.bool_)

        def known(rows: slice) -> bool:
            return bool(_look_up(key[rows], lut, self._lut_low, slot[rows], unknown))

        if not all(map_in_threads(known, split_rows(len(key)))):
            new = np.flatnonzero(unknown)
            slots = self._free(len(new))
            self.restore(slots, [pa.array(new + self._lut_low).cast(self.schema.field(0).type, safe=False)])
            lut[new] = slots
            self._lut = lut
            map_in_threads(known, split_rows(len(key)))

    def _hashed_integer_slots(self, column: pa.Array) -> Ints:
        coded = pc.dictionary_encode(column)
        unique = coded.dictionary
        found = pc.index_in(unique, value_set=self._lookup)
        if found.null_count:
            new = unique.filter(pc.is_null(found))
            self._add([new], new)
            found = pc.index_in(unique, value_set=self._lookup)
        table: Ints = found.to_numpy(zero_copy_only=False).astype(np.int64)
        return table[coded.indices.to_numpy(zero_copy_only=False)]

    def _rebuild(self, low: int, high: int) -> None:
        """Look-up array over all known keys and [low, high], or none where that would be too wide."""
        slots = np.flatnonzero(self.used)
        # Take first: with the nulls of released keys Arrow would give floats, which cannot hold large keys.
        known = self._lookup.take(pa.array(slots)).to_numpy(zero_copy_only=False).astype(np.int64)
        low, high = int(known.min(initial=low)), int(known.max(initial=high))
        self._lut = None
        if high - low < _LUT_LIMIT:
            self._lut_low = low
            self._lut = np.full(high - low + 1, -1, np.int64)
            self._lut[known - low] = slots

    def _add(self, columns: list[pa.Array], lookup: pa.Array) -> None:
        """Give new keys slots."""
        self.restore(self._free(len(lookup)), columns)

    def _free(self, need: int) -> Ints:
        """So many slots for new keys: free ones first, then fresh ones at the end."""
        slots = np.flatnonzero(~self.used)[:need]
        return np.concatenate([slots, np.arange(len(self), len(self) + need - len(slots))]).astype(np.int64)

    def _use(self, slots: Ints, size: int) -> None:
        used = np.zeros(size, np.bool_)
        used[: len(self.used)] = self.used
        used[slots] = True
        self.used = used
        self._touch(slots)

    def _touch(self, slots: Ints) -> None:
        if len(self.dirty) < len(self):
            self.dirty = np.concatenate([self.dirty, np.zeros(len(self) - len(self.dirty), np.bool_)])
        self.dirty[slots] = True


@compiled
def _look_up(key: Ints, lut: Ints, low: int, slot: Ints, unknown: Mask) -> bool:
    """The slots of keys, the unknown ones, and whether all are known."""
    all_known = True
    for i in range(len(key)):
        slot[i] = lut[key[i] - low]
        if slot[i] < 0:
            unknown[key[i] - low] = True
            all_known = False
    return all_known


def _are_equal(some: Sequence[pa.Array | pa.ChunkedArray], others: Sequence[pa.Array | pa.ChunkedArray]) -> bool:
    return len(some[0]) == len(others[0]) and all(
        type(a) is type(b) and a.type == b.type and a.equals(b) for a, b in zip(some, others, strict=True)
    )


def _lookup_type(schema: pa.Schema) -> pa.DataType:
    return pa.null() if not schema.names else schema.field(0).type if len(schema) == 1 else pa.string()


def _grown(column: pa.Array, size: int) -> pa.Array:
    missing = size - len(column)
    return pa.concat_arrays([column, pa.nulls(missing, column.type)]) if missing else column


def _flat_key_column(column: pa.Array | pa.ChunkedArray, kind: pa.DataType, name: str = "") -> pa.Array:
    """One contiguous array of the scope's own type, without nulls."""
    if isinstance(column, pa.ChunkedArray):
        column = (
            column.chunk(0)
            if column.num_chunks == 1
            else pa.concat_arrays(column.chunks)
            if column.num_chunks
            else pa.array([], column.type)
        )
    if column.null_count:
        raise DataError(
            f"key: {column.null_count} rows have no key{f' in {name!r}' if name else ''}",
            hint="drop them before the source (what key_by or on= make the key: with where), or give them a key of their own",
        )
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column if column.type == kind else column.cast(kind)


def _key_matrix(columns: Sequence[pa.Array]) -> Ints:
    """Integer columns side by side; large unsigned ones wrap around, and back."""
    wide = [c.cast(pa.int64(), safe=False).to_numpy(zero_copy_only=False) for c in columns]
    return np.ascontiguousarray(np.stack(wide, axis=1))


def _distinct_keys(columns: list[pa.Array]) -> tuple[list[pa.Array], Ints]:
    """The distinct rows of some columns, and for every row which one it is."""
    codes: Ints | None = None
    for column in columns:
        coded = pc.dictionary_encode(column)
        index = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        pair = index if codes is None else codes * max(len(coded.dictionary), 1) + index
        dense = pc.dictionary_encode(pa.array(pair))
        codes = dense.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    assert codes is not None
    count = int(codes.max(initial=-1)) + 1
    example = np.zeros(count, np.int64)
    example[codes[::-1]] = np.arange(len(codes))[::-1]
    rows = pa.array(example)
    return [c.take(rows) for c in columns], codes


def _canonical_key(columns: list[pa.Array]) -> pa.Array:
    """One column that identifies keys: the key itself, or the texts of several columns, joined without clashes."""
    if len(columns) == 1:
        return columns[0]
    texts = [c.cast(pa.string()) for c in columns]
    safe = [pc.replace_substring(pc.replace_substring(t, "\\", "\\\\"), "|", "\\|") for t in texts]
    return pc.binary_join_element_wise(*safe, "|")


HASH_VERSION = 1
"""Increases when `shard_of_keys` changes; a checkpoint of another version cannot be continued."""


def shard_of_keys(columns: Sequence[pa.Array | pa.ChunkedArray], shards: int, rows: int) -> npt.NDArray[np.int64]:
    """The shard of every row, by a hash of its key that is the same in every process and version.

    Examples
    --------
    >>> shard_of_keys([pa.array(["a", "b", "a"])], 4, 3).tolist()
    [0, 3, 0]
    """
    return _remainders(hash_of_columns(columns, np.full(rows, np.uint64(0x9E3779B97F4A7C15))), np.uint64(shards))


def hash_of_columns(
    columns: Sequence[pa.Array | pa.ChunkedArray], mixed: npt.NDArray[np.uint64]
) -> npt.NDArray[np.uint64]:
    """Mix the values of some columns into the numbers `mixed`, one for each row; they are changed and returned."""
    for column in columns:
        flat = _flat_key_column(column, column.type.value_type if pa.types.is_dictionary(column.type) else column.type)
        _mix_in(mixed, _hash_column(flat))
    return mixed


def _hash_column(column: pa.Array) -> npt.NDArray[np.uint64]:
    if pa.types.is_integer(column.type):
        return _mix_each(column.cast(pa.int64(), safe=False).to_numpy(zero_copy_only=False).view(np.uint64))
    text = column.cast(pa.large_string() if not pa.types.is_binary(column.type) else pa.large_binary())
    _, offsets, data = text.buffers()
    first = (
        np.frombuffer(offsets, np.int64)[text.offset : text.offset + len(text) + 1]
        if len(text)
        else np.zeros(1, np.int64)
    )
    payload = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)
    return _fnv(first, payload)


@compiled
def _mix_in(mixed: npt.NDArray[np.uint64], hashes: npt.NDArray[np.uint64]) -> None:
    for i in range(len(mixed)):
        mixed[i] = mix(mixed[i] ^ hashes[i])


@compiled
def _mix_each(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    out = np.empty_like(numbers)
    for i in range(len(numbers)):
        out[i] = mix(numbers[i])
    return out


@compiled
def _remainders(mixed: npt.NDArray[np.uint64], shards: np.uint64) -> npt.NDArray[np.int64]:
    out = np.empty(len(mixed), np.int64)
    for i in range(len(mixed)):
        out[i] = mixed[i] % shards
    return out


@compiled
def _fnv(offsets: npt.NDArray[np.int64], data: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    out = np.empty(len(offsets) - 1, np.uint64)
    for i in range(len(out)):
        h = np.uint64(0xCBF29CE484222325)
        for j in range(offsets[i], offsets[i + 1]):
            h = (h ^ np.uint64(data[j])) * np.uint64(0x100000001B3)
        out[i] = h
    return out
