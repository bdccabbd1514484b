"""Progress of a source: its promise about order, and the marks that follow from the rows seen so far."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hydrophone.arguments import public
from hydrophone.errors import ParameterError
from hydrophone.model.clock_guard import DEFAULT_AHEAD, ClockGuard, merge_clusters, time_clusters
from hydrophone.model.take_rows import one_chunk
from hydrophone.model.time import MAX_TIME, MIN_TIME, Duration, Ints, add_time, duration, extremes

AS_WINDOWS = 0
"""Marks as fine as the windows of the query need."""

Seen = dict[str, Any]
"""What a batch says about each sender: its latest time, or for a guarded source its clusters of times."""

_EVERYBODY = "\0"
"""The sender under which times are kept that count for their key only."""


@dataclass(frozen=True)
class Policy:
    """What a source knows about the order of its rows.

    Attributes
    ----------
    delay : how far behind the latest time a row may come, in nanoseconds
    column : a column of punctuation ("nothing before this time will come"), instead of a delay
    by : the column whose values are the identities that promise (a gateway, a partition); None: the whole source promises
    idle : an identity that has fallen behind the latest by more than this leaves the minimum; None: never
    lull : while no rows come at all, progress follows the clock at this distance; None: it waits for rows
    per_key : how far behind the latest of its own key a row may come, where that is less than `delay`; None: no such promise
    own : whether the marks in `column` are for the key of their row alone; rows without key speak for all
    end : how far behind the latest end a row may come, a second promise beside that of its start; None: ends are not promised
    every : marks of the whole source are multiples of this, and in this process each of them ends a batch; None: as rows give them;
        `AS_WINDOWS`: as the windows of the query need, which the plan puts in its place
    ahead : rows further ahead of the rest than this are set aside and move no mark; None: all rows are believed
    """

    delay: int = 0
    column: str | None = None
    by: str | None = None
    idle: int | None = None
    lull: int | None = None
    per_key: int | None = None
    own: bool = False
    every: int | None = None
    end: int | None = None
    ahead: int | None = None

    @property
    def of_ends(self) -> Policy | None:
        """What the source promises of ends, as if they were its times."""
        return (
            None
            if self.end is None
            else Policy(self.end, by=self.by, idle=self.idle, every=self.every, ahead=self.ahead)
        )

    def promise(self, largest: int) -> int:
        """The mark that follows from the latest time (or punctuation) seen."""
        return self.coarse(largest if self.column else add_time(largest, -self.delay))

    def coarse(self, mark: int) -> int:
        """The mark, or the last multiple of `every` before it."""
        if not self.every or mark in (MIN_TIME, MAX_TIME):
            return mark
        return max(mark // self.every * self.every, MIN_TIME + 1)


@public
def ordered(
    *,
    by: str | None = None,
    idle: Duration | None = None,
    lull: Duration | None = None,
    every: Duration | None = None,
    ahead: Duration | None = DEFAULT_AHEAD,
) -> Policy:
    """Rows come in time order.

    Parameters
    ----------
    by : str, optional
        The column that says who sent a row; each sender is ordered by itself, and progress is that of the slowest.
    idle : duration, optional
        A sender that is further behind than this no longer holds back the others; its rows are late when it returns.
    lull : duration, optional
        For times that are those of the clock on the wall: when a running stream gets no rows at all, nothing that is older
        than this is waited for. Without it, the last results wait for rows after them.
    every : duration, optional
        Marks lie so much data time apart, at multiples of it: as fine as the windows in use need, and no finer. In this process
        (``batches``) a mark ends its batch early, so that rows that are few and far between do not wait for others to fill it.
        ``"windows"``: what divides the steps of all windows that read the source, where nothing but `tumble` and `sliding` does.
    ahead : duration or None, optional
        Rows that lie further ahead of the rest of the source are set aside as late rows are, and move no mark: one clock that is wrong
        makes nobody else late. A year unless you say so; None believes every clock. Once nine out of ten rows, and at least 16, lie
        beyond, the source has jumped, and they are believed.

    Examples
    --------
    >>> ordered().promise(104), ordered(every=50).promise(104)
    (104, 100)
    """
    return Policy(
        0,
        None,
        by,
        _check_positive("idle", idle),
        _check_positive("lull", lull),
        every=_check_every(every),
        ahead=_check_positive("ahead", ahead),
    )


@public
def delayed(
    delay: Duration,
    *,
    per_key: Duration | None = None,
    end: Duration | None = None,
    by: str | None = None,
    idle: Duration | None = None,
    lull: Duration | None = None,
    every: Duration | None = None,
    ahead: Duration | None = DEFAULT_AHEAD,
) -> Policy:
    """Rows come at most `delay` behind the latest time seen; `by`, `idle`, `lull`, `every` and `ahead` as in `ordered`.

    With `per_key` a row also comes at most so far behind the latest row of its own key: a key that is ahead has results early,
    and one that is silent holds back nobody else, and itself no longer than `delay`.

    With `end` a row also ends at most so far behind the latest *end*: records of flows leave a router as flows end, and so in the order
    of their ends, while their starts lie up to the longest flow apart. What counts by ends (`point_at_end`) need not wait for starts then.

    Examples
    --------
    >>> delayed("5s").promise(7_000_000_000)
    2000000000
    >>> delayed("1h", per_key="5s").per_key
    5000000000
    >>> delayed("30min", end="5s").end
    5000000000
    """
    ends = None if end is None else duration(end)
    if ends is not None and ends < 0:
        raise ParameterError(f"progress: end must not be negative, got {end!r}")
    behind, own = duration(delay), None if per_key is None else duration(per_key)
    if behind < 0:
        raise ParameterError(f"progress: delay must not be negative, got {delay!r}")
    if own is not None and not 0 <= own <= behind:
        raise ParameterError(
            f"progress: per_key must lie between 0 and the delay of the whole source, got {per_key!r} and {delay!r}",
            hint='delayed("1h", per_key="5s"): keys are an hour apart at most, and each in order but for five seconds',
        )
    quiet = _check_positive("idle", idle), _check_positive("lull", lull)
    return Policy(
        behind, None, by, *quiet, own, every=_check_every(every), end=ends, ahead=_check_positive("ahead", ahead)
    )


@public
def punctuated(
    column: str,
    *,
    per_key: bool = False,
    by: str | None = None,
    idle: Duration | None = None,
    lull: Duration | None = None,
    every: Duration | None = None,
    ahead: Duration | None = None,
) -> Policy:
    """A column of the rows says so: no row that starts before its value will come; `by`, `idle`, `lull` and `every` as in `ordered`.

    With `ahead` a row whose mark is so much further than the marks of the rest is set aside, and its mark is not believed.
    A row without a time is no event: it is there for its mark alone. One whose mark goes back is late.
    With `per_key` a mark is for the key of its row alone, and those of rows without key (null in all its columns) are for all keys.

    Examples
    --------
    >>> punctuated("mark").promise(42)
    42
    >>> punctuated("mark", per_key=True).own
    True
    """
    quiet = _check_positive("idle", idle), _check_positive("lull", lull)
    return Policy(
        0,
        column,
        by,
        *quiet,
        0 if per_key else None,
        bool(per_key),
        _check_every(every),
        ahead=_check_positive("ahead", ahead),
    )


def _check_every(every: Duration | None) -> int | None:
    return AS_WINDOWS if isinstance(every, str) and every == "windows" else _check_positive("every", every)


def _check_positive(what: str, value: Duration | None) -> int | None:
    if value is None:
        return None
    ns = duration(value)
    if ns <= 0:
        raise ParameterError(f"progress: {what} must be positive, got {value!r}")
    return ns


def latest_times(table: pa.Table, time: str, policy: Policy, key: Sequence[str] = ()) -> dict[str, int]:
    """The latest time (or punctuation) of every sender in a batch, from rows that count for all keys.

    Examples
    --------
    >>> latest_times(pa.table({"t": [3, 9, 4], "who": ["a", "b", "a"]}), "t", ordered(by="who"))
    {'a': 4, 'b': 9}
    >>> told = pa.table({"t": [3, None], "m": [2, 1], "k": ["a", None]})
    >>> latest_times(told, "t", punctuated("m", per_key=True), ["k"])
    {'': 1}
    """
    column = policy.column or time
    if policy.own:
        table = table.filter(without_key(table, key))
    if not len(table):
        return {}
    if policy.by is None and not table[column].null_count:
        return {"": extremes(_instants(table[column]))[1]}
    if policy.by is None:
        found = {"": pc.max(table[column])}
    else:
        grouped = table.select([policy.by, column]).group_by(policy.by).aggregate([(column, "max")])
        found = dict(zip(map(str, grouped[policy.by].to_pylist()), grouped[f"{column}_max"], strict=True))
    return {who: _nanoseconds(value) for who, value in sorted(found.items()) if value.is_valid}


def seen_times(table: pa.Table, time: str, policy: Policy, key: Sequence[str] = ()) -> Seen:
    """What a batch says about each sender: `latest_times`, or for a guarded source its clusters of times.

    Examples
    --------
    >>> seen_times(pa.table({"t": [3, 9, 4], "who": ["a", "b", "a"]}), "t", ordered(by="who", ahead=5))
    {'a': [(3, 4, 2)], 'b': [(9, 9, 1)]}
    """
    if policy.ahead is None:
        return latest_times(table, time, policy, key)
    column = policy.column or time
    found = {}
    if policy.own:
        own = table.filter(pc.invert(without_key(table, key)))
        found[_EVERYBODY] = time_clusters(_instants(own[column]), policy.ahead)
        table = table.filter(without_key(table, key))
    if policy.by is None:
        found[""] = time_clusters(_instants(table[column]), policy.ahead)
    else:
        senders = table[policy.by].combine_chunks().dictionary_encode()
        senders = senders if isinstance(senders, pa.DictionaryArray) else senders.combine_chunks()
        for number, who in enumerate(senders.dictionary.to_pylist()):
            its = table.filter(pc.equal(senders.indices, number))
            found[str(who)] = time_clusters(_instants(its[column]), policy.ahead)
    return {who: those for who, those in sorted(found.items()) if those}


def merge_seen(one: Seen, other: Seen, policy: Policy) -> Seen:
    """Merge what two batches say.

    Examples
    --------
    >>> merge_seen({"a": 4}, {"a": 9, "b": 1}, ordered(ahead=None))
    {'a': 9, 'b': 1}
    """
    found = {}
    for who in sorted({*one, *other}):
        said = [s[who] for s in (one, other) if who in s]
        if policy.ahead is None or isinstance(said[0], int):
            found[who] = max(said)
        else:
            found[who] = merge_clusters([c for those in said for c in those], policy.ahead)
    return found


def _instants(column: pa.ChunkedArray) -> Ints:
    column = one_chunk(column.drop_null() if column.null_count else column)
    if pa.types.is_timestamp(column.type) and column.type.unit != "ns":
        column = column.cast(pa.timestamp("ns", column.type.tz))
    return (column if column.type == pa.int64() else column.cast(pa.int64())).to_numpy()


def without_key(table: pa.Table, key: Sequence[str]) -> pa.Array:
    """Which rows have no key: null in all of its columns."""
    none: pa.Array = pa.array(np.ones(len(table), np.bool_))
    for name in key:
        none = pc.and_(none, pc.is_null(table[name]))
    return none


def _nanoseconds(value: pa.Scalar) -> int:
    return (
        int(value.cast(pa.timestamp("ns", value.type.tz)).value)
        if pa.types.is_timestamp(value.type)
        else int(value.as_py())
    )


@dataclass
class Tracker:
    """The marks of one source, by sender. The mark of the source is the lowest of the live senders, and never falls.

    Examples
    --------
    >>> seen = Tracker(delayed("0s"))
    >>> seen.see({"a": 10, "b": 7})
    >>> seen.mark
    7
    >>> seen.see({"a": 20})
    >>> seen.mark
    7
    """

    policy: Policy
    marks: dict[str, int] = field(default_factory=dict)
    mark: int = MIN_TIME
    ends: Tracker | None = field(init=False)
    """The marks of ends, where the source promises something of them."""
    guard: ClockGuard | None = field(init=False)
    """How far the source is believed to be, where it is guarded."""

    def __post_init__(self) -> None:
        self.guard = None if self.policy.ahead is None else ClockGuard(self.policy.ahead)
        ends = self.policy.of_ends
        self.ends = None if ends is None else Tracker(ends)

    def limit(self, seen: Seen) -> int:
        """The latest time (or punctuation) that is believed, given a batch that is not taken yet."""
        told = [those for those in seen.values() if isinstance(those, list)]
        if self.guard is None or not told:
            return MAX_TIME
        return self.guard.limit(merge_clusters([c for those in told for c in those], self.guard.ahead), self.mark)

    def see(self, seen: Seen, limit: int = MAX_TIME) -> None:
        """Take what a batch says, as far as it is believed, and advance the mark."""
        for identity, time in self._believed(seen, limit):
            self.marks[identity] = max(self.marks.get(identity, self.mark), self.policy.promise(time))
        live = list(self._live(self.marks.values()))
        if live:
            self.mark = max(self.mark, min(live))

    def _believed(self, seen: Seen, limit: int) -> Iterable[tuple[str, int]]:
        for who, said in seen.items():
            highs = [said] if isinstance(said, int) else [high for _, high, _ in said if high <= limit]
            if highs and who != _EVERYBODY:
                yield who, max(highs)

    @property
    def ended(self) -> int:
        """The mark of ends, where the source promises one."""
        return MIN_TIME if self.ends is None else self.ends.mark

    def tick(self, clock: int) -> None:
        """No row came until this clock time: advance the mark, if the source has a `lull`."""
        if self.policy.lull is not None:
            self.mark = max(self.mark, self.policy.coarse(add_time(clock, -self.policy.lull)))

    def _live(self, marks: Iterable[int]) -> Iterable[int]:
        marks = list(marks)
        if self.policy.idle is None or not marks:
            return marks
        horizon = add_time(max(marks), -self.policy.idle)
        return [m for m in marks if m >= horizon]
