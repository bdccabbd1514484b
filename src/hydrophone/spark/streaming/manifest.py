"""The manifest of a checkpoint: what a streaming query and its checkpoint agreed on when it first started."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterator
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from hydrophone.compiler.explain import title
from hydrophone.compiler.stages import Stage
from hydrophone.errors import DataError, ParameterError, StateVersionError
from hydrophone.model.key_table import HASH_VERSION
from hydrophone.model.progress import Policy
from hydrophone.model.time import format_duration
from hydrophone.plan.node import topological
from hydrophone.plan.source import Source, plain_type
from hydrophone.spark.streaming.claims import create_once, log_entries, read_text
from hydrophone.spark.streaming.logs import check_logs
from hydrophone.spark.streaming.outlets import on_this_machine
from hydrophone.version import __version__

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMAT = 2
"""Of the manifest and of what else we keep in a checkpoint."""

_RESTORE = "put back the file that was written with this checkpoint, or start with a new checkpoint and a new folder of results"


def validate_manifest(
    spark: SparkSession, checkpoint: str, identity: str, plan: list[str], shards: int | None
) -> dict[str, Any]:
    """What this query and its checkpoint agree on; written at the first start.

    Parameters
    ----------
    identity : what tells the query from others (`plan_digest`)
    plan : the query as lines that people can compare (`described`)
    """
    wanted = {"query": identity, "hash": HASH_VERSION, "release": _release_line()}
    path = f"{checkpoint}/hydrophone.json"
    if (here := on_this_machine(spark, checkpoint)) is not None:
        check_logs(here)
    text, log = read_text(spark, path), log_entries(spark, f"{checkpoint}/offsets")
    if text is None and log:
        raise DataError(
            f"start: the checkpoint {checkpoint!r} has {len(log)} micro-batches in its log, and {path} is missing",
            hint=_RESTORE,
        )
    if not text and not log:  # empty where two that started at once have both taken theirs back
        count = shards if shards is not None else int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
        if count < 1:
            raise ParameterError(f"start: shards must be at least 1, got {count}")
        note: dict[str, Any] = {**wanted, "format": FORMAT, "id": uuid.uuid4().hex, "shards": count, "plan": plan}
        # Of two that start at the same time one is the first, and both go by what it wrote.
        text = create_once(spark, path, json.dumps({**note, "check": _check_manifest(note)}))
    note = parse_manifest(path, text or "")
    for name, found in wanted.items():
        if note[name] != found:
            raise StateVersionError(
                f"start: the checkpoint {checkpoint!r} was made by another {_NAMES[name]}"
                + (_changes(note, plan) if name == "query" else f" ({note[name]}, this is {found})"),
                hint="start with a new checkpoint and a new folder of results, or run what made this one"
                + (_SCHEMA if name == "query" else ""),
            )
    _check_partitions(path, note["shards"], log)
    if shards not in (None, note["shards"]):
        raise StateVersionError(
            f"start: the checkpoint {checkpoint!r} has {note['shards']} shards, not {shards}",
            hint="leave shards out: their number is fixed when a query first starts",
        )
    return note


_NAMES = {"query": "query", "hash": "way to spread keys over shards", "release": "release of Hydrophone"}


def parse_manifest(path: str, text: str) -> dict[str, Any]:
    """The manifest in a text, if it is as it was written.

    Examples
    --------
    >>> parse_manifest("c/hydrophone.json", "")
    Traceback (most recent call last):
    hydrophone.errors.DataError: start: c/hydrophone.json is damaged: it is empty
      Hint: put back the file that was written with this checkpoint, or start with a new checkpoint and a new folder of results
    """
    try:
        note = json.loads(text)
    except ValueError as error:
        what = f"it is no JSON ({error})" if text.strip() else "it is empty"
        raise DataError(f"start: {path} is damaged: {what}", hint=_RESTORE) from None
    if not isinstance(note, dict):
        raise DataError(f"start: {path} is damaged: it holds no object but a {type(note).__name__}", hint=_RESTORE)
    if note.get("format", 1) != FORMAT and "check" not in note:
        raise StateVersionError(
            f"start: {path} was written by a release of Hydrophone whose checkpoints this one does not read",
            hint="start with a new checkpoint and a new folder of results, or run what made this one",
        )
    said = note.pop("check", None)
    if said != _check_manifest(note):
        raise DataError(f"start: {path} was changed or is damaged: its checksum does not fit", hint=_RESTORE)
    return note


def _check_manifest(note: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(note, sort_keys=True).encode()).hexdigest()[:16]


def _check_partitions(path: str, shards: int, log: Any) -> None:
    """Spark's own log says over how many partitions the state is spread."""
    for number in sorted(log)[-1:]:
        lines = log[number].splitlines()
        found = json.loads(lines[1]).get("conf", {}).get("spark.sql.shuffle.partitions") if len(lines) > 1 else None
        if found is not None and int(found) != shards:
            raise DataError(
                f"start: {path} says {shards} shards, and Spark's log of the checkpoint {found}: it is of another checkpoint",
                hint=_RESTORE,
            )


