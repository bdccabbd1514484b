"""The note in a checkpoint: what a streaming query and its checkpoint agreed on when it first started."""

from __future__ import annotations

import hashlib
import json
import uuid
from typing import TYPE_CHECKING, Any

import hydrophone
from hydrophone.errors import ParameterError, StateVersionError
from hydrophone.keys import HASH_VERSION
from hydrophone.plan.lower import Stage
from hydrophone.spark.sinks import on_this_machine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def agreed(spark: SparkSession, checkpoint: str, cut: list[Stage], shards: int | None) -> dict[str, Any]:
    """What this query and its checkpoint agree on; written at the first start."""
    wanted = {"query": _digest(cut), "hash": HASH_VERSION, "release": _release()}
    path = f"{checkpoint}/hydrophone.json"
    note = _read(spark, path)
    if note is None:
        count = shards if shards is not None else int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
        if count < 1:
            raise ParameterError(f"start: shards must be at least 1, got {count}")
        note = {**wanted, "id": uuid.uuid4().hex, "shards": count}
        _write(spark, path, note)
        return note
    for name, found in wanted.items():
        if note[name] != found:
            raise StateVersionError(
                f"start: the checkpoint {checkpoint!r} was made by another {_NAMES[name]} ({note[name]}, this is {found})",
                hint="start with a new checkpoint, or run what made this one",
            )
    if shards not in (None, note["shards"]):
        raise StateVersionError(
            f"start: the checkpoint {checkpoint!r} has {note['shards']} shards, not {shards}",
            hint="leave shards out: their number is fixed when a query first starts",
        )
    return note


_NAMES = {"query": "query", "hash": "way to spread keys over shards", "release": "release of Hydrophone"}


def _digest(cut: list[Stage]) -> str:
    parts = [n.digest for stage in cut for n in (stage.root, *(i.prefix for i in stage.inputs))]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _release() -> str:
    """Releases that share state: all with the same first two numbers."""
    return ".".join(hydrophone.__version__.split(".")[:2])


def _read(spark: SparkSession, path: str) -> dict[str, Any] | None:
    here = on_this_machine(spark, path)
    if here is not None and not here.exists():
        return None
    text = here.read_text() if here else _read_by_spark(spark, path)
    return json.loads(text) if text else None


def _write(spark: SparkSession, path: str, note: dict[str, Any]) -> None:
    """A file on this machine; elsewhere Spark writes it, so that a checkpoint may lie wherever Spark can write."""
    text = json.dumps(note)
    if here := on_this_machine(spark, path):
        here.parent.mkdir(parents=True, exist_ok=True)
        draft = here.with_suffix(".draft")
        draft.write_text(text)
        draft.replace(here)
    else:
        spark.sql("select :text as value", args={"text": text}).coalesce(1).write.mode("overwrite").text(path)


def _read_by_spark(spark: SparkSession, path: str) -> str | None:
    from pyspark.errors import AnalysisException

    try:
        lines = [str(row.value) for row in spark.read.text(path).collect()]
    except AnalysisException:
        return None
    return lines[0] if lines else None
