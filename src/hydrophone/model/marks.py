"""Marks: the progress of an edge of the plan, for all keys together or per key.

A mark is a number, for all keys, or an array with a mark per slot and a last one for all keys without a slot.
Operators use these functions, so that progress per key needs no second code path. `Marks` holds the marks of all inputs of a kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from hydrophone.model.batch import Ints, Joint
from hydrophone.model.time import MAX_TIME, MIN_TIME, add_time, is_infinite

Mark = int | Ints


@dataclass(frozen=True, slots=True, eq=False)
class Marks:
    """The marks of the inputs of a kernel. Most kernels use only the start marks: ``marks[port]``.

    Attributes
    ----------
    starts : the mark of every input: no later event starts before it
    joints : the joint progress of every input, or None; given to `advance` and `jointly`, not to `idle`
    ends : no later event of any input ends before this, whatever its start

    Examples
    --------
    >>> marks = Marks((7, np.array([9, 8, 7])), joints=(None, (7, 3)), ends=12)
    >>> marks[0], len(marks), marks.joints[1], marks.ends
    (7, 2, (7, 3), 12)
    """

    starts: tuple[Any, ...]
    joints: tuple[Joint | None, ...] = ()
    ends: int = MIN_TIME

    def __getitem__(self, port: int) -> Any:
        return self.starts[port]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.starts)

    def __len__(self) -> int:
        return len(self.starts)


def marks_of_slots(mark: Mark, slot: Ints) -> Mark:
    """The marks of these slots; one number if all keys have the same mark.

    Examples
    --------
    >>> marks_of_slots(7, np.array([0, 2])), marks_of_slots(np.array([9, 8, 7]), np.array([0, 5]))
    (7, array([9, 7]))
    """
    return mark.take(slot, mode="clip") if isinstance(mark, np.ndarray) else mark


def marks_by_slot(mark: Mark, slots: int) -> Ints:
    """The marks of the first `slots` slots.

    Examples
    --------
    >>> marks_by_slot(7, 2), marks_by_slot(np.array([9, 7]), 3)
    (array([7, 7]), array([9, 7, 7]))
    """
    return mark.take(np.arange(slots), mode="clip") if isinstance(mark, np.ndarray) else np.full(slots, mark)


def low_water_mark(mark: Mark) -> int:
    """The lowest mark of all keys.

    Examples
    --------
    >>> low_water_mark(7), low_water_mark(np.array([9, 8, 7]))
    (7, 7)
    """
    return int(mark.min()) if isinstance(mark, np.ndarray) else mark


def lowest_marks(marks: Sequence[Mark] | Marks) -> Mark:
    """The lowest mark per key over several inputs.

    Examples
    --------
    >>> lowest_marks([7, 5]), lowest_marks([np.array([9, 8, 7]), np.array([3, 2])])
    (5, array([3, 2, 2]))
    """
    size = max(len(m) if isinstance(m, np.ndarray) else 0 for m in marks)
    if not size:
        return min(low_water_mark(m) for m in marks)
    return reduce(np.minimum, [marks_by_slot(m, size) for m in marks])


def hold_back_mark(mark: Mark, slot: Ints, start: Ints, ended: Mark | None = None) -> Mark:
    """The mark, held back by events of these slots that are still open: to their start.

    A key that has ended is not held back; `ended` is the mark that says so, if it is another one.

    Examples
    --------
    >>> hold_back_mark(7, np.array([0, 2]), np.array([5, 6])), hold_back_mark(np.array([9, 8, 7]), np.array([0]), np.array([6]))
    (5, array([6, 8, 7]))
    """
    if not len(slot):
        return mark
    waits = np.less(marks_of_slots(mark if ended is None else ended, slot), MAX_TIME)
    if not isinstance(mark, np.ndarray):
        return min(mark, int(start.min(initial=MAX_TIME, where=waits)))
    held = marks_by_slot(mark, max(len(mark), int(slot.max()) + 2))
    np.minimum.at(held, slot, np.where(waits, start, MAX_TIME))
    return held


def floor_mark(mark: Mark, step: int, offset: int) -> Mark:
    """Round a mark (or each) down to a multiple of `step` after `offset`; saturates at the first instant.

    Examples
    --------
    >>> floor_mark(17, 10, 2), floor_mark(np.array([MIN_TIME + 1, 1]), 10, 2).tolist()
    (12, [-9223372036854775808, -8])
    """
    offset %= step

    def floor(m: Any) -> Mark:
        down = (m % step - offset) % step if offset else m % step
        found: Mark = add_time(m, -down)
        return found

    return map_mark(mark, floor)


def is_same_mark(before: Mark, now: Mark) -> bool:
    """Whether a mark is unchanged for all keys. Marks per key count as changed: a slot may have a new key.

    Examples
    --------
    >>> is_same_mark(5, 5), is_same_mark(5, 6), is_same_mark(np.array([5]), np.array([5]))
    (True, False, False)
    """
    return not isinstance(before, np.ndarray) and not isinstance(now, np.ndarray) and before == now


def forget_slots(mark: Mark, slots: Ints) -> Mark:
    """Reset the marks of slots whose keys were released.

    Examples
    --------
    >>> forget_slots(np.array([9, 8, 7]), np.array([0]))
    array([7, 8, 7])
    """
    if not isinstance(mark, np.ndarray):
        return mark
    kept = mark.copy()
    kept[slots[slots < len(kept)]] = kept[-1]
    return kept


def map_mark(mark: Mark, function: Callable[..., Mark]) -> Mark:
    """Apply a function to a mark, or to each; minus and plus infinity stay.

    Examples
    --------
    >>> map_mark(7, lambda m: m // 5 * 5), map_mark(np.array([MAX_TIME, 7]), lambda m: m // 5 * 5).tolist()
    (5, [9223372036854775807, 5])
    """
    if not isinstance(mark, np.ndarray):
        return mark if mark in (MIN_TIME, MAX_TIME) else function(mark)
    ends = is_infinite(mark)
    return np.where(ends, mark, function(np.where(ends, 0, mark)))
