"""Hits, possession and shots on a simulated part of a match: against the truth, plain Python, any chunks, and broken sensors."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hydrophone as hp
from hydrophone.apps.soccer import challenge, field, game, hits, possession, shots
from hydrophone.apps.soccer.rows import Writer
from hydrophone.apps.soccer.score import compare, found_hits, found_shots, true_hits, true_shots
from hydrophone.apps.soccer.simulate import Match
from hydrophone.apps.soccer.truth import Truth
from hydrophone.errors import DataError
from hydrophone.plan.data import Times

SECONDS = 45
MATCH = Match(seed=103, seconds=100)
TRUTH = Truth(MATCH)
NS = field.KICK_OFFS[0] // 1000
UNTIL = field.KICK_OFFS[0] + SECONDS * field.PS


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return pa.concat_tables(MATCH.blocks(-1, SECONDS)).combine_chunks()


@pytest.fixture(scope="module")
def struck(table) -> pa.Table:
    return hits.hits(game.from_tables([table])).to_arrow().sort_by("t")


def stops(*seconds: tuple[float, float]) -> pa.Table:
    start, end = (
        ([field.KICK_OFFS[0] + round(s * field.PS) for s in x] for x in zip(*seconds, strict=True))
        if seconds
        else ([], [])
    )
    return pa.table({"start": pa.array(start, pa.int64()), "end": pa.array(end, pa.int64())})


def everything(table: pa.Table, stopped: pa.Table) -> dict[str, hp.Stream]:
    match, breaks = game.from_tables([table]), game.interruptions(stopped)
    return {
        "players": possession.of_players(match, breaks),
        "list": possession.possessions(match, breaks),
        "teams": possession.of_teams(match, breaks),
        "attempts": shots.attempts(match),
        "shots": shots.shots(match),
    }


def ordered(table: pa.Table) -> pa.Table:
    return table.combine_chunks().sort_by([(n, "ascending") for n in table.column_names])


# --- hits -----------------------------------------------------------------------------------------------------------------


def test_sensors_are_told_apart_by_their_ids() -> None:
    every = game.from_tables(
        [pa.table({n: [s.sid for s in field.SENSORS] if n == "sid" else [0] * 42 for n in game.SCHEMA.names[1:]})]
    )
    assert sorted(game.balls(every).to_arrow()["sid"].to_pylist()) == sorted(field.BALLS)
    worn = {s.sid for s in field.SENSORS if 0 <= s.body < 16 and s.limb.endswith("leg")}
    assert set(game.legs(every).to_arrow()["sid"].to_pylist()) == worn == set(hits.LEGS["leg"].to_pylist())


def beside_a_leg(columns: dict[int, dict[str, np.ndarray]], sid: int) -> list[tuple[int, float, str]]:
    """Sudden changes of a ball's speed within a metre of a leg: when, how far, and whose."""
    worn = dict(zip(hits.LEGS["leg"].to_pylist(), hits.LEGS["player"].to_pylist(), strict=True))
    ball = columns[sid]
    inside = (ball["x"] >= 0) & (ball["x"] <= 52_483) & (ball["y"] >= -33_960) & (ball["y"] <= 33_965)
    ball = {n: v[inside] for n, v in ball.items()}
    ns = ball["ts"] // 1000
    if len(ns) < 2:
        return []
    grid = np.arange(-(-ns[0] // 10**6), ns[-1] // 10**6 + 1) * 10**6
    after = np.searchsorted(ns, grid)
    near = (ns[after] - ns[np.maximum(after - 1, 0)] <= 20 * 10**6) & (after > 0) | (ns[after] == grid)
    speed = np.where(near, np.interp(grid, ns, ball["v"]), np.nan)
    change = speed[15:] - speed[:-15]
    found = []
    for t in grid[np.flatnonzero((change >= 5e6) | (change <= -2e6)) + 15].tolist():
        here = np.searchsorted(ns, t, side="right") - 1
        for leg, player in worn.items():
            times = columns[leg]["ts"] // 1000
            foot = np.searchsorted(times, t, side="right") - 1
            if foot >= 0 and t - times[foot] <= 10**8:
                away = np.sqrt(sum(float(ball[a][here] - columns[leg][a][foot]) ** 2 for a in "xyz"))
                found += [(t, away, player)] if away < 1_000 else []
    return found


def test_hits_are_those_of_a_loop_over_the_rows(table, struck) -> None:
    """As the paper says it: speed 15 ms ago, nearest leg within a metre, half a second of blind eye."""
    rows = {s.sid: table.filter(pc.equal(table["sid"], s.sid)) for s in field.SENSORS}
    columns = {sid: {n: t[n].to_numpy() for n in ("ts", "x", "y", "z", "v")} for sid, t in rows.items()}
    found: list[tuple[int, str]] = []
    for t, _, player in sorted(x for sid in field.BALLS for x in beside_a_leg(columns, sid)):
        if not found or t - found[-1][0] >= 5e8:
            found.append((t, player))
    assert len(found) > 20
    assert list(zip(struck["t"].to_pylist(), struck["player"].to_pylist(), strict=True)) == found


def test_hits_and_shots_agree_with_the_truth(table, struck) -> None:
    score = compare(found_hits(struck), true_hits(TRUTH, UNTIL))
    assert score.true > 20
    assert score.precision > 0.9
    assert score.recall > 0.85
    attempts = shots.attempts(game.from_tables([table])).to_arrow()
    score = compare(found_shots(attempts), true_shots(TRUTH, UNTIL))
    assert score.recall == 1


# --- possession -----------------------------------------------------------------------------------------------------------


def test_possession_is_that_of_a_loop_over_hits(table, struck) -> None:
    breaks = [(12.0, 18.0), (16.0, 20.0), (31.0, 34.0)]  # the first two overlap
    found = {n: q.to_arrow() for n, q in everything(table, stops(*breaks)).items()}
    lost = possession.leaving(game.from_tables([table])).to_arrow()["t"].to_pylist()
    ends = sorted([*lost, *(NS + round(s * 1e9) for s, _ in breaks)])
    held: dict[str, float] = {}
    count: dict[str, int] = {}
    before: tuple[str, int] | None = None
    for t, player in zip(struck["t"].to_pylist(), struck["player"].to_pylist(), strict=True):
        if any(NS + a * 1e9 <= t < NS + b * 1e9 for a, b in breaks):
            continue
        count[player] = count.get(player, 0) + 1
        if before and before[0] == player and not any(before[1] < e <= t for e in ends):
            held[player] = held.get(player, 0) + (t - before[1]) / 1e6
        before = (player, t)
    last = {r["player_id"]: r for r in found["players"].sort_by("t").to_pylist()}
    assert {p: r["hits"] for p, r in last.items()} == count
    assert all(last[p]["time"] == pytest.approx(held.get(p, 0.0)) for p in count)
    game_long = found["teams"].filter(pc.is_null(found["teams"]["window"])).sort_by("t").to_pylist()[-2:]
    teams = {r["team_id"]: r for r in game_long}
    for team in "AB":
        mine = (
            sum(v for p, v in held.items() if p in field.PLAYERS[:8])
            if team == "A"
            else sum(v for p, v in held.items() if p in field.PLAYERS[8:])
        )
        assert teams[team]["time"] == pytest.approx(mine)
    assert sum(r["time_percent"] for r in game_long) == pytest.approx(100)
    spans = found["list"].sort_by("t").to_pylist()
    assert all(a["end"] <= b["t"] for a, b in itertools.pairwise(spans))
    assert sum(r["readings"] for r in spans) == sum(count.values())


def test_shots_end_with_the_next_hit_and_have_the_columns_of_the_challenge(table, struck) -> None:
    found = shots.shots(game.from_tables([table])).to_arrow()
    assert len(found) > 100
    assert set(shots.COLUMNS) < set(found.column_names)
    hit_times = struck["t"].to_numpy()
    latest = hit_times[np.searchsorted(hit_times, found["t"].to_numpy(), side="right") - 1]
    assert (found["hit"].to_numpy() == latest).all()
    assert (found["t"].to_numpy() - found["hit"].to_numpy() < 1.5e9).all()
    rows = found.to_pandas()
    up = rows["vy"] > 0
    line = np.where(up, 33_941, -33_968)
    left = (line - rows.y) / (rows.v * rows.vy * 1e-7)
    across, height = rows.x + left * rows.v * rows.vx * 1e-7, rows.z + left * rows.v * rows.vz * 1e-7
    assert ((left > 0) & (height < 2440) & (across > 22_560) & (across < 29_899)).all()
    assert (up == rows.player_id.str.contains("A")).all()  # in the first half team A attacks towards positive y


@pytest.mark.parametrize("rows", [20_011])
def test_chunks_change_nothing(table, rows) -> None:
    part = table.slice(0, 110_000)
    for name, query in everything(part, stops((2.0, 3.0))).items():
        whole = ordered(query.to_arrow())
        pieces = [p for p in query.batches(rows=rows) if len(p)]
        assert (ordered(pa.concat_tables(pieces)).equals(whole)) if pieces else not len(whole), name


def test_all_four_at_once_are_the_same_as_one_by_one(table, tmp_path) -> None:
    part = table.slice(0, 70_000)
    path = tmp_path / "game.csv"
    with Writer(path) as out:
        out.write(part)
    results = challenge.four(game.from_file(path), game.interruptions(stops((2.0, 3.0))))
    together = challenge.collect(results, rows=30_000)
    for name, query in challenge.four(game.from_tables([part]), game.interruptions(stops((2.0, 3.0)))).items():
        assert ordered(together[name]).equals(ordered(query.to_arrow())), name


# --- bad input ------------------------------------------------------------------------------------------------------------


def without(table: pa.Table, sensors: set[int], start: float, end: float) -> pa.Table:
    ts, sid = table["ts"].to_numpy(), table["sid"].to_numpy()
    at = (ts - field.KICK_OFFS[0]) / field.PS
    return table.filter(pa.array(~(np.isin(sid, list(sensors)) & (at >= start) & (at < end))))


def test_a_ball_that_stops_sending_is_not_hit(table, struck) -> None:
    quiet = hits.hits(game.from_tables([without(table, set(field.BALLS), 20, 40)])).to_arrow().sort_by("t")
    at = (quiet["t"].to_numpy() - NS) / 1e9
    assert not ((at > 20) & (at < 40)).any()
    before = [r for r in struck.to_pylist() if r["t"] < NS + 20e9]
    assert quiet.to_pylist()[: len(before)] == before


def test_who_has_silent_legs_hits_nothing(table, struck) -> None:
    """A leg whose last place is older than 100 ms is nowhere; the other leg still hits."""
    first = struck.to_pylist()[3]
    mine = {
        s.sid
        for s in field.SENSORS
        if s.limb.endswith("leg") and 0 <= s.body < 16 and field.PLAYERS[s.body] == first["player"]
    }
    found = hits.hits(game.from_tables([without(table, mine, 0, SECONDS)])).to_arrow()
    late = [r for r in found.to_pylist() if r["t"] > NS + 2e8]
    assert first["player"] not in {r["player"] for r in late}


def test_missing_rows_hardly_matter(table) -> None:
    """Sensors lose rows: with every second one of all gone, the same hits are found."""
    thin = table.filter(pa.array(np.random.default_rng(1).random(len(table)) < 0.5))
    score = compare(found_hits(hits.hits(game.from_tables([thin])).to_arrow()), true_hits(TRUTH, UNTIL))
    assert score.precision > 0.9
    assert score.recall > 0.85


def test_unknown_sensors_are_nobody(table, struck) -> None:
    other = table.filter(pc.equal(table["sid"], 105))
    foreign = other.set_column(0, "sid", pa.array(np.full(len(other), 200), pa.int64()))
    both = pa.concat_tables([table, foreign]).sort_by("ts")
    assert hits.hits(game.from_tables([both])).to_arrow().sort_by("t").equals(struck)


def test_times_that_go_back_are_refused(tmp_path, table) -> None:
    path = tmp_path / "game.csv"
    MATCH.write(path, 0, 0.2)
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[1000:], *lines[:1000]]) + "\n")
    with pytest.raises(DataError, match="times go back to 107532"):
        game.from_file(path).to_arrow()


