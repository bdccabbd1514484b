"""The end of every micro-batch of a hub: results go to their sinks, then the next micro-batch is pinned, then Spark commits."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hydrophone.connect.sink import Sink
from hydrophone.engine.watch import MarkWatch
from hydrophone.errors import DataError
from hydrophone.spark.exchange.table_bytes import table_from_bytes
from hydrophone.spark.hub.changes import Request, Told, next_pin
from hydrophone.spark.hub.folders import HubFolder
from hydrophone.spark.hub.pins import KEPT_PINS, Pin, PinnedQuery
from hydrophone.spark.hub.shard import described
from hydrophone.spark.streaming.chunks import Kind
from hydrophone.spark.streaming.claims import Claims
from hydrophone.spark.streaming.sinks import Drafts, Metrics, lowest_source_marks, sum_by_source
from hydrophone.spark.streaming.source_log import SourceLog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

_log = logging.getLogger("hydrophone")


@dataclass(frozen=True)
class HubWriter:
    """Writes one micro-batch; Spark calls it again with the same number after a crash.

    Results of a query are written for a micro-batch in which it has failed nowhere, else not at all. All that is decided here is in the
    next pin. Where that exists already, it holds: results that were decided on were written before it.

    Attributes
    ----------
    memory : sinks in this process, by token
    log : what sees that all files were read
    watch : what reports sources whose marks stand still
    late : the claims on folders of late rows
    asked : called with every request that has been decided on
    """

    folder: HubFolder
    memory: MutableMapping[str, Sink]
    log: SourceLog
    watch: MarkWatch
    late: Claims
    asked: Callable[[Request], None]

    def __call__(self, chunks: DataFrame, batch: int) -> None:
        """Write results, pin what comes next."""
        spark = chunks.sparkSession
        self.late.check(spark)
        pin, following = self.folder.pins.read(batch), self.folder.pins.find(batch + 1)
        given = chunks.collect()
        self._check_read(spark, batch, given)
        metrics = [json.loads(row.data) for row in given if row.kind == Kind.METRICS]
        failed = {row.port: json.loads(row.data) for row in given if row.kind == Kind.ERROR}
        if following is not None:
            failed |= {q["number"]: q["error"] for q in following.ended if q["state"] == "failed"}
        for query in pin.queries:
            if query.number not in failed:
                try:
                    self._write(spark, query, batch, given)
                except Exception as error:
                    if following is not None:  # it was written before that was pinned, so this is no fault of the query
                        raise
                    failed[query.number] = described(error)
        self._write_late(batch, given, metrics)
        if following is None:
            following = self._pin(spark, pin, metrics, failed)
        self._tidy(following)
        self.watch.see(lowest_source_marks(metrics))

    # --- results --------------------------------------------------------------------------------------------------------

    def _write(self, spark: SparkSession, query: PinnedQuery, batch: int, given: Sequence[Row]) -> None:
        plan = self.folder.plan(query.plan)
        outlet = plan.outlet(query)
        if outlet is None:
            rows = [row.data for row in given if row.kind == Kind.RESULT and row.port == query.number]
            memory = self.memory.get(query.token)
            if memory is None:
                raise DataError(
                    f"hub: the results of {query.name!r} went into the memory of a process that has ended",
                    hint='subscribe the query again; results that stay go into files: to=hp.write.parquet("out/")',
                )
            memory.keep(batch, pa.concat_tables([plan.result.empty_table(), *map(table_from_bytes, rows)]))
            return
        Claims(self.folder.home, query.token, (outlet,), "hub").check(spark)
        Drafts.at([outlet], self.folder.id).commit(outlet, batch, _names(given, outlet.kind, outlet.port))

    def _write_late(self, batch: int, given: Sequence[Row], metrics: Iterable[Metrics]) -> None:
        outlets = self.folder.late_outlets
        drafts = Drafts.at(outlets, self.folder.id)
        for outlet in outlets:
            drafts.commit(outlet, batch, _names(given, outlet.kind, outlet.port))
        kept = self.folder.late_path or "not kept"
        for source, rows in sum_by_source(metrics, "late").items():
            title = self.folder.sources[source].title
            _log.warning("batch %d: %d late rows of %s, %s", batch, rows, title, kept)

    def _check_read(self, spark: SparkSession, batch: int, given: Sequence[Row]) -> None:
        read: dict[int, set[str]] = {}
        for row in given:
            if row.kind == Kind.READ:
                read.setdefault(row.port, set()).update(json.loads(row.data))
        self.log.check(spark, batch, read)

    # --- what comes next ------------------------------------------------------------------------------------------------

    def _pin(
        self,
        spark: SparkSession,
        pin: Pin,
        metrics: Sequence[Metrics],
        failed: Mapping[int, Mapping[str, Any]],
    ) -> Pin:
        for query in pin.queries:
            if query.number in failed:
                error = failed[query.number]
                _log.error("hub: the query %r failed: %s: %s", query.name, error["type"], error["message"])
        asked = list(self.folder.requests.after(pin.request))
        told = Told.of(metrics, len(self.folder.sources))
        following = self.folder.pins.write_once(
            next_pin(self.folder, pin, told, failed, asked, lambda query: admit(self.folder, spark, query))
        )
        for number, request in asked:
            if (refused := following.refused.get(str(number))) is not None:
                _log.warning("hub: request %d is refused: %s", number, refused["message"])
            self.asked((number, request))
        return following

    def _tidy(self, following: Pin) -> None:
        """Remove what no replay needs: old pins and requests, and plans that no pin names."""
        pins = self.folder.pins
        if following.batch % KEPT_PINS == 0:
            pins.prune(following.batch - KEPT_PINS)
            kept = [pins.read(number) for number in pins.numbers()]
            self.folder.requests.prune(kept[0].request)  # Spark has read these long ago
            named = {query.plan for pin in kept for query in pin.queries}
            self.folder.registry.forget(named | {self.folder.definition() or ""})


def _names(given: Sequence[Row], kind: Kind, port: int) -> list[str]:
    address = Kind.WRITTEN, kind, port
    return [row.origin for row in given if (row.kind, row.number, row.port) == address]


def claim(folder: HubFolder, spark: SparkSession, query: PinnedQuery) -> Claims | None:
    """Claim the sink of a query, and refuse that of another one; again does nothing. None: results stay in memory."""
    outlet = folder.plan(query.plan).outlet(query)
    if outlet is None:
        return None
    return Claims.take(spark, f"{folder.home}/claims/{query.token}", query.token, [outlet], "subscribe")


def admit(folder: HubFolder, spark: SparkSession, query: PinnedQuery) -> None:
    """Claim the sink of a query that is about to join, and make room for the drafts of tasks."""
    claims = claim(folder, spark, query)
    if claims is not None:
        Drafts.at(claims.outlets, folder.id).clear()