def described(cut: list[Stage]) -> list[str]:
    """The query as lines that people can compare: its sources, layouts, promises and operators, with all that identity knows of them."""
    found: dict[str, None] = {}
    for number, stage in enumerate(cut):
        for given in stage.inputs:
            if given.source is not None:
                found.update(dict.fromkeys(source_lines(given.source)))
        nodes = topological([*(i.prefix for i in stage.inputs), stage.root])
        found.update(dict.fromkeys(f"stage {number}: {title(n)}" for n in nodes if n.inputs))
        found[f"stage {number}: by {', '.join(stage.root.topological()[0].type.key.names) or 'no key'}"] = None
    return list(found)


def source_lines(source: Source) -> Iterator[str]:
    """A line for every column and word of a source, so that a difference is short."""
    layout = source.layout
    for name in sorted({*layout.columns}):
        yield f"{source.title}: column {name} is {plain_type(layout.schema.field(name).type)}"
    words = {"key": ", ".join(layout.key), "time": layout.time, "end": layout.end, "sequence": layout.sequence}
    yield from (f"{source.title}: {word} {name}" for word, name in words.items() if name)
    if source.progress is not None:
        yield f"{source.title}: promises {_promise(source.progress)}"
    yield f"{source.title}: is {source.identity}"


def _promise(policy: Policy) -> str:
    # How fine marks are is the plan's choice, and no part of what the query is.
    given = {f.name: getattr(policy, f.name) for f in fields(policy) if f.name not in ("every", "per_key")}
    said = {n: format_duration(v) if type(v) is int else v for n, v in given.items() if v not in (None, False)}
    return ", ".join(f"{name}={value}" for name, value in said.items())


_SCHEMA = (
    '; a column that got another type with new files keeps its own with schema={"value": "float32", ...} on the reader'
)
_SHOWN = 12


def _changes(note: dict[str, Any], plan: list[str]) -> str:
    """What differs between the plan of a checkpoint and this one; checkpoints of earlier releases do not hold theirs."""
    known = note.get("plan")
    if known is None:
        return ""
    lines = [f"\n  then: {line}" for line in known if line not in plan]
    lines += [f"\n  now:  {line}" for line in plan if line not in known]
    if not lines:
        return ": the same words, but other functions, constants or versions of operators"
    return "".join([":", *lines[:_SHOWN], f"\n  and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""])


def plan_digest(cut: list[Stage]) -> str:
    """What tells a query from others."""
    parts = [n.digest for stage in cut for n in (stage.root, *(i.prefix for i in stage.inputs))]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _release_line() -> str:
    """Releases that share state: all with the same first two numbers."""
    return ".".join(__version__.split(".")[:2])
