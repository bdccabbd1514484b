"""Rings of several processes: whoever is killed, at whatever moment, the others lose nothing and nobody hangs."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from tests.connect.ring_processes import Child, answer, read, soccer_like, write

import hydrophone as hp

MESSAGES = 500


@pytest.mark.parametrize("deaths", [2, pytest.param(100, marks=[pytest.mark.soak, pytest.mark.timeout(1200)])])
def test_a_reader_that_is_killed_is_dropped_and_the_others_lose_nothing(deaths: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(deaths)
    for number in range(deaths):
        path = tmp_path / f"ring{number}"
        writer = Child(write, path, 3, 0, MESSAGES)
        readers = [
            Child(read, path, "error", pause) for pause in (0.005, 0.0, 0.0)
        ]  # the first is slow: it is in the way
        assert [r.hear() for r in readers] == ["ready"] * 3 and writer.hear() == "writing"
        time.sleep(rng.uniform(0, 0.15))
        readers[0].kill()
        for reader in readers[1:]:
            assert reader.hear() == (list(range(MESSAGES)), "closed")
        assert writer.hear() in (
            (1, 0),
            (0, 0),
        )  # none where it had read everything, or its place was not needed any more
        assert not path.exists()


@pytest.mark.parametrize("deaths", [2, pytest.param(100, marks=[pytest.mark.soak, pytest.mark.timeout(1200)])])
def test_a_writer_that_is_killed_is_noticed_and_what_it_published_is_read(deaths: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(deaths)
    for number in range(deaths):
        path = tmp_path / f"ring{number}"
        writer = Child(write, path, 2, 0, None)
        readers = [Child(read, path) for _ in range(2)]
        assert [r.hear() for r in readers] == ["ready"] * 2 and writer.hear() == "writing"
        time.sleep(rng.uniform(0, 0.15))
        writer.kill()
        heard = [r.hear() for r in readers]
        for numbers, ended in heard:
            assert numbers == list(range(len(numbers))) and "has ended without closing" in ended
        assert len(heard[0][0]) == len(heard[1][0])


@pytest.mark.parametrize("deaths", [2, pytest.param(100, marks=[pytest.mark.soak, pytest.mark.timeout(1200)])])
def test_readers_that_wait_go_on_with_a_new_writer(deaths: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(deaths)
    for number in range(deaths):
        path = tmp_path / f"ring{number}"
        first = Child(write, path, 2, 0, None)
        waiting, strict = Child(read, path, "wait"), Child(read, path, "error")
        assert [waiting.hear(), strict.hear(), first.hear()] == ["ready", "ready", "writing"]
        time.sleep(rng.uniform(0, 0.1))
        first.kill()
        second = Child(write, path, 1, 1_000_000, 300)
        assert second.hear() == "writing"
        numbers, ended = waiting.hear()
        assert ended == "closed" and numbers[-300:] == list(range(1_000_000, 1_000_300))
        assert numbers[:-300] == list(range(len(numbers) - 300))
        before, said = strict.hear()
        assert before == numbers[:-300] and (
            "has ended without closing" in said or "another writer has taken over" in said
        )
        second.hear()


def test_a_ring_of_a_writer_that_was_killed_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "ring"
    writer, reader = Child(write, path, 1, 0, None), Child(read, path)
    assert [reader.hear(), writer.hear()] == ["ready", "writing"]
    writer.kill()
    reader.hear()
    assert path.exists()
    late = Child(read, path)  # waits for a writer
    new = Child(write, path, 1, 0, 10)
    assert [late.hear(), new.hear()] == ["ready", "writing"]
    assert late.hear() == (list(range(10)), "closed") and new.hear() == (0, 0)


def test_a_query_in_other_processes_gives_the_same_rows(tmp_path: Path) -> None:
    """As one query over all keys, and as shares of the keys."""
    path = str(tmp_path / "ring")
    made = hp.read.synthetic("1ms", rows=900, keys=11, arrivals="poisson")
    whole, first, second = (Child(soccer_like, path, share) for share in (None, (0, 2), (1, 2)))
    with hp.Graph(rows=100) as graph:
        subscription = graph.subscribe(made, hp.write.ring(path, size="1MB", readers=3))
        graph.run()
        assert subscription.error is None
    expected = answer(made).to_arrow().to_pydict()

    def rows(*found: dict[str, list[object]]) -> list[tuple[object, ...]]:
        return sorted(row for one in found for row in zip(*one.values(), strict=True))

    parts = first.hear(), second.hear()
    assert all(parts_["n"] for parts_ in parts)
    assert rows(whole.hear()) == rows(*parts) == rows(expected)
