"""Where a query runs in a hub: its plan cut into the hub's stages, over ports that equal queries share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from hydrophone.compiler.compile import Host, compile_plan
from hydrophone.compiler.stages import Input, Stage, cut_stages
from hydrophone.engine.since import Since, settled_start
from hydrophone.errors import ParameterError, PlanError
from hydrophone.model.time import MIN_TIME
from hydrophone.plan.data import Data
from hydrophone.plan.node import Node
from hydrophone.plan.source import Port, Source, ports, sources


@dataclass(frozen=True)
class Elsewhere(Data):
    """Data that a plan in the registry names, and does not hold: the hub has the source.

    Attributes
    ----------
    columns : its schema
    name, path : what identifies it
    """

    columns: pa.Schema
    name: str
    path: str

    @property
    def schema(self) -> pa.Schema:
        """The columns of a row."""
        return self.columns

    @property
    def identity(self) -> str:
        """Kind and place."""
        return self.name

    @property
    def location(self) -> str:
        """Kind and place in full."""
        return self.path


def without_data(root: Node) -> Node:
    """The same plan, whose sources name their data and do not hold it."""

    def named(leaf: Node) -> Node:
        if not isinstance(leaf, Source):
            return leaf
        return replace(leaf, data=Elsewhere(leaf.data.schema, leaf.data.identity, leaf.data.location))

    return with_leaves(root, named)


@dataclass(frozen=True)
class Gate:
    """A port of a stage that queries share if they want the same of it.

    Attributes
    ----------
    level : the stage of the hub
    port : what it is, whatever its number
    source : the number of the source that feeds it; None where an earlier stage does
    by : row operators that give rows the key by which they are spread over shards; None: the key of the source, or of the earlier stage
    """

    level: int
    port: Port
    source: int | None = None
    by: Node | None = None

    @property
    def address(self) -> str:
        """What tells it from others."""
        return f"{self.level}/{self.port.digest}"


@dataclass(frozen=True)
class Step:
    """What a query runs in one stage.

    Attributes
    ----------
    level : the stage of the hub
    root : the operators; a port of theirs is known by its place among the gates
    gates : what feeds them, with the row operators on the gate that belong to this query
    exits : row operators on the root, and the gate that gets their rows; none: the root is the answer
    """

    level: int
    root: Node
    gates: tuple[tuple[Gate, Node | None], ...]
    exits: tuple[tuple[Node, Gate], ...]

    def roots(self, numbers: Mapping[str, int]) -> list[tuple[Node, tuple[int, int] | None]]:
        """What a shard computes, over ports with their numbers in the hub, and the later stage and port that get it (None: the answer)."""
        root = self._over(numbers)
        if not self.exits:
            return [(root, None)]
        return [(with_leaves(by, lambda _: root), (gate.level, numbers[gate.address])) for by, gate in self.exits]

    def _over(self, numbers: Mapping[str, int]) -> Node:
        def numbered(place: Node) -> Node:
            assert isinstance(place, Port)
            gate, above = self.gates[place.number]
            port = replace(gate.port, number=numbers[gate.address])
            return port if above is None else with_leaves(above, lambda _: port)

        return with_leaves(self.root, numbered)


def with_leaves(root: Node, change: Callable[[Node], Node]) -> Node:
    """A plan over other leaves, also where these are equal: to `Node.with_inputs` a port with another number is the same port."""
    done: dict[Node, Node] = {}
    for node in root.topological():
        inputs = tuple(done[i] for i in node.inputs)
        same = all(new is old for new, old in zip(inputs, node.inputs, strict=True))
        done[node] = change(node) if not inputs else node if same else replace(node, inputs=inputs)
    return done[root]


@dataclass(frozen=True)
class Placement:
    """A query in the stages of a hub."""

    steps: tuple[Step, ...]

    @property
    def root(self) -> Node:
        """What gives the answer."""
        return self.steps[-1].root

    @property
    def gates(self) -> list[Gate]:
        """All that its rows come through."""
        return [gate for step in self.steps for gate, _ in step.gates]


def place(root: Node, hub: Sequence[Source], levels: int, since: Mapping[int, int] | None = None) -> Placement:
    """Put a query into the stages of a hub over these sources.

    Columns are not pruned, so that queries share operators (decision 12).

    Parameters
    ----------
    levels : how many stages the hub has
    since : for a fresh start the first instant that counts, by number of source
    """
    cut = cut_stages(_over_sources(compile_plan(root, Host.HUB), hub, since or {}))
    level: list[int] = []
    for stage in cut:
        level.append(1 + max((level[i.stage] for i in stage.inputs if i.stage is not None), default=-1))
    if level[-1] >= levels:
        raise PlanError(
            f"subscribe: the query needs {level[-1] + 1} stages, because it changes its key {level[-1]} times after operators with "
            f"state, and the hub has {levels}",
            hint=f"run it alone: query.start(spark, to=..., checkpoint=...); or make a hub with stages={level[-1] + 1}",
        )
    gates = [_gates(stage, level[n], hub) for n, stage in enumerate(cut)]
    steps = []
    for number, stage in enumerate(cut):
        exits = tuple(
            (given.prefix, gates[later][port][0])
            for later, consumer in enumerate(cut)
            for port, given in enumerate(consumer.inputs)
            if given.source is None and given.stage == number
        )
        steps.append(Step(level[number], stage.root, gates[number], exits))
    return Placement(tuple(steps))


def settled(root: Node, hub: Sequence[Source], seen: Sequence[int]) -> int:
    """The first instant from which on a query that begins now gives what it gives alone; `seen`: the largest end by source."""
    plan = _over_sources(compile_plan(root, Host.HUB), hub, {})
    numbers = {source: n for n, source in enumerate(hub)}
    try:
        return settled_start(plan, lambda leaf: seen[numbers[leaf]], {})  # type: ignore[index]
    except PlanError as error:
        raise PlanError(
            error.message,
            hint='begin anew with the next rows: start="fresh"; or subscribe before the hub starts (Hub(..., running=False)); '
            "or run it alone over all rows: query.start(spark, to=..., checkpoint=...)",
            where=error.where,
        ) from None


def number_of(source: Source, hub: Sequence[Source]) -> int:
    """The number of a query's source among those of the hub."""
    for number, known in enumerate(hub):
        if known.port(0) == source.port(0):
            known.check_same(source)
            return number
    raise ParameterError(
        f"subscribe: the hub has no source {source.title}",
        hint=f"its sources are {', '.join(s.title for s in hub)}, with their columns and promises; "
        "a query over others runs alone: query.start(spark, to=..., checkpoint=...)",
    )


