"""The compiled rules of frames: which readings belong together. State is one row of integers and one of sums per key and role."""

from __future__ import annotations

from typing import Any

import numpy as np

from hydrophone.model.compiled import compiled

FRAME, RUN, CANDIDATE, READING = range(4)
"""Roles: the frame that is certain, a status that does not last yet, one that may be noise, and the last reading."""
ROLES = 4
STATUS, START, SINCE, END, COUNT = range(5)
"""Columns of the integers: status (-1: nothing in this role), where its time begins, where its own status begins, its end, its readings."""
COLUMNS = 5
MOST = 8
"""More frames than one reading can end."""
PATIENCE = 100
"""How many times `at_least` (or `noise`) short statuses wait for one that lasts."""


@compiled
def _span(end: int, start: int) -> Any:
    """The time between two instants. Unsigned: it may not fit a signed number."""
    return np.uint64(end) - np.uint64(start)


@compiled
def band_of(value: float, before: int, edges: Any, hysteresis: float) -> int:
    """The band of a value after that of the reading before (-1: none); upper bounds belong to their band, NaN to none."""
    if value != value:
        return -1
    if before >= 0:
        low = edges[before - 1] - hysteresis if before > 0 else -np.inf
        high = edges[before] + hysteresis if before < len(edges) else np.inf
        if (value > low or before == 0) and value <= high:
            return before
    return int(np.searchsorted(edges, value))


@compiled
def _clear(ints: Any, sums: Any, role: int) -> None:
    ints[role, STATUS] = -1
    ints[role, COUNT] = 0
    sums[role] = 0


@compiled
def _copy(ints: Any, sums: Any, role: int, to: int) -> None:
    ints[to] = ints[role]
    sums[to] = sums[role]
    _clear(ints, sums, role)


@compiled
def _join(ints: Any, sums: Any, role: int, to: int) -> None:
    """Add what a role has to another one, which then ends where it ended."""
    ints[to, END] = ints[role, END]
    ints[to, COUNT] += ints[role, COUNT]
    sums[to] += sums[role]
    _clear(ints, sums, role)


@compiled
def _emit(key: int, ints: Any, sums: Any, out: Any, totals: Any, count: int) -> int:
    """Give the frame that is certain."""
    out[count, 0] = key
    out[count, 1] = ints[FRAME, START]
    out[count, 2] = ints[FRAME, END]
    out[count, 3] = ints[FRAME, STATUS]
    out[count, 4] = ints[FRAME, COUNT]
    totals[count] = sums[FRAME]
    return count + 1


@compiled
def _confirm(key: int, ints: Any, sums: Any, out: Any, totals: Any, count: int) -> int:
    """The run becomes the frame, or the frame goes on with it."""
    if ints[FRAME, STATUS] == ints[RUN, STATUS]:
        _join(ints, sums, RUN, FRAME)
        return count
    if ints[FRAME, STATUS] >= 0:
        count = _emit(key, ints, sums, out, totals, count)
    _copy(ints, sums, RUN, FRAME)
    return count


@compiled
def _lasts(key: int, ints: Any, sums: Any, at_least: int, out: Any, totals: Any, count: int) -> int:
    """Confirm the run if it lasts long enough."""
    if ints[RUN, STATUS] >= 0 and _span(ints[RUN, END], ints[RUN, SINCE]) >= np.uint64(at_least):
        count = _confirm(key, ints, sums, out, totals, count)
    return count


@compiled
def _current(ints: Any) -> int:
    """The role that goes on with the next reading of its status; -1 at the start."""
    if ints[RUN, STATUS] >= 0:
        return RUN
    return FRAME if ints[FRAME, STATUS] >= 0 else -1


@compiled
def _accept(key: int, ints: Any, sums: Any, at_least: int, out: Any, totals: Any, count: int) -> int:
    """The candidate is no noise: it becomes the run, and takes the time of a run before it that did not last."""
    if ints[RUN, STATUS] >= 0:
        waited = _span(ints[CANDIDATE, SINCE], ints[RUN, START])
        if at_least > 0 and waited // np.uint64(at_least) >= np.uint64(PATIENCE):
            count = _confirm(key, ints, sums, out, totals, count)
        else:
            ints[RUN, STATUS] = ints[CANDIDATE, STATUS]
            ints[RUN, SINCE] = ints[CANDIDATE, SINCE]
            _join(ints, sums, CANDIDATE, RUN)
            return count
    _copy(ints, sums, CANDIDATE, RUN)
    return count


