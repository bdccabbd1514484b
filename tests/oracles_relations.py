"""References for the temporal relations: plain Python over whole lists of events, from the documented meaning alone."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from tests.oracles import Event, Key, by_key

# --- aggregates ---------------------------------------------------------------------------------------------------------


def there(values: Iterable[Any]) -> list[Any]:
    return [v for v in values if v is not None]


def rank(value: Any) -> Any:
    """What sorts values: NaN after all numbers, -0.0 before 0.0."""
    if isinstance(value, float):
        return (value != value, 0.0 if value != value else value, math.copysign(1, value))
    return (False, value, 0)


def variance(values: list[Any], ddof: int = 0) -> float | None:
    v = there(values)
    with np.errstate(all="ignore"):
        return float(np.var(np.asarray(v, float), ddof=ddof)) if len(v) > ddof else None


def first(events: list[Event], column: str) -> Any:
    found = [e for e in events if e.payload[column] is not None]
    return min(found, key=lambda e: (e.start, rank(e.payload[column]))).payload[column] if found else None


def last(events: list[Event], column: str) -> Any:
    found = [e for e in events if e.payload[column] is not None]
    return max(found, key=lambda e: (e.start, rank(e.payload[column]))).payload[column] if found else None


def distinct_count(values: list[Any]) -> int:
    return len({"nan" if v != v else v for v in there(values)})


def quantile(values: list[Any], q: float) -> float | None:
    v = there(values)
    with np.errstate(all="ignore"):
        return float(np.quantile(np.asarray(v, float), q)) if v else None


def top_k(values: list[Any], k: int) -> tuple[Any, ...]:
    return tuple(sorted(there(values), key=rank, reverse=True)[:k])


# --- windows ------------------------------------------------------------------------------------------------------------


def sliding(events: list[Event], size: int, every: int, offset: int) -> dict[tuple[Key, int], list[Event]]:
    """The events of every window that has any, by trying all windows."""
    found: dict[tuple[Key, int], list[Event]] = {}
    for e in events:
        k = math.floor((e.start - offset) / every)
        while k * every + offset + size > e.start:
            if k * every + offset <= e.start:
                found.setdefault((e.key, k * every + offset), []).append(e)
            k -= 1
    return found


def sessions(events: list[Event], gap: int, lived: bool) -> list[tuple[Key, int, int, list[Event]]]:
    found: list[tuple[Key, int, int, list[Event]]] = []
    for key, mine in by_key(events).items():
        row: list[Event] = []
        last = 0
        for e in sorted(mine, key=lambda e: (e.start, e.stop)):
            if row and e.start - last >= gap:
                found.append((key, row[0].start, last + gap, row))
                row = []
            end = e.stop if lived else e.start
            last = max(last, end) if row else end
            row.append(e)
        if row:
            found.append((key, row[0].start, last + gap, row))
    return found


# --- lifetimes ----------------------------------------------------------------------------------------------------------


def chop(event: Event, every: int, offset: int) -> list[tuple[int, int]]:
    """Pieces between neighbouring cuts, a nanosecond at a time."""
    pieces: list[list[int]] = []
    for t in range(event.start, event.stop):
        if not pieces or (t - offset) % every == 0:
            pieces.append([t, t + 1])
        pieces[-1][1] = t + 1
    return [(a, b) for a, b in pieces]


def payload(event: Event) -> str:
    return repr(sorted(event.payload.items()))


def stitch(events: list[Event], gap: int = 0) -> list[Event]:
    out = []
    for _, group in itertools.groupby(
        sorted(events, key=lambda e: (e.key, payload(e), e.start)), key=lambda e: (e.key, payload(e))
    ):
        run: Event | None = None
        for e in group:
            if run is not None and e.start <= run.stop + gap:
                run = run._replace(stop=max(run.stop, e.stop))
            else:
                out += [run] if run is not None else []
                run = e
        out += [run] if run is not None else []
    return out


# --- sets and overlaps --------------------------------------------------------------------------------------------------


def distinct(events: list[Event]) -> list[Event]:
    """Trimmed by what equal payloads have covered, an event at a time."""
    covered: dict[Any, int] = {}
    out = []
    for e in sorted(events, key=lambda e: (e.start, e.stop)):
        what = (e.key, payload(e))
        start = max(e.start, covered.get(what, e.start))
        covered[what] = max(e.stop, covered.get(what, e.stop))
        if start < e.stop:
            out.append(e._replace(start=start))
    return out


def overlapping(a: Event, b: Event) -> bool:
    return a.key == b.key and max(a.start, b.start) < min(a.stop, b.stop)


def join(left: list[Event], right: list[Event]) -> list[tuple[Event, Event, int, int]]:
    return [(a, b, max(a.start, b.start), min(a.stop, b.stop)) for a in left for b in right if overlapping(a, b)]


def without(event: Event, others: Iterable[Event]) -> list[tuple[int, int]]:
    """The stretches of a lifetime in which none of the others is alive, a nanosecond at a time."""
    alive: set[int] = set()
    for o in others:
        alive.update(range(max(o.start, event.start), min(o.stop, event.stop)))
    found: list[list[int]] = []
    for t in range(event.start, event.stop):
        if t in alive:
            continue
        if found and found[-1][1] == t:
            found[-1][1] = t + 1
        else:
            found.append([t, t + 1])
    return [(a, b) for a, b in found]


def snapshot(events: list[Event], report: int | None = None) -> list[tuple[Key, int, int, list[Event]]]:
    """What is alive between two changes."""
    found = []
    for key, mine in by_key(events).items():
        cuts = {t for e in mine for t in (e.start, e.stop)}
        if report is not None:
            cuts |= {t for e in mine for t in range(e.start, e.stop) if t % report == 0}
        for a, b in itertools.pairwise(sorted(cuts)):
            alive = [e for e in mine if e.start <= a and e.stop >= b]
            if alive:
                found.append((key, a, b, alive))
    return found


# --- order --------------------------------------------------------------------------------------------------------------


def placed(events: Iterable[Event]) -> list[Event]:
    """In order of start, end and columns from left to right; null after NaN after all numbers."""

    def key(e: Event) -> Any:
        return e.start, e.stop, [(v is None, (False, 0, 0) if v is None else rank(v)) for v in e.payload.values()]

    return sorted(events, key=key)


def asof(
    event: Event, others: list[Event], direction: str, tolerance: float, exact: bool = True, ties: str = "earlier"
) -> Event | None:
    """The event that is joined, among those of the same key in order."""
    near = [o for o in placed(others) if o.key == event.key and abs(o.start - event.start) <= tolerance]
    if not exact:
        near = [o for o in near if o.start != event.start]
    before, after = [o for o in near if o.start <= event.start], [o for o in near if o.start >= event.start]
    back, ahead = before[-1] if before else None, after[0] if after else None
    if direction == "backward" or (direction == "nearest" and ahead is None):
        return back
    if direction == "forward" or back is None:
        return ahead
    more = (ahead.start - event.start) - (event.start - back.start)
    return ahead if more < 0 or (more == 0 and ties == "later" and ahead.start != back.start) else back


def interpolated(event: Event, others: list[Event], column: str, tolerance: int) -> float | None:
    mine = placed(o for o in others if o.key == event.key)
    before, after = [o for o in mine if o.start <= event.start], [o for o in mine if o.start >= event.start]
    if not before or not after:
        return None
    a, b = before[-1], after[0]
    if a.start == event.start:
        return None if a.payload[column] is None else float(a.payload[column])
    if b.start - a.start > tolerance or a.payload[column] is None or b.payload[column] is None:
        return None
    with np.errstate(all="ignore"):
        low, high = np.float64(a.payload[column]), np.float64(b.payload[column])
        return float(low + (high - low) * ((event.start - a.start) / (b.start - a.start)))


def rows_before(events: list[Event], n: int, within: float) -> list[tuple[Event, list[Event]]]:
    """Every event with the last n of its key, itself included, the latest last."""
    found = []
    for mine in by_key(events).values():
        row = placed(mine)
        for i, e in enumerate(row):
            found.append((e, [o for o in row[max(0, i - n + 1) : i + 1] if e.start - o.start <= within]))
    return found
