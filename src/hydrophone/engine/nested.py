"""A plan inside an operator: a pipeline over the same keys, whose state belongs to the station of the operator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from hydrophone.compiler.ports import over_leaves
from hydrophone.engine.stations import Station
from hydrophone.errors import PlanError
from hydrophone.model.batch import Batch, Ints, Mask, Progress
from hydrophone.model.key_table import KeyTable
from hydrophone.model.state import State
from hydrophone.plan.node import Node
from hydrophone.plan.source import Source


class InnerPipeline(Protocol):
    """What is needed of the pipeline that runs it (`engine/pipeline.py`, which makes both)."""

    roots: tuple[Node, ...]
    stations: dict[Node, Station]
    ports: dict[int, Node]

    def step(self, port: int, batch: Batch) -> None:
        """Take a batch at a port."""

    def advance(self, progress: Mapping[int, Progress]) -> None:
        """Take the progress of every port."""

    def drain(self) -> list[Batch]:
        """Take the batches that have reached the root."""

    def forgettable(self, table: KeyTable) -> Mask:
        """Slots that no operator needs."""

    def forget(self, table: KeyTable, slots: Ints) -> None:
        """Forget these slots."""


class NestedPlan:
    """Runs the plan inside an operator; see `hydrophone.model.nested.NestedPlan`."""

    def __init__(self, pipeline: InnerPipeline, table: KeyTable) -> None:
        self._pipeline, self._table = pipeline, table
        self._stations = [(s, s.kernel) for s in pipeline.stations.values() if s.kernel is not None]

    @property
    def version(self) -> int:
        """By how much all kernels together are above their first versions: versions only grow."""
        return sum(kernel.VERSION - 1 for _, kernel in self._stations)

    def take(self, port: int, batch: Batch) -> None:
        """Take a batch at a port, if somebody reads it."""
        if port in self._pipeline.ports:
            self._pipeline.step(port, batch)

    def advance(self, mark: int) -> tuple[list[Batch], int]:
        """Advance all ports to this mark; the results, and their mark."""
        self._pipeline.advance(dict.fromkeys(self._pipeline.ports, Progress(mark)))
        return self._pipeline.drain(), self._pipeline.stations[self._pipeline.roots[0]].progress.mark

    def states(self) -> dict[str, State]:
        """The state by operator and name."""
        return {f"{s.digest}.{name}": state for s, _ in self._stations for name, state in s.states.items()}

    def compact(self) -> None:
        """Let kernels hold their own state, and bring it into the form that it would have after a restore."""
        for station, kernel in self._stations:
            station.take_back()
            kernel.compact()

    def forgettable(self) -> Mask:
        """Slots that no kernel inside needs."""
        return self._pipeline.forgettable(self._table)

    def release(self, slots: Ints) -> None:
        """Forget these slots; the key table is the host's."""
        self._pipeline.forget(self._table, slots)


def without_sources(plan: Node) -> tuple[Node, ...]:
    """The plan inside an operator as a pipeline runs it: with order where it is needed."""
    return over_leaves([plan], _no_source)


def _no_source(source: Source) -> Node:
    raise PlanError(f"the plan inside an operator reads {source.title}", hint="it reads what its operator gives it")
