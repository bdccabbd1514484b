"""The folder of a hub, and the plans of its queries as every process that works for it sees them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import pyarrow as pa

from hydrophone.compiler.explain import tree
from hydrophone.connect.sink import Sink
from hydrophone.engine import emit
from hydrophone.engine.late import Action, Late
from hydrophone.errors import DataError
from hydrophone.plan.node import Node
from hydrophone.plan.source import Source
from hydrophone.spark.arrow_types import end_of, spark_arrow_schema
from hydrophone.spark.hub.pins import Pin, PinnedQuery, Pins
from hydrophone.spark.hub.placement import Placement, place
from hydrophone.spark.hub.registry import Registry
from hydrophone.spark.hub.requests import Requests
from hydrophone.spark.streaming.outlets import Outlet
from hydrophone.spark.streaming.sinks import late_outlets


@dataclass(frozen=True, eq=False)
class HubPlan:
    """A query in the registry.

    Attributes
    ----------
    root : the query; its sources name their data
    sink : where results go; None: into the memory of the process that has subscribed
    shape : of results
    """

    root: Node
    sink: Sink | None
    shape: emit.Shape

    @property
    def result(self) -> pa.Schema:
        """The columns of results."""
        return emit.result_schema(self.root.type, self.shape)

    def outlet(self, query: PinnedQuery) -> Outlet | None:
        """Where results leave; None where they stay in memory."""
        if self.sink is None:
            return None
        return Outlet(None, spark_arrow_schema(self.result), self.sink, end_of(self.root.type), query=query.number)


@dataclass(frozen=True)
class HubFolder:
    """What every task knows of its hub.

    Attributes
    ----------
    home : the folder
    id : that of the manifest
    sources : their layouts and promises, without data
    levels : how many stages there are
    shards : how many there are in a stage
    ordered : by source whether its rows are known by file and number
    late : the policy for late rows
    """

    home: str
    id: str
    sources: tuple[Source, ...]
    levels: int
    shards: int
    ordered: tuple[bool, ...]
    late: Late

    @property
    def pins(self) -> Pins:
        """What every micro-batch runs."""
        return Pins(Path(self.home) / "pins")

    @property
    def registry(self) -> Registry:
        """The plans."""
        return Registry(Path(self.home) / "registry")

    @property
    def late_outlets(self) -> tuple[Outlet, ...]:
        """Where late rows go."""
        return late_outlets([s.layout.schema for s in self.sources], self.late_path)

    @property
    def late_path(self) -> str | None:
        """The folder of late rows; None where they are not kept."""
        return (self.late.path or f"{self.home}/late") if self.late.action is Action.SIDE else None

    @property
    def requests(self) -> Requests:
        """What users ask."""
        return Requests(Path(self.home) / "requests")

    @property
    def definition_file(self) -> Path:
        """The file that names the definition of the hub in the registry."""
        return Path(self.home) / "hub"

    def definition(self) -> str | None:
        """The name of the hub's definition in the registry, from which it can be resumed; None where it could not be written."""
        path = self.definition_file
        return path.read_text().strip() if path.exists() else None

    def plan(self, name: str) -> HubPlan:
        """A plan of the registry."""
        found = self.registry.get(name)
        if not isinstance(found, HubPlan):
            raise DataError(f"hub: {name} in the registry is no query", hint="subscribe the query again")
        return found

    def placed(self, query: PinnedQuery) -> Placement:
        """Where a query runs; known as long as this process lives."""
        return _placed(self.plan(query.plan), self.sources, self.levels, tuple(query.since.items()))


@lru_cache(maxsize=512)
def _placed(plan: HubPlan, sources: tuple[Source, ...], levels: int, since: tuple[tuple[str, int], ...]) -> Placement:
    return place(plan.root, sources, levels, {int(n): at for n, at in since})


def _said(said: dict[Node, str], node: Node) -> str:
    return said.get(node, "")


def explained(folder: HubFolder, pin: Pin) -> str:
    """What runs in every stage, as text; what queries share is written once."""
    lines = []
    for level in range(folder.levels):
        names: dict[Node, list[str]] = {}
        for query in pin.queries:
            for step in folder.placed(query).steps:
                if step.level == level:
                    for root, exit_at in step.roots(pin.ports):
                        names.setdefault(root, []).append(query.name if exit_at is None else f"stage {exit_at[0]}")
        if names:
            lines.append(f"stage {level}:")
            said = {root: f"; gives {', '.join(dict.fromkeys(found))}" for root, found in names.items()}
            lines += [f"  {line}" for line in tree(list(names), partial(_said, said))]
    return "\n".join(lines) or "no query runs"
