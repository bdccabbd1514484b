"""The state of kernels: arrays with a row per slot, and held batches. Both write snapshots in blocks of slots.

A block is the unit that a checkpoint writes: only blocks that changed since the last snapshot are written again.
State is never pickled: a block is an
Arrow table.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hydrophone.model.batch import SLOTS_PER_BLOCK, Events, Ints, Mask, Segments
from hydrophone.model.compiled import compiled


@dataclass(frozen=True)
class Field:
    """One array of a `SlotArrays`: what a fresh slot holds."""

    dtype: npt.DTypeLike
    fill: Any = 0
    shape: tuple[int, ...] = ()


class SlotArrays:
    """Arrays with one row per slot; a slot that was never touched, or was released, holds the fill values.

    Examples
    --------
    >>> state = SlotArrays(total=Field(np.float64))
    >>> state.reserve(3)
    >>> state["total"][[0, 2]] += 1.5
    >>> state.touch(np.array([0, 2]))
    >>> state["total"].tolist()
    [1.5, 0.0, 1.5]
    """

    def __init__(self, **fields: Field) -> None:
        self.fields = fields
        self.arrays = {name: np.zeros((0, *f.shape), f.dtype) for name, f in fields.items()}
        self.used: Mask = np.zeros(0, np.bool_)
        self._dirty: Mask = np.zeros(0, np.bool_)

    def __len__(self) -> int:
        return len(self.used)

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        return self.arrays[name]

    def reserve(self, slots: int) -> None:
        """Make room for slots ``0 .. slots - 1``."""
        old = len(self)
        if slots <= old:
            return
        size = max(slots, 2 * old)
        for name, f in self.fields.items():
            grown = np.full((size, *f.shape), f.fill, f.dtype)
            grown[:old] = self.arrays[name]
            self.arrays[name] = grown
        self.used = np.concatenate([self.used, np.zeros(size - old, np.bool_)])
        self._dirty = np.concatenate([self._dirty, np.zeros(-(-size // SLOTS_PER_BLOCK) - len(self._dirty), np.bool_)])

    def touch(self, slots: Ints) -> None:
        """Mark these slots as changed."""
        self.used[slots] = True
        if len(slots):
            self._dirty[_blocks_of_slots(slots)] = True

    def release(self, slots: Ints) -> None:
        """Forget these slots."""
        slots = slots[slots < len(self)]
        for name, f in self.fields.items():
            self.arrays[name][slots] = f.fill
        self.used[slots] = False
        self._dirty[slots // SLOTS_PER_BLOCK] = True

    def holds(self, slots: int) -> Mask:
        """Which of the first `slots` slots have state."""
        return _padded(self.used, slots)

    @property
    def bytes_per_slot(self) -> int:
        """Bytes that a slot takes, whether it is used or not.

        Examples
        --------
        >>> SlotArrays(tail=Field(np.float64, 0, (31,)), due=Field(np.int64)).bytes_per_slot
        257
        """
        return 1 + sum(a.dtype.itemsize * math.prod(a.shape[1:]) for a in self.arrays.values())

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self.used.nbytes + self._dirty.nbytes + sum(a.nbytes for a in self.arrays.values())

    def blocks(self, changed: bool) -> Iterator[tuple[int, pa.Table | None]]:
        """Every block (or every changed one) as a table; None says that the block is empty now."""
        for block in np.flatnonzero(self._dirty) if changed else range(len(self._dirty)):
            rows = block * SLOTS_PER_BLOCK + np.flatnonzero(
                self.used[block * SLOTS_PER_BLOCK : (block + 1) * SLOTS_PER_BLOCK]
            )
            yield int(block), self._table(rows) if len(rows) else None
        self._dirty[:] = False

    def load(self, table: pa.Table) -> None:
        """Put a block back."""
        slot = table["__slot"].to_numpy()
        self.reserve(int(slot.max()) + 1)
        for name, f in self.fields.items():
            self.arrays[name][slot] = _from_column(table[name], f)
        self.used[slot] = True

    def _table(self, rows: Ints) -> pa.Table:
        columns = {"__slot": pa.array(rows)} | {name: _to_column(a[rows]) for name, a in self.arrays.items()}
        return pa.table(columns)


B = TypeVar("B", Events, Segments)


class KeptRows(Generic[B]):
    """Rows that a kernel keeps: the part that snapshots, release and `explain` need.

    Subclasses add and take rows; each has its own order.
    """

    shed = 0
    """Rows shed to stay within a limit, since the query began; part of the snapshot."""

    def __init__(self, kind: type[B]) -> None:
        self.kind: type[B] = kind
        # Changed blocks; not tracked before the first snapshot.
        self._dirty: set[int] | None = None

    @property
    def empty(self) -> bool:
        """Whether nothing is held."""
        return not any(len(p) for p in self.batches)

    @property
    def batches(self) -> Sequence[B]:
        """What is held, in one or several batches."""
        raise NotImplementedError

    def holds(self, slots: int) -> Mask:
        """Which of the first `slots` slots have rows here."""
        mask = np.zeros(slots, np.bool_)
        for part in self.batches:
            _slots_with_rows(mask, np.ascontiguousarray(part.slot))
        return mask

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the held rows take."""
        return sum(p.nbytes for p in self.batches)

    def living(self) -> Iterable[tuple[B, Mask | None]]:
        """What a snapshot holds: batches, and a mask of their live rows; None means all."""
        raise NotImplementedError

    def blocks(self, changed: bool) -> Iterator[tuple[int, pa.Table | None]]:
        """Every block (or every changed one) as a table; None says that the block is empty now. One at a time comes into memory."""
        dirty, whole = self._dirty or set(), self._dirty is None or not changed
        if dirty or whole:
            parts = [_Blocks(part, alive) for part, alive in self.living()]
            held = {int(b) for part in parts for b in np.unique(part.block)} if whole else set()
            for block in sorted(dirty | held):
                rows = [r for part in parts if (r := part.rows(block)) is not None]
                yield block, self.kind.concat(rows).to_table() if rows else None
        self._dirty = set()

    def load(self, table: pa.Table) -> None:
        """Restore a block; later changes are tracked."""
        self._dirty = self._dirty or set()
        self._put_back(self.kind.from_table(table))

    def _put_back(self, rows: B) -> None:
        """Hold restored rows; not a change, unless other rows are shed."""
        raise NotImplementedError

    def _mark(self, slots: Ints) -> None:
        if self._dirty is not None and len(slots):
            self._dirty.update(_blocks_of_slots(slots).tolist())


