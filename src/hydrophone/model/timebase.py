"""Timebases: the exact rational grids that samples lie on."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast, overload

import numpy as np
from numpy.typing import NDArray

from hydrophone.errors import DataError, ParameterError
from hydrophone.model.compiled import compiled
from hydrophone.model.time import (
    MAX_TIME,
    MIN_TIME,
    Duration,
    Index,
    Instant,
    Ints,
    add_time,
    duration,
    extremes,
    instant,
    is_infinite,
    multiples,
    period,
    time_out_of_range,
)

__all__ = ["INDEX_LIMIT", "Timebase", "Timebases", "check_indices"]

INDEX_LIMIT = 1 << 62
"""Limit for sample indices of either sign: the difference of two never wraps."""

# The arithmetic of grids: sample k of a grid lies at origin + floor(k * num / den), for Python's ints and for int64
# arrays. It divides before it multiplies, so that with num * den below 2**63 (`_check_grid`)
# nothing overflows but what saturates.


def _grid_instant(num: Any, den: Any, origin: Any, k: Any) -> Any:
    if (
        isinstance(k, np.ndarray) and k.size == 1 and isinstance(den, int)
    ):  # one run: whole numbers are ten times faster
        return np.full(k.shape, _grid_instant(num, den, origin, k.item()), np.int64)
    if isinstance(den, int) and den == 1:
        return add_time(multiples(k, num), origin)
    whole = k // den
    part = (k - whole * den) * num // den
    return add_time(add_time(multiples(whole, num), part), origin)


def _grid_index(num: Any, den: Any, origin: Any, t: Any) -> tuple[Any, Any]:
    """Return the first index at or after each instant, and whether it lies exactly there."""
    if isinstance(t, np.ndarray):
        found: tuple[Ints, NDArray[np.bool_]]
        found = _grid_indices(np.atleast_1d(num), np.atleast_1d(den), np.atleast_1d(origin), t)
        return found
    if isinstance(num, np.ndarray):
        return _grid_index(num, den, origin, np.full(len(num), t))
    elapsed = add_time(t, -origin)
    whole = elapsed // num
    part = (elapsed - whole * num) * den
    up = -(-part // num)
    # floor(k * num / den) == elapsed  <=>  0 <= k * num - elapsed * den < den
    index, exact = whole * den + up, up * num - part < den
    return (elapsed, False) if elapsed in (MIN_TIME, MAX_TIME) else (index, exact)


@compiled
def _grid_indices(num: Any, den: Any, origin: Any, t: Any) -> Any:
    """`_grid_index` on one grid, or on one per instant; compiled, because NumPy would need a dozen passes."""
    index, exact = np.empty(len(t), np.int64), np.empty(len(t), np.bool_)
    shared = len(num) == 1
    for i in range(len(t)):
        if shared and i and t[i] == t[i - 1]:  # many keys often share an instant
            index[i], exact[i] = index[i - 1], exact[i - 1]
            continue
        at = 0 if shared else i
        # Compare before subtracting: LLVM assumes that a signed difference never wraps, and may drop a check after it.
        low, high = MIN_TIME + max(origin[at], 0), MAX_TIME + min(origin[at], 0)
        if t[i] <= low or t[i] >= high or t[i] in (MIN_TIME, MAX_TIME):
            index[i], exact[i] = MIN_TIME if t[i] < 0 else MAX_TIME, False
            continue
        elapsed = t[i] - origin[at]
        whole = elapsed // num[at]
        part = (elapsed - whole * num[at]) * den[at]
        up = np.int64(part > 0) if den[at] == 1 else -(-part // num[at])
        index[i], exact[i] = whole * den[at] + up, up * num[at] - part < den[at]
    return index, exact


def check_indices(low: int, high: int) -> None:
    """Refuse samples whose indices, from `low` to `high`, kernels cannot compute with."""
    if not -INDEX_LIMIT < low <= high < INDEX_LIMIT:
        raise DataError(
            f"a sample would have the index {low if low <= -INDEX_LIMIT else high}, and indices end at 2**62",
            hint="use a longer period, or an offset= that is nearer to the data",
            inside=True,
        )


def _check_grid(num: int, den: int, origin: int) -> None:
    if num < den:
        raise ParameterError(
            f"timebase: the period must be at least 1ns, got {num}/{den}ns",
            hint="instants are whole nanoseconds, so samples closer than that would share one",
        )
    if num * den > MAX_TIME:
        raise ParameterError(
            f"timebase: the period {num}/{den}ns is too fine a fraction for 64-bit arithmetic",
            hint="numerator times denominator must stay below 2**63; round the period",
        )
    if not MIN_TIME < origin < MAX_TIME:
        raise ParameterError(f"timebase: the origin must be a finite instant of 64 bits, got {origin}")


@dataclass(frozen=True)
class Timebase:
    """The grid that the samples of a signal lie on: sample ``k`` at ``origin + floor(k * period)``.

    Parameters
    ----------
    period : Fraction
        Exact spacing in nanoseconds, at least 1 (44.1 kHz has no whole-nanosecond period).
    origin : int
        The instant of sample 0.

    Notes
    -----
    Indices and instants are exact wherever ``t - origin`` fits 64 bits; beyond, and at `MIN_TIME` and
    `MAX_TIME`, they saturate.

    Examples
    --------
    >>> audio = Timebase.every("44.1kHz")
    >>> audio.instant(1), audio.instant(441)
    (22675, 10000000)
    >>> audio.index_from(22676), audio.index_at(22675)
    (2, (1, True))
    """

    period: Fraction
    origin: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.period, (Fraction, int)):
            raise ParameterError(
                f"timebase: the period must be a Fraction of nanoseconds, got {self.period!r}",
                hint="Timebase.every reads text such as '20ms' and '44.1kHz'",
            )
        object.__setattr__(self, "period", Fraction(self.period))
        object.__setattr__(self, "origin", operator.index(self.origin))
        _check_grid(*self._grid)

    @classmethod
    def every(cls, spacing: Duration, *, origin: Instant = 0) -> Timebase:
        """Make a timebase from a readable period or rate.

        Examples
        --------
        >>> Timebase.every("50Hz", origin="1970-01-01T00:00:01")
        Timebase(period=Fraction(20000000, 1), origin=1000000000)
        """
        return cls(period(spacing), instant(origin))

    @property
    def _grid(self) -> tuple[int, int, int]:
        return self.period.numerator, self.period.denominator, self.origin

    @property
    def period_ns(self) -> float:
        """The spacing of samples in nanoseconds, rounded for display.

        Examples
        --------
        >>> Timebase.every("44.1kHz").period_ns
        22675.736961451246
        """
        return float(self.period)

    @property
    def rate_hz(self) -> float:
        """Samples per second, rounded for display.

        Examples
        --------
        >>> Timebase.every("44.1kHz").rate_hz
        44100.0
        """
        return float(10**9 / self.period)

    @overload
    def instant(self, k: Ints) -> Ints: ...
    @overload
    def instant(self, k: Index) -> int: ...
    def instant(self, k: Index | Ints) -> int | Ints:
        """Return the instants of samples.

        Examples
        --------
        >>> Timebase.every("20ms").instant(np.array([0, 1, 2]))
        array([       0, 20000000, 40000000])
        """
        return cast("int | Ints", _grid_instant(*self._grid, _operand(k)))

    @overload
    def index_from(self, t: Ints) -> Ints: ...
    @overload
    def index_from(self, t: Index) -> int: ...
    def index_from(self, t: Index | Ints) -> int | Ints:
        """Return the smallest index whose instant is not before `t`.

        Examples
        --------
        >>> Timebase.every("20ms").index_from(np.array([0, 1, 20_000_000]))
        array([0, 1, 1])
        """
        return cast("int | Ints", _grid_index(*self._grid, _operand(t))[0])

    @overload
    def index_at(self, t: Ints) -> tuple[Ints, NDArray[np.bool_]]: ...
    @overload
    def index_at(self, t: Index) -> tuple[int, bool]: ...
    def index_at(self, t: Index | Ints) -> tuple[int | Ints, bool | NDArray[np.bool_]]:
        """Return the index whose instant is `t`, and whether there is one.

        Where there is none, the index is that of `index_from`.

        Examples
        --------
        >>> Timebase.every("20ms").index_at(np.array([0, 1, 20_000_000]))
        (array([0, 1, 1]), array([ True, False,  True]))
        """
        return _grid_index(*self._grid, _operand(t))

    def check_holds(self, low: int, high: int) -> None:
        """Refuse instants, from `low` to `high`, that are too many samples away from the origin.

        Examples
        --------
        >>> Timebase.every("1s").check_holds(0, MAX_TIME - 1)
        """
        check_indices(*((t - self.origin) * self.period.denominator // self.period.numerator for t in (low, high)))

    def same_grid(self, other: Timebase) -> bool:
        """Whether the samples of both lie on the same instants, be the indices shifted or not.

        Examples
        --------
        >>> Timebase.every("20ms").same_grid(Timebase.every("20ms", origin=40_000_000))
        True
        >>> Timebase.every("20ms").same_grid(Timebase.every("20ms", origin=1))
        False
        """
        return self.period == other.period and (other.origin - self.origin) % self.period.numerator == 0

    def shifted(self, by: Duration) -> Timebase:
        """Return the grid with every sample moved in time by a duration.

        Examples
        --------
        >>> Timebase.every("20ms").shifted("-5ms")
        Timebase(period=Fraction(20000000, 1), origin=-5000000)
        """
        return Timebase(self.period, add_time(self.origin, duration(by)))

    def decimated(self, n: int) -> Timebase:
        """Return the grid of every `n`-th sample: its sample ``k`` is sample ``n * k`` of this one.

        Examples
        --------
        >>> Timebase.every("44.1kHz").decimated(441)
        Timebase(period=Fraction(10000000, 1), origin=0)
        """
        if n < 1:
            raise ParameterError(f"decimated: n must be at least 1, got {n}")
        return Timebase(self.period * n, self.origin)


@dataclass(frozen=True, eq=False)
class Timebases:
    """The timebases of many key slots: one row that all slots share, or one row per slot.

    Parameters
    ----------
    num, den, origin : ndarray of int64
        Numerator and denominator of the period in nanoseconds, and the instant of sample 0.

    Notes
    -----
    `of`, `take` and `extend` turn equal rows into one shared row, which is the fast case.

    Examples
    --------
    >>> grids = Timebases.of([Timebase.every("20ms"), Timebase.every("44.1kHz")])
    >>> grids.instant(np.array([0, 1, 1]), np.array([1, 1, 2]))
    array([20000000,    22675,    45351])
    """

    num: Ints
    den: Ints
    origin: Ints

    def __post_init__(self) -> None:
        if not len(self.num) == len(self.den) == len(self.origin):
            raise ParameterError("timebases: num, den and origin must be equally long")
        wrong = (self.den < 1) | (self.num < self.den) | is_infinite(self.origin)
        wrong |= self.num > MAX_TIME // np.maximum(self.den, 1)
        for row in np.flatnonzero(wrong)[:1]:
            _check_grid(int(self.num[row]), int(self.den[row]), int(self.origin[row]))
            raise ParameterError(f"timebases: the denominator of row {row} must be positive, got {self.den[row]}")

    @classmethod
    def shared(cls, timebase: Timebase) -> Timebases:
        """Make the table in which all slots, however many, have one timebase.

        Examples
        --------
        >>> Timebases.shared(Timebase.every("20ms"))[7]
        Timebase(period=Fraction(20000000, 1), origin=0)
        """
        return _shared(timebase)

    @classmethod
    def of(cls, timebases: Iterable[Timebase]) -> Timebases:
        """Make the table of slots 0, 1, 2, ….

        Examples
        --------
        >>> Timebases.of([Timebase.every("20ms", origin=k) for k in (3, 5)])[1]
        Timebase(period=Fraction(20000000, 1), origin=5)
        """
        rows = np.array([timebase._grid for timebase in timebases], np.int64).reshape(-1, 3)
        return cls(rows[:, 0].copy(), rows[:, 1].copy(), rows[:, 2].copy())._condensed()

    @property
    def single(self) -> Timebase | None:
        """The timebase that all slots share, or None.

        Examples
        --------
        >>> Timebases.of([Timebase.every("20ms"), Timebase.every("10ms")]).single is None
        True
        """
        return self[0] if len(self.num) == 1 else None

    def __getitem__(self, slot: Index) -> Timebase:
        row = 0 if len(self.num) == 1 else slot
        return Timebase(Fraction(int(self.num[row]), int(self.den[row])), int(self.origin[row]))

    def instant(self, slot: Ints, k: Ints) -> Ints:
        """Return the instant of sample ``k[i]`` of slot ``slot[i]``.

        Examples
        --------
        >>> Timebases.shared(Timebase.every("20ms")).instant(np.array([0, 5]), np.array([1, 2]))
        array([20000000, 40000000])
        """
        return cast("Ints", _grid_instant(*self._rows(slot), k))

    def times(self, slot: Ints, k: Ints) -> Ints:
        """Return `instant` for times of data, and raise where one does not fit 64 bits.

        Examples
        --------
        >>> Timebases.shared(Timebase.every("20ms")).times(np.array([0]), np.array([3]))
        array([60000000])
        """
        times = self.instant(slot, k)
        if len(times):
            low, high = extremes(times)
            if low == MIN_TIME or high == MAX_TIME:
                raise time_out_of_range()
        return times

    def check_times(self, slot: Ints, first: Ints, stop: Ints) -> None:
        """Raise where `times` of runs from `first` to `stop` would; later samples never come earlier, so of one grid two are looked at.

        Examples
        --------
        >>> Timebases.shared(Timebase.every("20ms")).check_times(np.array([0]), np.array([3]), np.array([9]))
        """
        if len(self.num) > 1:
            self.times(slot, first)
            self.times(slot, stop)
            return
        ends = extremes(first)[0], extremes(stop)[1]
        if -self._surely <= ends[0] and ends[1] <= self._surely:
            return
        if any(_grid_instant(*self._rows(slot), k) in (MIN_TIME, MAX_TIME) for k in ends):
            raise time_out_of_range()

    def index_from(self, slot: Ints, t: Ints) -> Ints:
        """Return the smallest index of slot ``slot[i]`` whose instant is not before ``t[i]``.

        Examples
        --------
        >>> Timebases.shared(Timebase.every("20ms")).index_from(np.array([0, 5]), np.array([1, 40_000_000]))
        array([1, 2])
        """
        return cast("Ints", _grid_index(*self._rows(slot), t)[0])

    def index_from_mark(self, slot: Ints, mark: int | Ints) -> Ints:
        """Return `index_from` of one instant for all these slots, or of one for each; one instant on one grid is looked for once.

        Examples
        --------
        >>> Timebases.shared(Timebase.every("20ms")).index_from_mark(np.array([0, 5]), 40_000_000)
        array([2, 2])
        """
        if isinstance(mark, np.ndarray):
            return self.index_from(slot, mark)
        if len(self.num) == 1:
            return np.full(len(slot), _grid_index(*self._rows(slot), int(mark))[0])
        return self.index_from(slot, np.full(len(slot), mark))

    def index_at(self, slot: Ints, t: Ints) -> tuple[Ints, NDArray[np.bool_]]:
        """Return the index of slot ``slot[i]`` whose instant is ``t[i]``, and whether there is one.

        Where there is none, the index is that of `index_from`.

        Examples
        --------
        >>> Timebases.shared(Timebase.every("20ms")).index_at(np.array([0, 5]), np.array([1, 40_000_000]))
        (array([1, 2]), array([False,  True]))
        """
        if len(self.num) == 1:
            if len(t) == 1:
                index, exact = _grid_index(*self._rows(slot), t.item())
                return np.array([index], np.int64), np.array([exact])
            found: tuple[Ints, NDArray[np.bool_]] = _grid_indices(self.num, self.den, self.origin, t)
            return found
        return _grid_index(*self._rows(slot), t)

    def take(self, slots: Ints) -> Timebases:
        """Return the table whose slot ``i`` is this table's slot ``slots[i]``.

        Examples
        --------
        >>> Timebases.of([Timebase.every("20ms"), Timebase.every("10ms")]).take(np.array([1, 1])).single
        Timebase(period=Fraction(10000000, 1), origin=0)
        """
        if len(self.num) == 1:
            return self
        return Timebases(self.num[slots], self.den[slots], self.origin[slots])._condensed()

    def rows(self, slots: Ints) -> tuple[Ints, Ints, Ints]:
        """Return (num, den, origin) of each of these slots.

        Examples
        --------
        >>> Timebases.shared(Timebase.every("20ms")).rows(np.array([4, 7]))[0]
        array([20000000, 20000000])
        """
        rows = self.num, self.den, self.origin
        picked = (np.broadcast_to(x, len(slots)) if len(x) == 1 else x[slots] for x in rows)
        return cast("tuple[Ints, Ints, Ints]", tuple(picked))

    @classmethod
    def scatter(cls, slots: Ints, num: Ints, den: Ints, origin: Ints) -> Timebases:
        """Make the table in which slot ``slots[i]`` has row i; slots in between get a placeholder.

        Examples
        --------
        >>> Timebases.scatter(np.array([2, 0]), np.array([5, 7]), np.array([1, 1]), np.array([0, 0])).num
        array([7, 1, 5])
        """
        if len(slots) and all((x == x[0]).all() for x in (num, den, origin)):
            return cls(num[:1].copy(), den[:1].copy(), origin[:1].copy())
        size = int(slots.max(initial=0)) + 1
        table = np.ones(size, np.int64), np.ones(size, np.int64), np.zeros(size, np.int64)
        for column, values in zip(table, (num, den, origin), strict=True):
            column[slots] = values
        return cls(*table)

    def extend(self, slots: int, more: Timebases, more_slots: int) -> Timebases:
        """Return the table of this one's first `slots` slots followed by `more_slots` of another.

        The counts are needed because a shared row does not know for how many slots it stands.

        Examples
        --------
        >>> one, two = Timebase.every("20ms"), Timebase.every("10ms")
        >>> Timebases.shared(one).extend(3, Timebases.shared(two), 2).num
        array([20000000, 20000000, 20000000, 10000000, 10000000])
        """
        pairs = zip(self._spread(slots), more._spread(more_slots), strict=True)
        return Timebases(*(np.concatenate(pair) for pair in pairs))._condensed()

    def _rows(self, slot: Ints) -> tuple[int | Ints, int | Ints, int | Ints]:
        if len(self.num) == 1:  # Plain ints: NumPy divides by a scalar several times faster.
            return self._only
        return self.num[slot], self.den[slot], self.origin[slot]

    @functools.cached_property
    def _only(self) -> tuple[int, int, int]:
        return int(self.num[0]), int(self.den[0]), int(self.origin[0])

    @functools.cached_property
    def _surely(self) -> int:
        """Indices of the only grid, of either sign, whose instants fit without a closer look."""
        num, den, origin = self._only
        return (MAX_TIME - abs(origin)) // (num // den + 1) - 1

    def _spread(self, slots: int) -> tuple[Ints, Ints, Ints]:
        rows = self.num, self.den, self.origin
        return cast(
            "tuple[Ints, Ints, Ints]", tuple(np.broadcast_to(x, slots) if len(x) == 1 else x[:slots] for x in rows)
        )

    def _condensed(self) -> Timebases:
        rows = self.num, self.den, self.origin
        if len(self.num) > 1 and all((x == x[0]).all() for x in rows):
            return Timebases(*(x[:1].copy() for x in rows))
        return self


@functools.lru_cache(maxsize=1024)
def _shared(timebase: Timebase) -> Timebases:
    return Timebases.of([timebase])


def _operand(x: Index | Ints) -> int | Ints:
    return x if isinstance(x, np.ndarray) and x.ndim else operator.index(x)
