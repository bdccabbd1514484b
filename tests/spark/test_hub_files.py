"""What a hub keeps in its folder: plans, pins and requests, and what is refused of them. Without a stream."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.hub_rehearsal import HubRehearsal

import hydrophone as hp
from hydrophone.connect.sink import Sink
from hydrophone.model.time import MAX_TIME
from hydrophone.spark.hub import registry
from hydrophone.spark.hub.folders import explained
from hydrophone.spark.hub.joining import Wanted, ask
from hydrophone.spark.hub.pins import Pin, Pins
from hydrophone.spark.hub.registry import Registry
from hydrophone.spark.hub.requests import Requests

COLUMNS = pa.schema([("k", pa.string()), ("t", pa.int64()), ("v", pa.float64())])


def source(name: str = "readings", **options: object) -> hp.Stream:
    options = {"key": "k", "time": "t", "progress": hp.delayed(5, ahead=None), **options}
    return hp.from_arrow(COLUMNS, name=name, **options)  # type: ignore[arg-type]


READINGS = source()


def table(*times: int, key: str = "a") -> pa.Table:
    return pa.table({"k": [key] * len(times), "t": times, "v": [float(t) for t in times]}, schema=COLUMNS)


def counts(source: hp.Stream) -> hp.Stream:
    return source.tumble(10).agg(n=hp.count())


# --- the registry -----------------------------------------------------------------------------------------------------


def test_a_plan_comes_back_as_it_was(tmp_path: Path) -> None:
    plans = Registry(tmp_path / "registry")
    name = plans.put(counts(READINGS).node)
    assert plans.get(name) == counts(READINGS).node
    assert (tmp_path / "registry").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "registry" / name).stat().st_mode & 0o777 == 0o600


def test_plans_that_others_may_have_written_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plans = Registry(tmp_path / "registry")
    name = plans.put("a plan")
    path = tmp_path / "registry" / name
    path.chmod(0o622)
    with pytest.raises(hp.DataError, match=f"others may write {path}"):
        plans.get(name)
    path.chmod(0o600)
    (tmp_path / "registry").chmod(0o777)
    with pytest.raises(hp.DataError, match="others may write"):
        plans.get(name)
    (tmp_path / "registry").chmod(0o700)
    with monkeypatch.context() as patch:
        patch.setattr(registry.os, "geteuid", lambda: 12345)
        with pytest.raises(hp.DataError, match="belongs to user"):
            plans.get(name)
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(hp.DataError, match="was changed or is damaged"):
        plans.get(name)
    with pytest.raises(hp.DataError, match="names no plan"):
        plans.get("../../etc/passwd")
    path.unlink()
    with pytest.raises(hp.DataError, match="is missing"):
        plans.get(name)


def test_a_plan_of_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plans = Registry(tmp_path / "registry")
    with monkeypatch.context() as patch:
        patch.setattr(registry, "__version__", "0.0.9")
        name = plans.put("an old plan")
    with pytest.raises(hp.StateVersionError, match=r"written by release 0\.0 on Python"):
        plans.get(name)


# --- pins -------------------------------------------------------------------------------------------------------------


def test_who_pins_second_finds_what_the_first_has_pinned(tmp_path: Path) -> None:
    pins = Pins(tmp_path / "pins")
    found: list[Pin] = []
    threads = [threading.Thread(target=lambda n=n: found.append(pins.write_once(Pin(3, (n,), 1)))) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(str, found))) == 1 and found[0] == pins.read(3) == pins.latest()
    assert pins.find(4) is None
    with pytest.raises(hp.DataError, match=r"4\.json is missing"):
        pins.read(4)
    (tmp_path / "pins" / "4.json").write_text('{"format": 1, "batch"')
    with pytest.raises(hp.DataError, match=r"4\.json is damaged"):
        pins.read(4)
    (tmp_path / "pins" / "5.json").write_text(Pin(5, (), 0).to_json().replace('"format": 1', '"format": 9'))
    with pytest.raises(hp.StateVersionError, match="has format 9"):
        pins.read(5)


# --- requests ---------------------------------------------------------------------------------------------------------


def test_requests_have_numbers_without_a_hole(tmp_path: Path) -> None:
    requests = Requests(tmp_path / "requests")
    threads = [threading.Thread(target=lambda: requests.add("pause", name="a", token="a")) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert requests.numbers() == list(range(8))
    assert [number for number, _ in requests.after(4)] == [5, 6, 7]
    requests.prune(9)
    assert requests.numbers() == [7] and requests.add("wake") == 8


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"ask": "pau', "half written or damaged"),
        ("[1]", "is no request"),
        ('{"ask": "drop tables"}', "is no request"),
        ('{"ask": "pause"}', "is no request"),
        ('{"ask": "pause", "name": "n"}', "is no request"),
        ('{"ask": "pause", "name": 3, "token": "n"}', "name is 3"),
    ],
)
def test_what_is_no_request_is_left_out(tmp_path: Path, text: str, said: str) -> None:
    hub = HubRehearsal(tmp_path, [READINGS])
    (tmp_path / "requests").mkdir()
    (tmp_path / "requests" / f"{0:012}.request").write_text(text)
    hub.subscribe(counts(READINGS), "n")
    hub.run({})
    assert said in hub.pin.refused["0"]["message"]
    assert [q.name for q in hub.pin.queries] == ["n"]


def refusal(hub: HubRehearsal) -> str:
    hub.run({})
    (number, error) = max(hub.pin.refused.items(), key=lambda r: int(r[0]))
    assert int(number) == hub.pin.request
    return str(error["message"])


def test_what_a_hub_refuses(tmp_path: Path) -> None:
    hub = HubRehearsal(tmp_path, [READINGS], levels=1)
    hub.subscribe(counts(READINGS), "n")
    hub.run({0: table(1, 2, 30)})
    hub.subscribe(READINGS, "n")
    assert "a query named 'n' runs in this hub already" in refusal(hub)
    hub.subscribe(counts(READINGS).key_by().tumble(20).agg(n=hp.sum("n")), "two stages")
    assert "needs 2 stages" in refusal(hub)
    hub.subscribe(counts(source("others")), "others")
    assert "has no source others" in refusal(hub)
    hub.subscribe(READINGS.signal("v").sample(1, fill=hp.hold(max_gap=5)).integrate(), "endless")
    assert "integrate() may need rows from any time before" in refusal(hub).replace("integrate may", "integrate() may")
    hub.subscribe(counts(READINGS), "early", 3)
    assert "results are exact from" in refusal(hub)
    hub.ask("pause", "nobody")
    assert "no query 'nobody' runs in this hub" in refusal(hub)
    hub.ask("unsubscribe", "n", at=3)
    assert "results up to" in refusal(hub)
    plan = hub.folder.registry.put("no query at all")
    hub.folder.requests.add("subscribe", name="x", plan=plan, token="x", start="settled")
    assert "is no query" in refusal(hub)
    assert [q.name for q in hub.pin.queries] == ["n"]


def test_who_has_a_query_that_has_ended_does_not_end_a_later_one_of_its_name(tmp_path: Path) -> None:
    hub = HubRehearsal(tmp_path, [READINGS])
    hub.subscribe(counts(READINGS), "n", token="first")
    hub.run({0: table(1, 2, 30)})
    hub.ask("unsubscribe", "n", now=True, token="first")
    hub.subscribe(counts(READINGS), "n", token="second")
    for what in ("unsubscribe", "pause", "resume"):
        hub.ask(what, "n", token="first")
        assert "this query 'n' has ended, and another one has its name" in refusal(hub)
    assert [(q.token, q.paused, q.end) for q in hub.pin.queries] == [("second", None, MAX_TIME)]


def test_a_sink_in_memory_is_known_before_the_hub_hears_of_its_query(tmp_path: Path) -> None:
    """Else a quick micro-batch finds no place for its results, and the query fails."""
    (tmp_path / "live").mkdir()
    pq.write_table(pa.table({"k": [1], "t": [1], "v": [0.5]}), tmp_path / "live" / "first.parquet")
    live = hp.read.parquet(tmp_path / "live", key="k", time="t", progress=hp.delayed(5))
    hub = HubRehearsal(tmp_path / "hub", [live])
    asked: list[list[int]] = []

    class Memory(dict[str, Sink]):
        def __setitem__(self, token: str, sink: Sink) -> None:
            asked.append(hub.folder.requests.numbers())
            super().__setitem__(token, sink)

    wanted, memory = Wanted(counts(live).node, hp.write.memory(), "n", "settled", "rows"), Memory()
    token, request = ask(hub.folder, hub.folder.sources, wanted, memory=memory)
    assert asked == [[]] and hub.folder.requests.numbers() == [request] == [0] and memory[token] is wanted.to


# --- what runs --------------------------------------------------------------------------------------------------------


def test_queries_share_and_leave_nothing(tmp_path: Path) -> None:
    """Two hundred changes, and the state is as if none had been."""
    hub = HubRehearsal(tmp_path, [READINGS], shards=1)
    smooth = READINGS.signal("v").sample(1).fir([0.5, 0.5])
    hub.subscribe(smooth, "stays")
    at = 0
    for round_ in range(50):
        names = [f"{round_}-{n}" for n in range(4)]
        hub.subscribe(smooth.events("level").tumble(10 + round_).agg(top=hp.max("level")), names[0])
        hub.subscribe(counts(READINGS), names[1])
        hub.subscribe(smooth.events("level").key_by().tumble(20).agg(n=hp.count()), names[2])
        hub.subscribe(smooth, names[3], "fresh")
        hub.run({0: table(*range(at, at + 30))})
        hub.run({0: table(*range(at + 30, at + 60))})
        stations = [str(n) for n in hub.live[0, hub.labels[0]].pipeline.stations]
        assert sum(n.startswith("Fir") for n in stations) == 2  # one that all share, and the fresh one
        for name in names:
            hub.ask("unsubscribe", name, now=True)
        at += 60
    hub.run({0: table(*range(at, at + 9))})
    hub.run({0: table(*range(at + 9, at + 12))})
    alone = HubRehearsal(tmp_path / "alone", [READINGS], shards=1)
    alone.subscribe(smooth, "stays")
    alone.run({})
    alone.run({0: table(*range(at, at + 9))})
    alone.run({0: table(*range(at + 9, at + 12))})
    for level in range(3):
        found, wanted = (h.state[level, h.labels[0]] for h in (hub, alone))
        assert {p for p in found} == {p for p in wanted}
    assert len(hub.pin.ports) == 1 and len(hub.pin.ended) == 100
    assert len(json.dumps(hub.pin.to_json())) < 100_000


def test_a_query_that_fails_is_dropped_and_the_others_go_on(tmp_path: Path) -> None:
    def broken(values: np.ndarray) -> np.ndarray:
        if values.max() > 5:
            raise ZeroDivisionError("broken by the user")
        return values

    hub = HubRehearsal(tmp_path, [READINGS])
    level = READINGS.signal("v").sample(1)
    hub.subscribe(level.window(4).map(broken), "broken")
    hub.subscribe(level.window(4), "whole")
    hub.run({})
    hub.run({0: table(*range(20))})
    assert [q.name for q in hub.pin.queries] == ["whole"]
    (failed,) = hub.pin.ended
    assert failed["state"] == "failed" and "broken by the user" in failed["error"]["message"]
    hub.run({0: table(*range(20, 40))})
    assert sum(len(t) for t in hub.results[2]) == 8 and not hub.results[1]


def test_what_runs_can_be_read(tmp_path: Path) -> None:
    hub = HubRehearsal(tmp_path, [READINGS])
    smooth = READINGS.signal("v").sample(1).fir([0.5, 0.5])
    hub.subscribe(smooth, "smooth")
    hub.subscribe(smooth.events("level").key_by().tumble(20).agg(n=hp.count()), "counts")
    hub.run({})
    text = explained(hub.folder, hub.pin)
    assert (
        text.count("fir(") == 1 and "; gives smooth" in text and "; gives stage 1" in text and "; gives counts" in text
    )
    assert text.startswith("stage 0:") and "\nstage 1:\n" in text