def test_interruptions_that_end_before_they_begin_are_refused() -> None:
    with pytest.raises(DataError, match="1 end before they begin"):
        game.interruptions(stops((3.0, 2.0)))


# --- the file as a source -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Any:
    path = tmp_path_factory.mktemp("soccer") / "game.csv"
    MATCH.write(path, 0, 3)
    return path


def test_pieces_of_a_file_are_the_whole(path, monkeypatch) -> None:
    whole = game.from_file(path).to_arrow()
    assert len(whole) > 35_000
    assert (whole["t"].to_numpy() == whole["ts"].to_numpy() // 1000).all()
    monkeypatch.setattr(game, "PIECE_BYTES", 100_003)
    data = game.GameData(str(path))
    pieces = data.pieces(list(game.SCHEMA.names), Times("t"))
    assert len(pieces) > 20
    got = []
    for piece in pieces:
        part = pa.concat_tables(data.read(piece.unit, [piece.number], ["t", "sid"]))
        t = part["t"].to_numpy()
        assert piece.low == t[0]
        assert piece.high > t[-1]
        got.append(part)
    assert (
        pa.concat_tables(got)["t"].to_numpy().tolist()
        == pa.concat_tables(data.read(pieces[0].unit, None, ["t"]))["t"].to_numpy().tolist()
    )


def test_a_broken_row_in_a_piece_is_named_by_its_line_in_the_file(path, tmp_path, monkeypatch) -> None:
    lines = path.read_text().splitlines()
    lines[30_000] = lines[30_000].replace(",", ";", 1)
    broken = tmp_path / "broken.csv"
    broken.write_text("\n".join(lines) + "\n")
    monkeypatch.setattr(game, "PIECE_BYTES", 500_000)
    data = game.GameData(str(broken))
    with pytest.raises(DataError, match=r"broken\.csv, line 30001: 12 fields"):
        for piece in data.pieces(["t"], Times("t")):
            list(data.read(piece.unit, [piece.number], ["t"]))
