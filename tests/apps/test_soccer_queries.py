"""Queries over a simulated part of a match, against its truth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hydrophone as hp
from hydrophone.apps.soccer import field, game, queries
from hydrophone.apps.soccer.simulate import Match
from hydrophone.apps.soccer.truth import Truth
from hydrophone.errors import ParameterError

MATCH = Match(seed=21, seconds=40)
SECONDS = 24
AT = np.arange(1.0, SECONDS - 1, 0.01)


@pytest.fixture(scope="module")
def players() -> hp.Stream:
    return queries.legs(game.from_tables(MATCH.blocks(0, SECONDS)))


def over_time(rows: list[dict[str, Any]], status: Any, scale: int, start: str) -> np.ndarray:
    """The status of every player on a fine clock."""
    out = np.full((len(field.PLAYERS), len(AT)), "", object)
    for r in rows:
        low, high = ((r[n] * scale - field.KICK_OFFS[0]) / field.PS for n in (start, "end"))
        first, last = np.searchsorted(AT, [low, high])
        out[field.PLAYERS.index(r["player"]), first:last] = status(r)
    return out


def test_running_agrees_with_the_truth(players) -> None:
    """The mean of a second blurs what lasts little longer than one: most of the time agrees, and the distance is right."""
    found, true = queries.paces(players).to_arrow().to_pylist(), Truth(MATCH).intensity().to_pylist()
    mine, real = (over_time(r, lambda x: x["status"], *how) for r, how in ((found, (1000, "t")), (true, (1, "start"))))
    assert np.mean(mine == real) > 0.7
    near = np.abs(np.vectorize(_band)(mine) - np.vectorize(_band)(real)) <= 1
    assert np.mean(near) > 0.9
    assert np.mean(mine == "") == 0


def _band(status: str) -> int:
    return field.INTENSITIES.index(status) if status else -9


def test_running_totals_are_those_of_the_frames(players) -> None:
    frames, totals = queries.paces(players).to_arrow().to_pandas(), queries.running(players).to_arrow().to_pandas()
    game = totals[totals.window.isna()].sort_values("t").groupby(["player", "status"]).last()
    frames["time"] = frames.end - frames.t
    want = frames.groupby(["player", "status"])[["time", "distance"]].sum()
    assert (game.time == want.time.loc[game.index]).all()
    assert np.allclose(game.distance, want.distance.loc[game.index])
    assert set(totals.window.dropna()) == {60e9, 300e9, 1200e9}


def test_cells_agree_with_the_truth(players) -> None:
    grid = field.GRIDS[1]
    found, true = queries.visits(players, grid).to_arrow().to_pylist(), Truth(MATCH).cells(grid).to_pylist()
    mine = over_time(found, lambda x: x["status"], 1000, "t")
    real = over_time(true, lambda x: x["row"] * grid[0] + x["column"], 1, "start")
    assert np.mean(mine == real) > 0.93
    spent = queries.heat_map(players, grid).to_arrow().to_pandas()
    last = spent[(spent.player == "A3") & spent.window.isna()]
    assert last.sort_values("t").groupby("status").time.last().sum() == sum(
        r["end"] - r["t"] for r in found if r["player"] == "A3"
    )


def test_streams_give_the_same_frames(players) -> None:
    query = queries.paces(players)
    pieces = [p for p in query.batches(rows=20_000) if len(p)]
    assert len(pieces) > 3
    order = [("player", "ascending"), ("t", "ascending")]
    live, batch = pa.concat_tables(pieces).sort_by(order), query.to_arrow().sort_by(order)
    assert live.drop_columns(["distance"]).equals(batch.drop_columns(["distance"]))
    # The means below are summed as rows arrive, so that their last digits depend on the batches.
    assert np.allclose(live["distance"].to_numpy(), batch["distance"].to_numpy(), rtol=1e-12)


def test_grids_are_those_of_the_challenge(players) -> None:
    with pytest.raises(ParameterError, match="no grid of"):
        queries.heat_map(players, (3, 3))
