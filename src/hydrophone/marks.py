"""Marks: how far an edge of the plan has come, for all keys together or for every key by itself.

A mark is a number, for all keys, or an array with a mark for every slot and, as its last element, one for all keys that are in no slot yet.
Every operator asks these functions how far a key is, and so needs no second way for progress per key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np

from hydrophone.batch import Ints
from hydrophone.time import MAX_TIME, MIN_TIME, add_time, is_infinite, multiples

Mark = int | Ints


def of(mark: Mark, slot: Ints) -> Mark:
    """How far the keys of these slots are: one number where all are equally far.

    Examples
    --------
    >>> of(7, np.array([0, 2])), of(np.array([9, 8, 7]), np.array([0, 5]))
    (7, array([9, 7]))
    """
    return mark.take(slot, mode="clip") if isinstance(mark, np.ndarray) else mark


def by_slot(mark: Mark, slots: int) -> Ints:
    """The marks of the first so many slots.

    Examples
    --------
    >>> by_slot(7, 2), by_slot(np.array([9, 7]), 3)
    (array([7, 7]), array([9, 7, 7]))
    """
    return mark.take(np.arange(slots), mode="clip") if isinstance(mark, np.ndarray) else np.full(slots, mark)


def least(mark: Mark) -> int:
    """How far all keys are.

    Examples
    --------
    >>> least(7), least(np.array([9, 8, 7]))
    (7, 7)
    """
    return int(mark.min()) if isinstance(mark, np.ndarray) else mark


def lowest(marks: Sequence[Mark]) -> Mark:
    """How far each key is on all of these edges.

    Examples
    --------
    >>> lowest([7, 5]), lowest([np.array([9, 8, 7]), np.array([3, 2])])
    (5, array([3, 2, 2]))
    """
    size = max(len(m) if isinstance(m, np.ndarray) else 0 for m in marks)
    if not size:
        return min(least(m) for m in marks)
    return reduce(np.minimum, [by_slot(m, size) for m in marks])


def held_back(mark: Mark, slot: Ints, start: Ints, ended: Mark | None = None) -> Mark:
    """The mark where something of these slots that starts then is still open.

    Nothing holds back a key that has ended, by its mark or by that of the side which is waited for.

    Examples
    --------
    >>> held_back(7, np.array([0, 2]), np.array([5, 6])), held_back(np.array([9, 8, 7]), np.array([0]), np.array([6]))
    (5, array([6, 8, 7]))
    """
    if not len(slot):
        return mark
    waits = np.less(of(mark if ended is None else ended, slot), MAX_TIME)
    if not isinstance(mark, np.ndarray):
        return min(mark, int(start.min(initial=MAX_TIME, where=waits)))
    held = by_slot(mark, max(len(mark), int(slot.max()) + 2))
    np.minimum.at(held, slot, np.where(waits, start, MAX_TIME))
    return held


def floored(mark: Mark, step: int, offset: int) -> Mark:
    """The last multiple of a step after an offset that is not after the mark, or each; near the first instant there is it stops at that.

    Examples
    --------
    >>> floored(17, 10, 2), floored(np.array([MIN_TIME + 1, 1]), 10, 2).tolist()
    (12, [-9223372036854775808, -8])
    """
    return moved(mark, lambda m: add_time(multiples(add_time(m, -offset) // step, step), offset))


def unmoved(before: Mark, now: Mark) -> bool:
    """Whether a mark is where it was, for all keys. Of keys with marks of their own one may have come just now, in the slot of another.

    Examples
    --------
    >>> unmoved(5, 5), unmoved(5, 6), unmoved(np.array([5]), np.array([5]))
    (True, False, False)
    """
    return not isinstance(before, np.ndarray) and not isinstance(now, np.ndarray) and before == now


def forgotten(mark: Mark, slots: Ints) -> Mark:
    """The mark where these slots have lost their keys, and may get others.

    Examples
    --------
    >>> forgotten(np.array([9, 8, 7]), np.array([0]))
    array([7, 8, 7])
    """
    if not isinstance(mark, np.ndarray):
        return mark
    kept = mark.copy()
    kept[slots[slots < len(kept)]] = kept[-1]
    return kept


def moved(mark: Mark, function: Callable[..., Mark]) -> Mark:
    """A function of the mark, or of each; before any mark and after the end there is nothing to move.

    Examples
    --------
    >>> moved(7, lambda m: m // 5 * 5), moved(np.array([MAX_TIME, 7]), lambda m: m // 5 * 5).tolist()
    (5, [9223372036854775807, 5])
    """
    if not isinstance(mark, np.ndarray):
        return mark if mark in (MIN_TIME, MAX_TIME) else function(mark)
    ends = is_infinite(mark)
    return np.where(ends, mark, function(np.where(ends, 0, mark)))
