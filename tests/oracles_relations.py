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


def sessions(events: list[Event], gap: int) -> list[tuple[Key, list[Event]]]:
    found: list[tuple[Key, list[Event]]] = []
    for key, mine in by_key(events).items():
        until = None
        for e in sorted(mine, key=lambda e: (e.start, e.stop)):
            if until is None or e.start - until >= gap:
                found.append((key, []))
                until = e.stop - 1
            found[-1][1].append(e)
            until = max(until, e.stop - 1)
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


def stitch(events: list[Event]) -> list[Event]:
    out = []
    for _, group in itertools.groupby(
        sorted(events, key=lambda e: (e.key, payload(e), e.start)), key=lambda e: (e.key, payload(e))
    ):
        run: Event | None = None
        for e in group:
            if run is not None and e.start <= run.stop:
                run = run._replace(stop=max(run.stop, e.stop))
            else:
                out += [run] if run is not None else []
                run = e
        out += [run] if run is not None else []
    return out