class _Blocks(Generic[B]):
    """The rows of a batch by block, sorted once: a scan of all rows for every block would be quadratic in the keys."""

    def __init__(self, part: B, alive: Mask | None) -> None:
        self.part: B = part
        block = part.slot // SLOTS_PER_BLOCK
        self.order: Ints | None = None if alive is None else np.flatnonzero(alive)
        block = block if self.order is None else block[self.order]
        if len(block) and (block[1:] < block[:-1]).any():
            order = np.argsort(block, kind="stable")
            self.order, block = order if self.order is None else self.order[order], block[order]
        self.block = block

    def rows(self, block: int) -> B | None:
        """The rows of one block, or None."""
        first, last = np.searchsorted(self.block, [block, block + 1])
        if first == last:
            return None
        return self.part.select(np.arange(first, last) if self.order is None else self.order[first:last])


class KeptBatches(KeptRows[B]):
    """Rows in the batches in which they came."""

    def __init__(self, kind: type[B]) -> None:
        KeptRows.__init__(self, kind)
        self._batches: list[B] = []

    @property
    def batches(self) -> Sequence[B]:
        """What is held, in the batches in which it came."""
        return self._batches

    def all(self) -> B | None:
        """Everything that is held, as one batch, or None."""
        if len(self._batches) > 1:
            self._batches = [self.kind.concat(self._batches)]
        return self._batches[0] if self._batches else None

    def living(self) -> Iterable[tuple[B, Mask | None]]:
        """All rows, as one batch."""
        held = self.all()
        return () if held is None else ((held, None),)


class HeldBatches(KeptBatches[B]):
    """Batches held for progress (buffered samples, open windows, rows of a join), in no order.

    Examples
    --------
    >>> held = HeldBatches(Events)
    >>> one = Events(np.array([3]), np.array([10]), None, pa.table({"v": [1.0]}))
    >>> held.add(one)
    >>> len(held.take(np.array([True])))
    1
    >>> held.empty
    True
    """

    def add(self, batch: B) -> None:
        """Hold these rows too."""
        if len(batch):
            self._batches.append(batch)
            self._mark(batch.slot)

    def replace(self, batch: B | None, changed: Ints) -> None:
        """Hold this batch instead; `changed` are the slots whose rows differ from before."""
        self._batches = [batch] if batch is not None and len(batch) else []
        self._mark(changed)

    def take(self, mask: Mask) -> B:
        """Take the rows of `all()` where the mask is true, and keep the rest."""
        held = self.all()
        assert held is not None
        out = held if mask.all() else held.select(mask)
        self.replace(None if mask.all() else held.select(~mask), out.slot)
        return out

    def _put_back(self, rows: B) -> None:
        self._batches.append(rows)


@compiled
def _blocks_of_slots(slots):  # type: ignore[no-untyped-def]
    """The blocks of these slots."""
    highest, found = 0, 0
    for slot in slots:
        highest = max(highest, slot)
    touched = np.zeros(highest // SLOTS_PER_BLOCK + 1, np.int64)
    for slot in slots:
        touched[slot // SLOTS_PER_BLOCK] = 1
    for block in range(len(touched)):
        if touched[block]:
            touched[found] = block
            found += 1
    return touched[:found]


@compiled
def _slots_with_rows(mask, slots):  # type: ignore[no-untyped-def]
    for slot in slots:
        mask[slot] = True


State = SlotArrays | KeptRows[Any]


def _padded(mask: Mask, size: int) -> Mask:
    return mask[:size] if len(mask) >= size else np.concatenate([mask, np.zeros(size - len(mask), np.bool_)])


def _to_column(array: npt.NDArray[Any]) -> pa.Array:
    if not array[:1].size and len(array):  # rows without values, such as the history of a filter with one tap
        return pa.nulls(len(array))
    flat = np.ascontiguousarray(array).reshape(len(array), -1)
    if flat.dtype.kind == "c":
        flat = flat.view(flat.real.dtype)
    if array.ndim == 1 and array.dtype.kind != "c":
        return pa.array(array)
    return pa.FixedSizeListArray.from_arrays(pa.array(flat.reshape(-1)), flat.shape[1])


def _from_column(column: pa.ChunkedArray, field: Field) -> npt.NDArray[Any]:
    rows = len(column)
    if pa.types.is_null(column.type):
        return np.zeros((rows, *field.shape), field.dtype)
    array = pa.concat_arrays(column.chunks) if column.num_chunks != 1 else column.chunk(0)
    if pa.types.is_fixed_size_list(array.type):
        array = array.flatten()
    values, dtype = array.to_numpy(zero_copy_only=False), np.dtype(field.dtype)
    values = np.ascontiguousarray(values).view(dtype) if dtype.kind == "c" else values.astype(dtype)
    return values.reshape(rows, *field.shape)
