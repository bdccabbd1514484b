"""Queries of the match, each in a process of its own over one ring: the rows of the run in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.connect.ring_processes import Child, run_query

import hydrophone as hp
from hydrophone.apps.soccer.queries import legs, paces
from hydrophone.apps.soccer.simulate import Match


def rows(*found: dict[str, list[Any]]) -> list[tuple[Any, ...]]:
    return sorted((row for one in found for row in zip(*one.values(), strict=True)), key=repr)


@pytest.mark.soak
def test_queries_in_processes_of_their_own_give_the_rows_of_this_one(tmp_path: Path) -> None:
    """Running analysis in two shares of the players."""
    players, path = legs(Match(seed=1, seconds=20).blocks(0, 3)), str(tmp_path / "ring")
    shares = [Child(run_query, path, paces, (i, 2)) for i in range(2)]
    with hp.Graph() as graph:
        subscription = graph.subscribe(players, hp.write.ring(path, size="4MB", readers=2, patience="2min"))
        graph.run()
        assert subscription.error is None
    parts = [share.hear(120) for share in shares]
    expected = rows(paces(players).to_arrow().to_pydict())
    assert rows(*parts) == expected and len(expected) > 16
