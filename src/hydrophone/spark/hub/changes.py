"""From one pin to the next: what shards have told, what has failed and what users have asked, as a function of these alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from hydrophone.errors import HydrophoneError, ParameterError
from hydrophone.model.time import MAX_TIME, MIN_TIME, format_instant
from hydrophone.plan.source import sources
from hydrophone.spark.hub.folders import HubFolder
from hydrophone.spark.hub.pins import KEPT_ENDED, Pin, PinnedQuery
from hydrophone.spark.hub.placement import number_of, settled
from hydrophone.spark.hub.shard import described

Request = tuple[int, "dict[str, Any] | HydrophoneError"]

KEPT_REFUSALS = 100
"""Requests that were refused and whose reason can still be asked for."""


@dataclass(frozen=True)
class Told:
    """What the shards of one micro-batch said.

    Attributes
    ----------
    seen : by source the largest end of its rows
    queries : by number the mark of the slowest shard, the first instant after all results, and the rows
    """

    seen: tuple[int, ...]
    queries: dict[int, tuple[int, int, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, metrics: Iterable[Mapping[str, Any]], count: int) -> Told:
        """Of the metrics of all shards and stages."""
        seen, queries = [MIN_TIME] * count, dict[int, tuple[int, int, int]]()
        for shard in metrics:
            for source, end in shard["seen"].items():
                seen[int(source)] = max(seen[int(source)], end)
            for number, one in shard["queries"].items():
                mark, frontier, rows = queries.get(int(number), (MAX_TIME, MIN_TIME, 0))
                queries[int(number)] = (
                    min(mark, one["mark"]),
                    max(frontier, one["made"], one["mark"]),
                    rows + one["rows"],
                )
        return cls(tuple(seen), queries)


def next_pin(
    folder: HubFolder,
    pin: Pin,
    told: Told,
    failed: Mapping[int, Mapping[str, Any]],
    asked: Iterable[Request],
    admit: Callable[[PinnedQuery], None],
) -> Pin:
    """What the micro-batch after `pin` runs.

    Parameters
    ----------
    failed : the errors of queries, by number
    asked : the requests since the pin
    admit : called with a query that is about to join; raises if its sink is not its own
    """
    queries = [_after(query, told.queries.get(query.number)) for query in pin.queries]
    after = replace(
        pin,
        batch=pin.batch + 1,
        seen=tuple(max(a, b) for a, b in zip(pin.seen, told.seen, strict=True)),
        queries=tuple(q for q in queries if q.number not in failed),
        ended=(*pin.ended, *(_ended(q, "failed", failed[q.number]) for q in queries if q.number in failed)),
    )
    for number, request in asked:
        try:
            if isinstance(request, HydrophoneError):
                raise request
            after = _REQUESTS[request["ask"]](folder, after, request, admit)
        except Exception as error:
            after = replace(after, refused=after.refused | {str(number): described(error)})
        after = replace(after, request=number)
    over = [q for q in after.queries if q.over]
    kept = tuple(q for q in after.queries if not q.over)
    ended = (*after.ended, *(_ended(q, "done") for q in over))
    refused = dict(sorted(after.refused.items(), key=lambda r: int(r[0]))[-KEPT_REFUSALS:])
    return replace(_with_ports(folder, replace(after, queries=kept)), ended=ended[-KEPT_ENDED:], refused=refused)


def _after(query: PinnedQuery, told: tuple[int, int, int] | None) -> PinnedQuery:
    if told is None:
        return query
    mark, frontier, rows = told
    mark = max(query.mark, mark)
    return replace(
        query,
        mark=mark,
        frontier=max(query.frontier, query.start, frontier),
        rows=query.rows + rows,
        pauses=tuple(p for p in query.pauses if p[1] > mark),
    )


def _ended(query: PinnedQuery, state: str, error: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return {**asdict(query), "state": state, "error": None if error is None else dict(error)}


def _with_ports(folder: HubFolder, pin: Pin) -> Pin:
    """Numbers for the ports that the queries need; those of sources' own rows are the numbers of the sources."""
    found: dict[str, int] = {}
    number = pin.next_port
    for query in pin.queries:
        for gate in folder.placed(query).gates:
            if gate.address in found:
                continue
            if gate.level == 0 and gate.source is not None and gate.by is None:
                found[gate.address] = gate.source
            elif gate.address in pin.ports:
                found[gate.address] = pin.ports[gate.address]
            else:
                found[gate.address], number = number, number + 1
    return replace(pin, ports=found, next_port=number)


# --- requests ---------------------------------------------------------------------------------------------------------


