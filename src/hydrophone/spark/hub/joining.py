"""How a query asks to join a hub: what can be refused at once is, then its plan goes to the registry and a request to the hub."""

from __future__ import annotations

import uuid
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hydrophone.connect.output_conflicts import check_output_apart, check_outputs_separate
from hydrophone.connect.sink import Sink
from hydrophone.engine import emit
from hydrophone.errors import ParameterError, UnsupportedError
from hydrophone.plan.node import Node
from hydrophone.plan.source import Source, places_of
from hydrophone.spark.hub.changes import begin, name_used
from hydrophone.spark.hub.folders import HubFolder, HubPlan
from hydrophone.spark.hub.pins import PinnedQuery
from hydrophone.spark.hub.placement import place, without_data
from hydrophone.spark.hub.writer import claim
from hydrophone.spark.streaming.query import check_query
from hydrophone.spark.streaming.settings import absolute_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STARTS = ("settled", "fresh", "history")


@dataclass(frozen=True)
class Wanted:
    """A query that is to join.

    Attributes
    ----------
    root : the query, over the sources of the hub
    start : one of `STARTS`, or an instant
    """

    root: Node
    to: Sink
    name: str
    start: str | int
    shape: emit.Shape


def ask(
    folder: HubFolder,
    sources: Sequence[Source],
    wanted: Wanted,
    spark: SparkSession | None = None,
    memory: MutableMapping[str, Sink] | None = None,
) -> tuple[str, int]:
    """Ask, and return the token of the query and the number of the request.

    With a session the sink is claimed at once, so that one of another query is refused here; else the hub claims it. A sink of this
    process is put into `memory` before the hub hears of the query.
    """
    to = wanted.to if wanted.to.folder is None else wanted.to.moved(absolute_path(wanted.to.folder))
    _check(folder, sources, wanted, to)
    plan = HubPlan(without_data(wanted.root), None if to.in_process else to, wanted.shape)
    token, stored = uuid.uuid4().hex, folder.registry.put(plan)
    if spark is not None:
        claim(folder, spark, PinnedQuery(0, wanted.name, token, stored, 0, 0))
    if memory is not None and to.in_process:
        memory[token] = to
    request = folder.requests.add("subscribe", name=wanted.name, plan=stored, token=token, start=wanted.start)
    return token, request


def _check(folder: HubFolder, sources: Sequence[Source], wanted: Wanted, to: Sink) -> None:
    if not wanted.name.strip():
        raise ParameterError("subscribe: name must be a text that says something")
    if wanted.start == "history":
        raise UnsupportedError(
            "subscribe: a hub keeps no rows that have come",
            hint='start="settled"; or run the query alone over all rows: query.start(spark, to=..., checkpoint=...)',
        )
    check_sink(to)
    place(wanted.root, folder.sources, folder.levels)
    if to.folder is not None:
        for node in (wanted.root, *sources):
            check_output_apart(places_of(node), to.folder, what="subscribe: sink", watched=True)
        check_outputs_separate({"checkpoint": folder.home, "sink": to.folder}, what="subscribe")
    check_query(wanted.root, to, wanted.shape)
    pin = folder.pins.latest()
    if pin is not None:
        begin(folder, pin.seen, wanted.root, wanted.start)
    waiting = [
        r["name"]
        for _, r in folder.requests.after(-1 if pin is None else pin.request)
        if isinstance(r, dict) and "plan" in r
    ]
    if wanted.name in waiting or (pin is not None and pin.named(wanted.name) is not None):
        raise name_used(wanted.name)


def check_sink(to: Sink) -> None:
    """Refuse a sink that a hub cannot write to."""
    if not to.in_process and not (to.by_tasks and to.folder is not None and ":" not in to.folder):
        raise UnsupportedError(
            f"subscribe: the tasks of a hub cannot write to {to.place} ({type(to).__name__})",
            hint='write files into a folder of this machine: to=hp.write.parquet("out/"); '
            "or run the query alone: query.start(spark, to=..., checkpoint=...)",
        )