def _over_sources(root: Node, hub: Sequence[Source], since: Mapping[int, int]) -> Node:
    """The plan over the sources as the hub has them."""
    found = {source: number_of(source, hub) for source in sources(root)}

    def over(leaf: Node) -> Node:
        if not isinstance(leaf, Source):
            return leaf
        source, begin = hub[found[leaf]], since.get(found[leaf], MIN_TIME)
        return source if begin == MIN_TIME else Since(inputs=(source,), start=begin)

    return with_leaves(root, over)


def _gates(stage: Stage, level: int, hub: Sequence[Source]) -> tuple[tuple[Gate, Node | None], ...]:
    known = ports(stage.root)
    return tuple(
        (Gate(level, known[n]), None) if given.source is None else _source_gate(given, given.source, level, hub)
        for n, given in enumerate(stage.inputs)
    )


def _source_gate(given: Input, source: Source, level: int, hub: Sequence[Source]) -> tuple[Gate, Node]:
    """Rows of a source travel by its own key, or by the key that row operators give them; the rest of these runs in the shard."""
    changing = [n for n in given.prefix.topological() if n.changes_key]
    number, port = hub.index(source), source.port(0)
    by = changing[-1] if changing else None
    if (by is not None or level) and source.progress is not None and source.progress.per_key is not None:
        raise PlanError(
            f"subscribe: {source.title} promises progress per key, and the query wants its rows by another key or in a later stage",
            hint="run it alone: query.start(spark, to=..., checkpoint=...)",
            where=source.where,
        )
    return Gate(level, port if by is None else replace(port, source=by.digest), number, by), given.prefix
