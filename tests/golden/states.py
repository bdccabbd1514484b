"""Snapshots of every kernel that keeps state, in the middle of a case, and what the case gave from there on.

A file ``states/KERNEL-VERSION.zip`` holds a few runs, which together fill all that the kernel keeps. Paths in it name
operators and not digests, and number scopes, so that it proves that the state can be read, whatever identifies a plan.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from tests.cases import ALL_CASES, Case
from tests.laws.harness import sources_of

import hydrophone as hp
from hydrophone.compiler.compile import Lowered, lower
from hydrophone.engine import emit
from hydrophone.engine.checkpoint import SNAPSHOT_FORMAT
from hydrophone.engine.in_order import enforce_order
from hydrophone.engine.pipeline import Pipeline
from hydrophone.model.batch import Progress
from hydrophone.model.state import SlotArrays
from hydrophone.model.time import MAX_TIME, MIN_TIME

FOLDER = Path(__file__).parent / "states"


def _per_key(case: Case) -> Lowered:
    own = hp.delayed(MAX_TIME - 1, per_key=0)
    return lower([replace(case, inputs={n: replace(s, progress=own) for n, s in case.inputs.items()}).build().node])


PLANS: dict[str, Callable[[Case], Lowered]] = {
    "plain": lambda case: lower([case.plan]),
    "per key": _per_key,
    "in order": lambda case: enforce_order(lower([case.plan])),
}
"""Plans of a case; those after the first are there for the kernels that only they have."""


def cases_of(plan: str) -> list[Case]:
    return ALL_CASES if plan == "plain" else ALL_CASES[:30]


@cache
def cases() -> dict[str, Case]:
    return {c.name: c for c in ALL_CASES}


@dataclass(frozen=True)
class Saved:
    """A run that was stopped half way: which one, its state by path, and the rows that were still to come."""

    case: str
    plan: str
    state: Mapping[str, bytes]
    rest: pa.Table

    def pipeline(self) -> Pipeline:
        """Today's, with no state."""
        return Pipeline(PLANS[self.plan](cases()[self.case]).roots)

    def finish(self) -> pa.Table:
        """The rows that today's code gives from here on."""
        pipeline = self.pipeline()
        pipeline.restore(
            renamed(self.state, {label: digest for digest, label in labels(pipeline).items()}, SNAPSHOT_FORMAT)
        )
        return finished(pipeline)


