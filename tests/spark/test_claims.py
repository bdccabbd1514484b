"""Checkpoints and folders of results belong to one query: whoever comes second is told, and so is who finds them changed."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.spark.test_streaming import arrive, folders, readings, result

import hydrophone as hp
from hydrophone.spark.streaming import claims, sinks
from hydrophone.spark.streaming.claims import Claims, Lock, create_once, read_text
from hydrophone.spark.streaming.outlets import Outlet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def source(path: Path) -> hp.Stream:
    return hp.read.parquet(str(path), key="k", time="t", progress=hp.delayed("1h"))


def at_once(works: list[Callable[[], Any]]) -> list[Any]:
    """What each gives, or the error that it raises, when all begin at the same time."""
    barrier = Barrier(len(works))

    def one(work: Callable[[], Any]) -> Any:
        barrier.wait()
        try:
            return work()
        except hp.HydrophoneError as error:
            return error

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(one, works))


# --- at the same time -------------------------------------------------------------------------------------------------


def test_one_of_many_makes_a_file(spark: SparkSession, tmp_path: Path) -> None:
    for n in range(20):
        path = str(tmp_path / f"{n}" / "file")
        found = at_once([lambda i=i, path=path: create_once(spark, path, f"text {i}") for i in range(8)])  # type: ignore[misc]
        assert len(set(found)) == 1 and os.listdir(tmp_path / f"{n}") == ["file"]


@pytest.mark.parametrize("here", [True, False])
def test_an_empty_folder_has_one_owner(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: bool
) -> None:
    """On this machine one query gets it; where Spark must write, one or none."""
    if not here:
        for module in (claims, sinks):
            monkeypatch.setattr(module, "on_this_machine", lambda spark, path: None)
    for n in range(10 if here else 2):
        outlet = Outlet(None, pa.schema([]), hp.write.parquet(str(tmp_path / f"out{n}")))

        def take(i: int, n: int = n, outlet: Outlet = outlet) -> Claims:
            return Claims.take(spark, str(tmp_path / f"{n}-{i}"), f"id{i}", [outlet])

        found = at_once([lambda i=i, take=take: take(i) for i in range(4 if here else 2)])  # type: ignore[misc]
        owners = [f for f in found if isinstance(f, Claims)]
        assert len(owners) == 1 if here else len(owners) <= 1
        assert all("holds results of another query" in str(f) for f in found if not isinstance(f, Claims))
        for owner in owners:
            assert (read_text(spark, f"{outlet.path}/_query") or "").strip() == owner.query
            Claims.take(spark, owner.checkpoint, owner.query, [outlet])  # again, as at every start


def test_small_files_that_are_replaced_meanwhile_are_read_again(spark: SparkSession, tmp_path: Path) -> None:
    """Spark lists them first and reads them later; whatever takes their place in between is found."""
    path, made = str(tmp_path / "file"), []

    def write(text: str) -> None:
        spark.sql("select :text as value", args={"text": text}).write.mode("overwrite").text(path)

    def listed() -> Any:
        frame = spark.read.text(path)
        if len(made) < 2:
            write(f"text {len(made)}")
        made.append(frame)
        return frame

    write("first")
    rows = claims._rows(listed)
    assert rows is not None and [r.value for r in rows] == ["text 1"] and len(made) == 3


def test_two_starts_at_once(spark: SparkSession, tmp_path: Path) -> None:
    """On one sink, and on one checkpoint: one runs, the other is told; all rows are there once."""
    arrive(tmp_path / "in", [readings(n) for n in range(3)])
    query = source(tmp_path / "in")

    def start(checkpoint: str, out: str) -> Any:
        to = hp.write.parquet(str(tmp_path / out))
        options: dict[str, Any] = {"files_per_batch": 1, "late": hp.late.drop()}
        return query.start(spark, to=to, checkpoint=str(tmp_path / checkpoint), name=f"{checkpoint} {out}", **options)

    found = at_once(
        [lambda: start("c1", "a"), lambda: start("c2", "a"), lambda: start("c3", "b"), lambda: start("c3", "d")]
    )
    running = [f for f in found if not isinstance(f, hp.HydrophoneError)]
    refused = [f for f in found if isinstance(f, hp.ParameterError)]
    assert [r.query.name[:2] for r in running] in (["c1", "c3"], ["c2", "c3"]) and all(r.hint for r in refused)
    assert "holds results of another query" in str(refused[0])
    assert "another stream runs with the checkpoint" in str(refused[1])
    for query_ in running:
        query_.process_all_available()
    with pytest.raises(hp.ParameterError, match=r"another stream runs with the checkpoint \S+ in the process \d+"):
        start("c3", "b")
    with pytest.raises(hp.ParameterError, match=r"a query with the name 'c3 [bd]' runs in this session already"):
        name = running[1].query.name
        query.start(spark, to=hp.write.memory(), checkpoint=str(tmp_path / "c4"), name=name)
    for query_ in running:
        query_.stop()
    used = "b" if (tmp_path / "b").exists() else "d"
    for out in ("a", used):
        assert sorted(result(tmp_path / out)["t"].to_pylist()) == [10 * n for n in range(600)]
    start("c3", used).stop()  # it is free again


def test_a_checkpoint_is_held_by_a_process_until_it_dies(tmp_path: Path) -> None:
    code = (
        "import sys, time, pathlib\nfrom hydrophone.spark.streaming.claims import Lock\n"
        "lock = Lock(pathlib.Path(sys.argv[1]))\nprint('held', flush=True)\ntime.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout is not None and other.stdout.readline() == "held\n"
            with pytest.raises(hp.ParameterError, match=f"in the process {other.pid}"):
                Lock(tmp_path)
        finally:
            other.kill()
    Lock(tmp_path).release()


# --- the manifest -----------------------------------------------------------------------------------------------------


def signed(note: dict[str, Any]) -> str:
    """A manifest with a checksum that fits."""
    bare = {k: v for k, v in note.items() if k != "check"}
    return json.dumps({**bare, "check": hashlib.sha256(json.dumps(bare, sort_keys=True).encode()).hexdigest()[:16]})


def test_a_manifest_that_is_not_as_it_was_is_told(spark: SparkSession, tmp_path: Path) -> None:
    arrive(tmp_path / "in", [readings(0)])
    query = source(tmp_path / "in").signal("v").sample("10ns")
    to, checkpoint = hp.write.parquet(str(tmp_path / "out")), tmp_path / "checkpoint"

    def run() -> None:
        query.start(spark, to=to, checkpoint=str(checkpoint), shards=None, trigger="available").wait()

    run()
    file = checkpoint / "hydrophone.json"
    good = file.read_text()
    note = json.loads(good)
    assert note["shards"] == 2
    damages: dict[str, tuple[str | None, type[Exception], str]] = {
        "shards": (json.dumps({**note, "shards": 3}), hp.DataError, "was changed or is damaged: its checksum"),
        "id": (json.dumps({**note, "id": "0" * 32}), hp.DataError, "was changed or is damaged: its checksum"),
        "without": (json.dumps({k: v for k, v in note.items() if k != "shards"}), hp.DataError, "its checksum"),
        "empty": ("", hp.DataError, "is damaged: it is empty"),
        "cut off": (good[:40], hp.DataError, "is damaged: it is no JSON"),
        "other bytes": ("\x00\x01\x02" * 9, hp.DataError, "is damaged: it is no JSON"),
        "a list": ("[]", hp.DataError, "is damaged: it holds no object but a list"),
        "missing": (None, hp.DataError, "1 micro-batches in its log, and .*hydrophone.json is missing"),
        "old": (
            json.dumps({k: note[k] for k in ("query", "hash", "release", "id", "shards")}),
            hp.StateVersionError,
            "does not read",
        ),
        "signed shards": (
            signed({**note, "shards": 3}),
            hp.DataError,
            "says 3 shards, and Spark's log of the checkpoint 2",
        ),
    }
    for text, kind, says in damages.values():
        file.unlink(missing_ok=True)
        if text is not None:
            file.write_text(text)
        with pytest.raises(kind, match=says) as told:
            run()
        assert "hydrophone.json" in str(told.value) and "new checkpoint" in str(told.value.hint)  # type: ignore[attr-defined]
    # A manifest of another checkpoint: only the state itself knows. The folder says whose results it holds, so it is told too.
    arrive(tmp_path / "in", [readings(1)], first=1)
    file.write_text(signed({**note, "id": "0" * 32}))
    with pytest.raises(hp.ParameterError, match="holds results of another query"):
        run()
    for claimed in (tmp_path / "out" / "_query", checkpoint / "late" / "source=0" / "_query"):
        claimed.write_text("0" * 32)
    with pytest.raises(
        hp.StateVersionError, match=f"the state is that of query {note['id']}, stage 0, shard 0 of 2|shard . of 2"
    ) as told:
        run()
    assert "0" * 32 in str(told.value) and told.value.hint
    for claimed in (tmp_path / "out" / "_query", checkpoint / "late" / "source=0" / "_query"):
        claimed.write_text(note["id"])
    file.write_text(good)
    run()
    assert folders(tmp_path / "out") == [0, 1]


# --- results that are gone --------------------------------------------------------------------------------------------


def test_results_that_are_gone_are_missed(spark: SparkSession, tmp_path: Path) -> None:
    arrive(tmp_path / "in", [readings(0)])
    query, out, checkpoint = source(tmp_path / "in"), tmp_path / "out", tmp_path / "checkpoint"

    def start(**options: Any) -> Any:
        return query.start(spark, to=hp.write.parquet(str(out)), checkpoint=str(checkpoint), **options)

    start(trigger="available").wait()
    shutil.copytree(out, tmp_path / "copy")
    for emptied in (False, True):
        shutil.rmtree(out, ignore_errors=True)
        if emptied:
            out.mkdir()
        with pytest.raises(
            hp.DataError, match=r"the folder \S+/out is gone or was emptied, and the checkpoint .* results"
        ):
            start(trigger="available")
    shutil.rmtree(out)
    (tmp_path / "copy").rename(out)
    running = start()
    arrive(tmp_path / "in", [readings(1)], first=1)
    running.process_all_available()
    assert len(result(out)) == 400
    shutil.rmtree(out)
    arrive(tmp_path / "in", [readings(2)], first=2)
    with pytest.raises(hp.DataError, match="is gone or was emptied") as told:
        running.wait()
    command = str(told.value.hint).rpartition("to go on without them: ")[2]
    out.mkdir()
    subprocess.run(command, shell=True, check=True)
    start(trigger="available").wait()
    assert len(result(out)) == 200 and folders(out) == [2]


def test_a_table_that_is_gone_is_missed(spark: SparkSession, tmp_path: Path) -> None:
    arrive(tmp_path / "in", [readings(0)])
    spark.sql(f"create database claim_tests location '{tmp_path}/tables'")
    try:
        options: dict[str, Any] = {"to": hp.write.table("claim_tests.t"), "checkpoint": str(tmp_path / "c")}
        source(tmp_path / "in").start(spark, trigger="available", **options).wait()
        spark.sql("drop table claim_tests.t")
        with pytest.raises(hp.DataError, match=r"the table claim_tests.t is gone"):
            source(tmp_path / "in").start(spark, trigger="available", **options)
    finally:
        spark.sql("drop database claim_tests cascade")


# --- folders that feed each other -------------------------------------------------------------------------------------


def test_streams_do_not_feed_themselves(spark: SparkSession, tmp_path: Path) -> None:
    arrive(tmp_path / "in", [readings(0)])
    (tmp_path / "link").symlink_to("in")
    (tmp_path / "other").mkdir()
    (tmp_path / "in" / "more").symlink_to("../other")
    frame = spark.readStream.schema("k long, t long, v double").parquet(str(tmp_path / "in"))
    queries = [source(tmp_path / "in"), hp.from_spark(frame, key="k", time="t", progress=hp.ordered())]
    good = {"to": "out", "checkpoint": "c", "late": "late"}
    bad = ["in", "in/x", "link/x", "in/../in/x", ".", "../" + tmp_path.name + "/in/x"]
    before = sorted(tmp_path.rglob("*"))
    for query in queries:
        for what in good:
            for path in [*bad, *(["other", "other/x"] if query is queries[0] else [])]:
                places = {n: f"{tmp_path}/{p}" for n, p in {**good, what: path}.items()}
                for to in (hp.write.parquet(places["to"]), hp.write.csv(places["to"])):
                    with pytest.raises(hp.ParameterError, match=r"its own output|take the place|overlap") as told:
                        query.start(spark, to=to, checkpoint=places["checkpoint"], late=hp.late.side(places["late"]))
                    assert told.value.hint
    for to, late, checkpoint in [
        ("out", "out", "c"),
        ("out", "out/late", "c"),
        ("c", "late", "c"),
        ("out", "late", "out/c"),
    ]:
        with pytest.raises(hp.ParameterError, match="overlap"):
            queries[0].start(
                spark,
                to=hp.write.parquet(f"{tmp_path}/{to}"),
                checkpoint=f"{tmp_path}/{checkpoint}",
                late=hp.late.side(f"{tmp_path}/{late}"),
            )
    assert sorted(tmp_path.rglob("*")) == before


def test_saving_on_spark_does_not_take_its_own_input(spark: SparkSession, tmp_path: Path) -> None:
    arrive(tmp_path / "in", [readings(0)])
    (tmp_path / "link").symlink_to("in")
    frame = spark.read.parquet(str(tmp_path / "in"))
    before = sorted(tmp_path.rglob("*"))
    for query in (source(tmp_path / "in"), hp.from_spark(frame, key="k", time="t")):
        for path in ("in", "in/x", "link", "link/x", "in/../in/x", ".", "in/part-0000.parquet"):
            with pytest.raises(hp.ParameterError, match=r"its own output|take the place"):
                query.save(hp.write.parquet(str(tmp_path / path)), spark, overwrite=True)
    assert sorted(tmp_path.rglob("*")) == before


def test_saving_on_spark_follows_links_and_replaces_results_alone(spark: SparkSession, tmp_path: Path) -> None:
    arrive(tmp_path / "in", [readings(0)])
    query = source(tmp_path / "in")
    (tmp_path / "link").symlink_to("real")
    for _ in range(2):
        query.save(hp.write.parquet(str(tmp_path / "link")), spark, overwrite=True)
        assert (tmp_path / "link").is_symlink() and len(hp.read.parquet(tmp_path / "real", time="t").to_arrow()) == 200
    (tmp_path / "real" / "thesis.tex").write_text("years of work")
    os.mkfifo(tmp_path / "pipe")
    for path, says in {"link": "other things than a result", "pipe": "is a pipe", "/dev/null": "is a device"}.items():
        for to in (hp.write.parquet(str(tmp_path / path)), hp.write.csv(str(tmp_path / path))):
            with pytest.raises(hp.ParameterError, match=says):
                query.save(to, spark, overwrite=True)
    assert (tmp_path / "real" / "thesis.tex").exists()
