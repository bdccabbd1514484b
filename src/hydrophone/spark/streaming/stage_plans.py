"""What the tasks of a stream run: packers for the rows of sources, and a plan for the shards of every stage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from hydrophone.compiler.compile import Host, stages
from hydrophone.compiler.stages import Input, Stage
from hydrophone.engine import emit, late
from hydrophone.engine.late import Action
from hydrophone.plan.node import Node
from hydrophone.plan.source import Port, Source, sources
from hydrophone.spark.exchange.shuffle import shard_labels
from hydrophone.spark.streaming.chunks import ChunkPacker, Target
from hydrophone.spark.streaming.intake import Inlet
from hydrophone.spark.streaming.partial_aggregates import PartialAggregates, partial_aggregates_of
from hydrophone.spark.streaming.shard import ShardPlan


@dataclass(frozen=True)
class StreamSource:
    """A source, and the columns of its rows that travel: all of them where late rows are kept as they came."""

    source: Source
    schema: pa.Schema

    @classmethod
    def of(cls, source: Source, originals: Iterable[Source], late: late.Late) -> StreamSource:
        """A source of the pruned plan, for late rows with the columns that its original has."""
        whole = next(o for o in originals if o.data is source.data and o.layout.key == source.layout.key)
        if late.action is Action.SIDE:
            return cls(source, whole.layout.schema)
        assert source.progress is not None
        named = {*source.layout.columns, source.progress.by, source.progress.column}
        return cls(source, pa.schema([f for f in whole.layout.schema if f.name in named]))


@dataclass(frozen=True)
class StreamPlan:
    """A query in stages, and the sources that feed them."""

    stages: list[Stage]
    feeds: tuple[StreamSource, ...]

    @classmethod
    def of(cls, root: Node, late: late.Late) -> StreamPlan:
        """Cut a plan into stages, over sources that give the operators only the columns that they need."""
        cut = stages(root, Host.STREAM)
        originals = sources(root)
        found = dict.fromkeys(i.source for stage in cut for i in stage.inputs if i.source is not None)
        return cls(cut, tuple(StreamSource.of(s, originals, late) for s in found))

    def packer(self, feed: StreamSource, shards: int, query: str | None = None) -> ChunkPacker:
        """What packs the rows of a source; with the id of a query, tasks may learn of marks and merge."""
        assert feed.source.progress is not None
        targets = tuple(
            Target(
                s,
                p,
                given.prefix,
                found if isinstance(found := partial_aggregates_of(stage, p), PartialAggregates) else None,
            )
            for s, stage in enumerate(self.stages)
            for p, given in enumerate(stage.inputs)
            if given.source == feed.source
        )
        layout, announced = feed.source.layout, None if query is None else (query, self.feeds.index(feed))
        return ChunkPacker(
            feed.schema,
            layout.time,
            feed.source.progress,
            targets,
            shard_labels(shards),
            layout.key,
            announced,
            layout.end,
        )

    def shards(self, shards: int, late: late.Late, shape: emit.Shape) -> list[ShardPlan]:
        """What a shard of every stage runs.

        Row operators above a source run in the shard, over rows as they came. Row operators above a stage run in the shards
        of that stage, before the exchange.
        """
        answered: set[Source] = set()
        plans = []
        for number, stage in enumerate(self.stages):
            root = with_row_operators(stage.root, {p: i.prefix for p, i in enumerate(stage.inputs) if i.source})
            inlets = tuple(self._inlet(i, answered) for i in stage.inputs)
            outlets = tuple(
                (later, port)
                for later, consumer in enumerate(self.stages)
                for port, given in enumerate(consumer.inputs)
                if given.source is None and given.stage == number
            )
            roots = tuple(rebase(self.stages[s].inputs[p].prefix, root) for s, p in outlets)
            plans.append(ShardPlan(number, roots or (root,), inlets, outlets, shards, late, shape))
        return plans

    def _inlet(self, given: Input, answered: set[Source]) -> Inlet:
        if given.source is None:
            return Inlet("", None, None, None, ordered=True)
        number = next(n for n, f in enumerate(self.feeds) if f.source == given.source)
        first = given.source not in answered
        answered.add(given.source)
        ordered = given.source.data.folder is not None  # rows are known by file and number
        layout = given.source.layout
        name = given.source.title
        return Inlet(layout.time, layout.end, given.source.progress, number if first else None, ordered, name)


def with_row_operators(root: Node, prefixes: Mapping[int, Node]) -> Node:
    """The plan of a stage with row operators on the ports that sources feed."""
    done: dict[Node, Node] = {}
    for node in root.topological():
        if isinstance(node, Port) and node.number in prefixes:
            prefix = prefixes[node.number]
            leaf = prefix.topological()[0]
            assert isinstance(leaf, Port)
            # Rows travel by the key that the row operators give them: a source has a port for each chain of these.
            source = leaf.source if prefix is leaf else prefix.digest
            done[node] = rebase(prefix, replace(leaf, number=node.number, source=source))
        else:
            done[node] = node.with_inputs([done[i] for i in node.inputs])
    return done[root]


def rebase(prefix: Node, bottom: Node) -> Node:
    """Row operators over another node than their port."""
    done: dict[Node, Node] = {}
    for node in prefix.topological():
        done[node] = bottom if isinstance(node, Port) else node.with_inputs([done[i] for i in node.inputs])
    return done[prefix]