def _subscribe(folder: HubFolder, pin: Pin, said: Mapping[str, Any], admit: Callable[[PinnedQuery], None]) -> Pin:
    name = said["name"]
    if pin.named(name) is not None:
        raise name_used(name)
    root = folder.plan(said["plan"]).root
    start, since = begin(folder, pin.seen, root, said["start"])
    query = PinnedQuery(pin.next_query, name, said["token"], said["plan"], start, pin.batch, since)
    folder.placed(query)
    admit(query)
    return replace(pin, queries=(*pin.queries, query), next_query=pin.next_query + 1)


def begin(folder: HubFolder, seen: Sequence[int], root: Any, start: str | int) -> tuple[int, dict[str, int]]:
    """The first instant of the interval of a query that joins, and for a fresh start the first instant that counts, by source."""
    if start == "fresh":
        numbers = {number_of(source, folder.sources) for source in sources(root)}
        return MIN_TIME, {str(n): seen[n] for n in sorted(numbers) if seen[n] > MIN_TIME}
    first = settled(root, folder.sources, seen)
    if start == "settled":
        return first, {}
    if not isinstance(start, int):
        raise ParameterError(f"subscribe: start must be 'settled', 'fresh' or an instant, got {start!r}")
    if start < first:
        raise ParameterError(
            f"subscribe: results are exact from {format_instant(first)} on, and start is {format_instant(start)}",
            hint='rows before it have come already: take a later instant, or start="settled"',
        )
    return start, {}


def name_used(name: str) -> ParameterError:
    """Two queries of one name."""
    return ParameterError(
        f"subscribe: a query named {name!r} runs in this hub already",
        hint="choose another name=; a name is free again when its query has ended",
    )


def _running(pin: Pin, said: Mapping[str, Any], what: str) -> PinnedQuery:
    """The query that is meant: not a later one of the same name."""
    name = said["name"]
    query = pin.named(name)
    if query is None:
        running = ", ".join(q.name for q in pin.queries) or "none"
        raise ParameterError(f"{what}: no query {name!r} runs in this hub", hint=f"running: {running}")
    if query.token != said["token"]:
        raise ParameterError(
            f"{what}: this query {name!r} has ended, and another one has its name",
            hint=f"hub.query({name!r}) gives that one",
        )
    return query


def _with(pin: Pin, query: PinnedQuery) -> Pin:
    return replace(pin, queries=tuple(query if q.number == query.number else q for q in pin.queries))


def _unsubscribe(folder: HubFolder, pin: Pin, said: Mapping[str, Any], admit: object) -> Pin:
    query = _running(pin, said, "unsubscribe")
    if said["now"]:
        end = min(query.end, max(query.start, query.mark))
        rest = tuple(q for q in pin.queries if q.number != query.number)
        return replace(pin, queries=rest, ended=(*pin.ended, _ended(replace(query, end=end), "done")))
    if query.end < MAX_TIME:
        return pin  # results after that end have been left out already
    if said["at"] is not None and said["at"] < query.frontier:
        raise ParameterError(
            f"unsubscribe: results up to {format_instant(query.frontier)} have been made, and at is {format_instant(said['at'])}",
            hint="an end that lies before them would take results back; now=True stops at once",
        )
    numbers = {number_of(s, folder.sources) for s in sources(folder.plan(query.plan).root)}
    end = max(pin.seen[n] for n in numbers) if said["at"] is None else said["at"]
    return _with(pin, replace(query, end=max(query.start, query.frontier, end)))


def _pause(folder: HubFolder, pin: Pin, said: Mapping[str, Any], admit: object) -> Pin:
    query = _running(pin, said, "pause")
    return pin if query.paused is not None else _with(pin, replace(query, paused=max(query.start, query.frontier)))


def _resume(folder: HubFolder, pin: Pin, said: Mapping[str, Any], admit: object) -> Pin:
    query = _running(pin, said, "resume")
    if query.paused is None:
        return pin
    at = max(query.start, query.frontier)
    pauses = (*query.pauses, (query.paused, at)) if at > query.paused else query.pauses
    return _with(pin, replace(query, pauses=pauses, paused=None))


def _nothing(folder: HubFolder, pin: Pin, said: Mapping[str, Any], admit: object) -> Pin:
    return pin


_REQUESTS: dict[str, Callable[..., Pin]] = {
    "subscribe": _subscribe,
    "unsubscribe": _unsubscribe,
    "pause": _pause,
    "resume": _resume,
    "wake": _nothing,
    "stop": _nothing,
}