def half_way(case: Case, plan: str) -> tuple[Pipeline, dict[str, bytes]]:
    """A pipeline that has all rows and marks at half of their starts, and its state."""
    lowered = PLANS[plan](case)
    pipeline, sources = Pipeline(lowered.roots), sources_of(case, lowered)
    starts = np.sort(np.concatenate([s.starts() for s in sources]))
    for port, source in enumerate(sources):
        pipeline.late_threshold(port, source.table, MIN_TIME)  # rows speak for their keys
        pipeline.rows(port, source.table)
    mark = int(starts[len(starts) // 2]) if len(starts) else 0
    pipeline.advance([Progress(mark)] * len(sources))
    pipeline.drain()
    state = {path: data for path, data in pipeline.snapshot().items() if data is not None}
    return pipeline, renamed(state, labels(pipeline), None)


def finished(pipeline: Pipeline) -> pa.Table:
    """What a pipeline gives when the data ends."""
    root = pipeline.roots[0]
    pipeline.advance([Progress(MAX_TIME)] * (max(pipeline.ports, default=-1) + 1))
    found = list(emit.result_tables(pipeline.drain(root), root.type, pipeline.keys(root), "rows"))
    return pa.concat_tables(found) if found else emit.result_schema(root.type, "rows").empty_table()


def labels(pipeline: Pipeline) -> dict[str, str]:
    """The digest of every operator, and its name with a number among those of this name; of every scope, its number."""
    count: Counter[str] = Counter()
    found = {scope: str(number) for number, scope in enumerate(pipeline.scopes)}
    for node in pipeline.nodes:
        name = type(node).__name__
        found[node.digest] = f"{name}.{count[name]}"
        count[name] += 1
    return found


def renamed(state: Mapping[str, bytes], names: Mapping[str, str], format: int | None) -> dict[str, bytes]:
    """State with other names of operators and scopes, as the given format of snapshots; a file has none."""

    def path(old: str) -> str:
        kind, *rest = old.split("/")
        if kind == "keys":
            return "/".join([kind, names[rest[0]], *rest[1:]])
        return "/".join([names.get(kind, kind), *rest])

    header = json.loads(state["marks"]) | {"format": format}
    header |= {part: {path(p): v for p, v in header[part].items()} for part in ("marks", "shed")}
    return {path(p): data for p, data in state.items()} | {"marks": json.dumps(header).encode()}


def kept(pipeline: Pipeline, state: Mapping[str, bytes]) -> Iterator[tuple[str, str]]:
    """The kernels that have state, and what they keep: the operator, the name of the state and the types of its arrays."""
    names = labels(pipeline)
    paths = {path.rpartition("/")[0] for path in state}
    for node, station in pipeline.stations.items():
        for name, held in station.states.items():
            if f"{names[node.digest]}/{name}" in paths:
                types = {n: a.dtype.str for n, a in held.arrays.items()} if isinstance(held, SlotArrays) else held.kind
                yield type(station.kernel).__name__, f"{type(node).__name__} {name} {types}"


def versions(pipeline: Pipeline) -> dict[str, int]:
    """The kernels that keep state, and the versions of it."""
    return {type(s.kernel).__name__: s.kernel.VERSION for s in pipeline.stations.values() if s.kernel and s.states}


def lacking(pipeline: Pipeline) -> list[str]:
    """The golden files of kernels of a pipeline that are not there."""
    return [f.name for k, v in versions(pipeline).items() if not (f := file_of(k, v)).exists()]


# --- making -------------------------------------------------------------------------------------------------------------


def make(again: bool) -> None:
    """Write the files that are lacking, or all of them again."""
    runs: dict[Path, list[tuple[int, set[str], Case, str]]] = {}
    for plan, case in ((p, c) for p in PLANS for c in cases_of(p)):
        if not again and not lacking(Pipeline(PLANS[plan](case).roots)):
            continue
        pipeline, state = half_way(case, plan)
        held: dict[str, set[str]] = {}
        for kernel, what in kept(pipeline, state):
            held.setdefault(kernel, set()).add(what)
        for kernel, version in versions(pipeline).items():
            if kernel in held:
                run = sum(map(len, state.values())), held[kernel], case, plan
                runs.setdefault(file_of(kernel, version), []).append(run)
    new = [file for file in runs if again or not file.exists()]
    for file in new:
        write(file, [_saved(case, plan) for case, plan in _few(runs[file])])
    print(f"states: {len(new)} files written")


def _few(runs: list[tuple[int, set[str], Case, str]]) -> Iterator[tuple[Case, str]]:
    """Few and small runs that together hold all that any of them does."""
    wanted = set().union(*(held for _, held, _, _ in runs))
    while wanted:
        _, held, case, plan = max(runs, key=lambda r: (len(r[1] & wanted), -r[0]))
        wanted -= held
        yield case, plan


def _saved(case: Case, plan: str) -> Saved:
    pipeline, state = half_way(case, plan)
    return Saved(case.name, plan, state, finished(pipeline))


# --- files --------------------------------------------------------------------------------------------------------------


def file_of(kernel: str, version: int) -> Path:
    return FOLDER / f"{kernel}-{version}.zip"


def read(file: Path) -> list[Saved]:
    """The runs in a file."""
    with zipfile.ZipFile(file) as archive:
        data = {name: archive.read(name) for name in archive.namelist()}
    runs = []
    for number in sorted({name.partition("/")[0] for name in data}, key=int):
        mine = {n.removeprefix(f"{number}/"): d for n, d in data.items() if n.startswith(f"{number}/")}
        about = json.loads(mine.pop("about.json"))
        rest = pa.ipc.open_stream(mine.pop("rest.arrow")).read_all()
        runs.append(Saved(about["case"], about["plan"], {n.removeprefix("state/"): d for n, d in mine.items()}, rest))
    return runs


def write(file: Path, runs: list[Saved]) -> None:
    """Write runs; equal runs give an equal file."""
    file.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(file, "w") as archive:
        for number, run in enumerate(runs):
            about: dict[str, Any] = {"case": run.case, "plan": run.plan}
            _put(archive, f"{number}/about.json", json.dumps(about).encode())
            _put(archive, f"{number}/rest.arrow", _stream(run.rest))
            for path, data in sorted(run.state.items()):
                _put(archive, f"{number}/state/{path}", data)


def _put(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED, 9)


def _stream(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()