@compiled
def _doubt(key: int, ints: Any, sums: Any, noise: int, at_least: int, out: Any, totals: Any, count: int) -> int:
    """Another status follows a candidate that was too short: its time goes to the run before it, or at the start to what follows."""
    current = _current(ints)
    if current >= 0:
        _join(ints, sums, CANDIDATE, current)
        return _lasts(key, ints, sums, at_least, out, totals, count)
    waited = _span(ints[CANDIDATE, END], ints[CANDIDATE, START])
    if waited // np.uint64(noise) >= np.uint64(PATIENCE):
        return _accept(key, ints, sums, at_least, out, totals, count)
    ints[CANDIDATE, STATUS] = ints[READING, STATUS]
    ints[CANDIDATE, SINCE] = ints[READING, START]
    return count


@compiled
def apply_reading(
    key: int, ints: Any, sums: Any, noise: int, at_least: int, report: int, out: Any, totals: Any, count: int
) -> int:
    """The last reading, whose end is known now, joins the role that it belongs to."""
    status, start = ints[READING, STATUS], ints[READING, START]
    if ints[CANDIDATE, STATUS] >= 0 and ints[CANDIDATE, STATUS] != status:
        count = _doubt(key, ints, sums, noise, at_least, out, totals, count)
    current = _current(ints)
    if ints[CANDIDATE, STATUS] >= 0:
        _join(ints, sums, READING, CANDIDATE)
    elif current >= 0 and ints[current, STATUS] == status:
        if current == FRAME and report > 0 and start // report != ints[FRAME, START] // report:
            count = _emit(key, ints, sums, out, totals, count)
            ints[FRAME, START] = start
            ints[FRAME, COUNT] = 0
            sums[FRAME] = 0
        _join(ints, sums, READING, current)
    else:
        _copy(ints, sums, READING, CANDIDATE)
    if ints[CANDIDATE, STATUS] >= 0 and _span(ints[CANDIDATE, END], ints[CANDIDATE, SINCE]) >= np.uint64(noise):
        count = _accept(key, ints, sums, at_least, out, totals, count)
    return _lasts(key, ints, sums, at_least, out, totals, count)


@compiled
def end_stretch(key: int, ints: Any, sums: Any, out: Any, totals: Any, count: int) -> int:
    """A hole, or the end: noise vanishes, short statuses that found no next one are a frame of the last of them."""
    if ints[CANDIDATE, STATUS] >= 0:
        current = _current(ints)
        if current >= 0:
            _join(ints, sums, CANDIDATE, current)
        else:
            _clear(ints, sums, CANDIDATE)
    if ints[RUN, STATUS] >= 0:
        count = _confirm(key, ints, sums, out, totals, count)
    if ints[FRAME, STATUS] >= 0:
        count = _emit(key, ints, sums, out, totals, count)
        _clear(ints, sums, FRAME)
    return count


@compiled
def follow(
    at: int, key: Any, start: Any, stop: Any, status: Any, values: Any, edges: Any, hysteresis: float, amounts: Any,
    ints: Any, sums: Any, noise: int, at_least: int, report: int, out: Any, totals: Any,
) -> Any:  # fmt: skip
    """Take readings from one on, until all are taken or there is no room for more frames; gives how many were taken, and the frames."""
    count = 0
    while at < len(key) and count + MOST <= len(out):
        k = key[at]
        own, total = ints[k], sums[k]
        before = -1
        if own[READING, STATUS] >= 0:
            if start[at] <= own[READING, END]:
                before = own[READING, STATUS]
            hole = start[at] > own[READING, END]
            own[READING, END] = min(own[READING, END], start[at])
            if own[READING, END] > own[READING, START]:
                count = apply_reading(k, own, total, noise, at_least, report, out, totals, count)
            if hole:
                count = end_stretch(k, own, total, out, totals, count)
        now = band_of(values[at], before, edges, hysteresis) if len(values) else status[at]
        if now < 0:
            _clear(own, total, READING)
            count = end_stretch(k, own, total, out, totals, count)
        else:
            # A reading at the same instant is replaced, but its amounts count.
            own[READING, STATUS] = now
            own[READING, START] = start[at]
            own[READING, SINCE] = start[at]
            own[READING, END] = stop[at]
            own[READING, COUNT] += 1
            for i in range(total.shape[1]):
                total[READING, i] += amounts[i, at]
        at += 1
    return at, count


@compiled
def finish(ints: Any, sums: Any, noise: int, at_least: int, report: int, out: Any, totals: Any) -> int:
    """End the stretches of all keys: nothing can follow their last readings."""
    count = 0
    for k in range(len(ints)):
        if ints[k, READING, STATUS] >= 0:
            count = apply_reading(k, ints[k], sums[k], noise, at_least, report, out, totals, count)
        count = end_stretch(k, ints[k], sums[k], out, totals, count)
    return count
