"""One-shot references of frames and of windows over them: lists that are rewritten rule by rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

PATIENCE = 100


class Reading(NamedTuple):
    """A status that holds from start to end, with amounts that are summed."""

    start: int
    end: int
    status: Any
    amounts: tuple[float, ...] = ()
    count: int = 1


class Run(NamedTuple):
    """Readings in a row. Its time begins at `start`, its own status at `since`."""

    status: Any
    start: int
    since: int
    readings: list[Reading]

    @property
    def end(self) -> int:
        return self.readings[-1].end


def banded(values: Sequence[float], edges: Sequence[float], hysteresis: float = 0.0) -> Callable[[Any, float], Any]:
    """A function from the band before (or None) and a value to its band."""

    def band(before: Any, value: float) -> Any:
        if value != value:
            return None
        if before is not None:
            above = before == 0 or value > edges[before - 1] - hysteresis
            below = before == len(edges) or value <= edges[before] + hysteresis
            if above and below:
                return before
        return sum(value > e for e in edges)

    return band


def readings(rows: Sequence[tuple[Any, ...]], status: Callable[[Any, Any], Any]) -> list[list[Reading]]:
    """Stretches of readings from rows of (start, end, value, amounts) in order."""
    found: list[list[Reading]] = []
    last: Reading | None = None
    for start, end, value, *amounts in rows:
        touches = last is not None and start <= last.end
        now = status(last.status if touches and last is not None else None, value)
        fresh = Reading(start, end, now, tuple(amounts))
        if now is None:
            if touches and last is not None:
                found[-1][-1] = last._replace(end=start)
                if last.start == start:
                    found[-1].pop()
            last = None
            continue
        if touches and last is not None:
            if last.start == start:
                found[-1].pop()
                both = tuple(a + b for a, b in zip(last.amounts, fresh.amounts, strict=True))
                fresh = fresh._replace(amounts=both, count=last.count + 1)
            else:
                found[-1][-1] = last._replace(end=start)
            found[-1].append(fresh)
        else:
            found.append([fresh])
        last = fresh
    return [stretch for stretch in found if stretch]


def without_noise(stretch: list[Reading], noise: int) -> list[Run]:
    """Statuses that last; the time of others goes to the one before, or at the start to the one after."""
    raw: list[Run] = []
    for r in stretch:
        if raw and raw[-1].status == r.status:
            raw[-1].readings.append(r)
        else:
            raw.append(Run(r.status, r.start, r.start, [r]))
    kept: list[Run] = []
    lost: list[Reading] = []
    for i, run in enumerate(raw):
        waited = noise > 0 and not kept and i + 1 < len(raw) and (run.end - stretch[0].start) // noise >= PATIENCE
        lasts = run.end - run.since >= noise or waited
        if kept and (not lasts or kept[-1].status == run.status):
            kept[-1].readings.extend(run.readings)
        elif lasts:
            kept.append(Run(run.status, lost[0].start if lost else run.start, run.since, lost + run.readings))
            lost = []
        else:
            lost = lost + run.readings
    return kept


def frames(
    stretches: list[list[Reading]], noise: int = 0, at_least: int = 0, report: int | None = None
) -> list[tuple[Any, ...]]:
    """(start, end, status, readings, sums) of every frame."""
    found = []
    for stretch in stretches:
        runs = without_noise(stretch, noise)
        merged: list[list[Any]] = []  # status, and pairs of (reading, whether it surely belongs here when it comes)
        waiting: list[tuple[Reading, bool]] = []
        for i, run in enumerate(runs):
            sure = [
                (
                    r,
                    r.status == run.status and r.start > run.since and r.start - run.since >= max(noise, at_least),
                )
                for r in run.readings
            ]
            since = waiting[0][0].start if waiting else run.start
            tired = at_least > 0 and (run.end - since) // at_least >= PATIENCE
            waiting += sure
            if run.end - run.since >= at_least or i + 1 == len(runs) or tired:
                if merged and merged[-1][0] == run.status:
                    merged[-1][1] += waiting
                else:
                    merged.append([run.status, waiting])
                waiting = []
        for status, pairs in merged:
            pieces: list[list[Reading]] = []
            for r, certain in pairs:
                if pieces and not (report and certain and r.start // report != pieces[-1][0].start // report):
                    pieces[-1].append(r)
                else:
                    pieces.append([r])
            for piece in pieces:
                sums = [float(sum(a)) for a in zip(*(r.amounts for r in piece), strict=True)]
                found.append((piece[0].start, piece[-1].end, status, sum(r.count for r in piece), *sums))
    return found


class Total:
    """What a status has of a window."""

    def __init__(self) -> None:
        self.time, self.count, self.amount, self.weighed, self.there = 0, 0, 0.0, 0.0, 0.0

    @property
    def mean(self) -> float | None:
        return self.weighed / self.there if self.there else None


def trailing(events: list[tuple[int, int, Any, Any]], lengths: Sequence[int | None]) -> list[tuple[Any, ...]]:
    """(end, length, status, total) for events of (start, end, status, value) in order, at the end of each."""
    joined: list[dict[str, Any]] = []
    out = []
    for start, end, status, value in events:
        time = end - start
        piece = {"amount": value or 0.0, "weighed": (value or 0.0) * time, "there": time * (value is not None)}
        if joined and joined[-1]["end"] == start and joined[-1]["status"] == status:
            joined[-1] |= {n: joined[-1][n] + v for n, v in piece.items()} | {"end": end}
        else:
            joined.append({"start": start, "end": end, "status": status, **piece})
        for length in lengths:
            totals: dict[Any, Total] = {}
            for f in joined:
                part = f["end"] - (f["start"] if length is None else max(f["start"], end - length))
                if part > 0:
                    t, share = totals.setdefault(f["status"], Total()), part / (f["end"] - f["start"])
                    t.time, t.count = t.time + part, t.count + 1
                    t.amount += f["amount"] * share
                    t.weighed += f["weighed"] * share
                    t.there += f["there"] * share
            out += [(end, length, s, t) for s, t in totals.items()]
    return out


def changed(events: list[tuple[int, int, Any, Any]], lengths: Sequence[int | None]) -> list[tuple[Any, ...]]:
    """What `trailing` gives with `changed`: its results without those of statuses whose window shows the same stretches of time."""
    longest = max([n for n in lengths if n is not None], default=0)
    out = []
    for number, (start, end, status, _) in enumerate(events):
        totals = {(n, s): t for e, n, s, t in trailing(events[: number + 1], lengths) if e == end}
        before = events[number - 1][1] if number else start
        for length in lengths:
            moved = {status: True}
            for low, high, other, _ in events[:number] if length is not None else ():
                leaves = max(low, before - length) < min(high, end - length)
                last = max(h for lo, h, o, _ in _joined(events[:number]) if lo <= low < h)
                if leaves and start - last <= longest:
                    moved[other] = True
            out += [(end, length, s, totals.get((length, s), Total())) for s in moved]
    return out


def _joined(events: list[tuple[int, int, Any, Any]]) -> list[tuple[int, int, Any, Any]]:
    """Neighbours of one status as one."""
    out: list[tuple[int, int, Any, Any]] = []
    for start, end, status, value in events:
        if out and out[-1][1] == start and out[-1][2] == status:
            out[-1] = (out[-1][0], end, status, value)
        else:
            out.append((start, end, status, value))
    return out
