"""The simulated match: its rows are as the real ones were measured, and its truth agrees with its rows."""

import gzip

import numpy as np
import pyarrow as pa
import pytest

from hydrophone.apps.soccer import field, rows
from hydrophone.apps.soccer.simulate import Match
from hydrophone.apps.soccer.truth import Truth, distance, lasting
from hydrophone.errors import DataError, ParameterError

PLAYED = Match(seed=7, seconds=240)


@pytest.fixture(scope="module")
def part() -> dict[str, np.ndarray]:
    table = PLAYED.rows(20, 50)
    return {name: table[name].to_numpy() for name in table.column_names}


def of(part: dict[str, np.ndarray], sid: int) -> dict[str, np.ndarray]:
    return {name: column[part["sid"] == sid] for name, column in part.items()}


def test_every_sensor_has_its_own_period_and_holes_stay_on_its_grid(part) -> None:
    assert len(field.SENSORS) == 42
    assert (np.diff(part["ts"]) >= 0).all()
    for sensor in field.SENSORS:
        if sensor.sid == 12:
            continue
        ts = of(part, sensor.sid)["ts"]
        steps = np.diff(ts) / sensor.period
        assert np.abs(steps - np.rint(steps)).max() * sensor.period <= 4_000, sensor
        assert np.median(np.diff(ts)) == pytest.approx(sensor.period, abs=4_000)
    lossy = np.rint(np.diff(of(part, 61)["ts"]) / field.period_of(61))
    assert 2 <= (lossy > 1).sum() <= 20
    rate = len(part["ts"]) / 30
    assert 13_000 < rate < 15_500


def test_the_fourth_ball_comes_in_the_second_half() -> None:
    second = PLAYED.rows(2333.4, 2334.4)["sid"].to_numpy()
    assert set(np.unique(second)) == {s.sid for s in field.SENSORS}


def test_reported_velocity_is_the_movement(part) -> None:
    for sid in (19, 75, 105):
        x = of(part, sid)
        t = (x["ts"] - x["ts"][0]) / field.PS
        reported = np.stack([x["v"] * x[d] * 1e-10 for d in ("vx", "vy")])
        moved = np.stack([(x[d][-1] - x[d][0]) / 1e3 for d in ("x", "y")])
        whole = np.sum((reported[:, 1:] + reported[:, :-1]) / 2 * np.diff(t), axis=1)
        assert np.abs(whole - moved).max() < 0.3  # noise of both ends, and of the sum


def test_directions_have_length_ten_thousand(part) -> None:
    for names in (("vx", "vy", "vz"), ("ax", "ay", "az")):
        length = np.sqrt(sum(part[n].astype(float) ** 2 for n in names))
        assert np.abs(length - 10_000).max() < 2


def test_a_resting_ball_is_outside_the_field_and_noisy(part) -> None:
    lying = of(part, 12 if 12 in part["sid"] else 10)
    assert lying["x"].max() < 0
    assert 15e6 < lying["a"].max() < 60e6
    assert np.median(lying["v"]) < 0.2e6


def test_legs_stride_about_the_speed_of_the_body(part) -> None:
    player = 3
    left, right = of(part, 19), of(part, 52)
    mean = (left["v"].mean() + right["v"].mean()) / 2e6
    body = distance(PLAYED.halves[0].bodies, player, 20, 50) / 30
    assert mean == pytest.approx(body, rel=0.15)
    assert left["v"].std() / 1e6 > 0.5 * body


def test_hits_are_where_legs_are_and_seen_in_the_velocity() -> None:
    hits = [h for h in Truth(PLAYED).hits().to_pylist() if h["change"] > 6][:8]
    assert len(hits) == 8
    for hit in hits:
        t = (hit["ts"] - field.KICK_OFFS[0]) / field.PS
        near = PLAYED.rows(t - 0.05, t + 0.05)
        at = {n: near[n].to_numpy() for n in near.column_names}
        ball, leg = of(at, hit["ball"]), of(at, hit["sensor"])
        now, foot = (np.argmin(np.abs(s["ts"] - hit["ts"])) for s in (ball, leg))
        far = np.hypot(ball["x"][now] - leg["x"][foot], ball["y"][now] - leg["y"][foot])
        assert far < 500
        before = ball["ts"] < hit["ts"] - 8e9
        after = ball["ts"] > hit["ts"] + 8e9
        assert np.median(ball["v"][before]) / 1e6 == pytest.approx(hit["before"], abs=1.2)
        assert np.median(ball["v"][after]) / 1e6 == pytest.approx(hit["after"], abs=1.2)


def test_three_in_ten_sudden_changes_are_no_hits_and_one_hit_in_twenty_is_blind() -> None:
    truth = Truth(Match(seed=11, seconds=600))
    hits, others = truth.hits(), truth.others()
    sudden = int((hits["change"].to_numpy() >= 2).sum())
    assert others.num_rows / (others.num_rows + sudden) == pytest.approx(0.3, abs=0.02)
    assert np.mean(hits["blind"].to_numpy()) == pytest.approx(0.05, abs=0.02)
    kinds = set(others["kind"].to_pylist())
    assert {"bounce", "board", "throw", "glitch"} <= kinds
    assert truth.shots().num_rows > 4
    assert {"out", "foul"} <= set(truth.interruptions()["kind"].to_pylist())


def test_possession_and_interruptions_are_in_order() -> None:
    truth = Truth(PLAYED)
    owned = truth.possession()
    start, end = owned["start"].to_numpy(), owned["end"].to_numpy()
    assert (start <= end).all() and (end[:-1] <= start[1:]).all()
    assert sum(owned["hits"].to_pylist()) == truth.hits().num_rows
    for stop in truth.interruptions().to_pylist():
        assert not ((start < stop["end"]) & (end > stop["start"])).any()


def test_intensities_and_cells_cover_the_whole_half() -> None:
    truth = Truth(Match(seed=3, seconds=30))
    runs = truth.intensity().to_pylist()
    for player in field.PLAYERS:
        mine = [r for r in runs if r["player"] == player]
        assert sum(r["end"] - r["start"] for r in mine) == pytest.approx(60e12, abs=100)
    seen = {r["status"] for r in truth.intensity(at_least=0.0).to_pylist()}
    assert seen == set(field.INTENSITIES)
    fine, coarse = truth.cells((64, 100)), truth.cells((32, 50))
    times = [(c["end"].to_numpy() - c["start"].to_numpy()).sum() for c in (fine, coarse)]
    assert times[0] == pytest.approx(times[1], abs=1e6)
    # The cell agrees with the place of the body, taken independently on a fine clock.
    half = truth.match.halves[0]
    t = np.arange(0.0005, 30, 0.01)
    place = half.bodies.place(t, 5)
    column = np.floor(place[:, 0] / (field.X[1] - field.X[0]) * 64).astype(int)
    mine = [r for r in fine.to_pylist() if r["player"] == field.PLAYERS[5] and r["start"] < field.KICK_OFFS[1]]
    ends = np.array([r["end"] for r in mine]) - field.KICK_OFFS[0]
    assert (column == np.array([r["column"] for r in mine])[np.searchsorted(ends, t * 1e12)]).all()


def test_speeds_lie_in_their_bands() -> None:
    half = Match(seed=5, seconds=30).halves[0]
    runs = [r for r in Truth(half.match).intensity(at_least=0.0).to_pylist() if r["player"] == "A4"]
    for run in [r for r in runs if r["start"] < field.KICK_OFFS[1]]:
        t = np.linspace(run["start"] - field.KICK_OFFS[0], run["end"] - field.KICK_OFFS[0], 50)[1:-1] / 1e12
        place = half.bodies.place(np.stack([t - 1e-6, t + 1e-6]), 4)
        speed = np.linalg.norm(place[1] - place[0], axis=-1) / 2e-6 * 3.6
        band = field.INTENSITIES.index(run["status"])
        low, high = (0, *field.BANDS)[band], (*field.BANDS, 99)[band]
        assert (speed > low - 1e-3).all() and (speed < high + 1e-3).all()


def test_short_runs_count_onto_the_next() -> None:
    assert lasting([(0, 2, 1), (2, 2.8, 2), (2.8, 4.8, 3)], 1.0) == [(0, 2, 1), (2, 4.8, 3)]
    assert lasting([(0, 2, 1), (2, 2.8, 2), (2.8, 4.8, 1)], 1.0) == [(0, 4.8, 1)]
    assert lasting([(0, 0.5, 1), (0.5, 0.9, 2)], 1.0) == [(0, 0.9, 2)]


def test_a_part_is_the_same_as_in_the_whole() -> None:
    whole = PLAYED.rows(0, 25)
    ts = whole["ts"].to_numpy()
    low, high = (field.KICK_OFFS[0] + int(t * 1e12) for t in (7.5, 13.25))
    cut = whole.filter(pa.array((ts >= low) & (ts < high)))
    assert PLAYED.rows(7.5, 13.25).combine_chunks().equals(cut.combine_chunks())
    assert not PLAYED.rows(0, 1).equals(Match(seed=8, seconds=240).rows(0, 1))


def test_balls_can_fail_as_the_real_one_did(monkeypatch) -> None:
    monkeypatch.setattr(field, "BALL_FAILS", 14.0)
    part = Match(seed=1, seconds=30, ball_fails=True).rows(12, 16)
    sid, ts = part["sid"].to_numpy(), part["ts"].to_numpy()
    ball = np.isin(sid, field.BALLS)
    assert (ts[ball].max() - field.KICK_OFFS[0]) / field.PS == pytest.approx(14, abs=0.001)
    assert (ts[~ball].max() - field.KICK_OFFS[0]) / field.PS == pytest.approx(16, abs=0.001)


@pytest.mark.parametrize("bad", [{"seconds": 1}, {"seconds": 5000}, {"noise": -1}, {"noise": float("nan")}])
def test_matches_that_cannot_be(bad) -> None:
    with pytest.raises(ParameterError, match="Match"):
        Match(**bad)


# --- rows -----------------------------------------------------------------------------------------------------------------

ROW = "4,10753295594424116,27187,-405,451,5053947,341072227,-1830,9748,1268,-4018,9154,198"


@pytest.mark.parametrize("suffix", ["csv", "csv.gz"])
def test_what_is_written_is_read(tmp_path, suffix) -> None:
    path = tmp_path / f"game.{suffix}"
    part = PLAYED.rows(0, 1)
    if suffix == "csv":
        assert PLAYED.write(path, 0, 1) == part.num_rows
    else:
        PLAYED.write(tmp_path / "game.csv", 0, 1)
        path.write_bytes(gzip.compress((tmp_path / "game.csv").read_bytes()))
    assert pa.concat_tables(rows.read(path)).combine_chunks().equals(part.combine_chunks())
    assert next(rows.read(path, fields=("ts", "sid"))).column_names == ["ts", "sid"]


def test_blocks_cut_anywhere(tmp_path, monkeypatch) -> None:
    path = tmp_path / "game.csv"
    path.write_text("\r\n".join([ROW] * 7))  # the last line has no end
    for size in (1, 13, 84, 85, 86, 1000):
        monkeypatch.setattr(rows, "BLOCK_BYTES", size)
        table = pa.concat_tables(rows.read(path))
        assert table.to_pylist() == [dict(zip(rows.FIELDS, map(int, ROW.split(",")), strict=True))] * 7


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (ROW + ",1", "14 fields instead of 13"),
        (ROW.rpartition(",")[0], "12 fields instead of 13"),
        ("", "no fields"),
        (ROW.replace("-405", "-4o5"), "y is no integer: '-4o5'"),
        (ROW.replace("-405", ""), "y is no integer: ''"),
        (ROW.replace("-405", "-"), "y is no integer: '-'"),
        (ROW.replace("-405", "1.5"), "y is no integer: '1.5'"),
        (ROW.replace("5053947", "9" * 20), "v has more than 18 digits"),
        (ROW.replace("4,", "5,", 1), "no sensor has the id 5"),
        (ROW.replace("4,", "-4,", 1), "no sensor has the id -4"),
        (ROW.replace("4,", "4000,", 1), "no sensor has the id 4000"),
    ],
)
def test_broken_rows_are_named_by_file_and_line(tmp_path, monkeypatch, line, says) -> None:
    path = tmp_path / "broken.csv"
    path.write_text("\n".join([ROW, ROW, line, ROW]) + "\n")
    for size in (90, 1 << 20):
        monkeypatch.setattr(rows, "BLOCK_BYTES", size)
        with pytest.raises(DataError, match=r"broken\.csv, line 3: ") as error:
            list(rows.read(path))
        assert says in str(error.value)


def test_unknown_sensors_can_be_dropped_and_empty_files_are_empty(tmp_path) -> None:
    path = tmp_path / "game.csv"
    path.write_text("\n".join([ROW, ROW.replace("4,", "5,", 1), ROW]))
    assert sum(t.num_rows for t in rows.read(path, unknown="drop")) == 2
    path.write_text("")
    assert list(rows.read(path)) == []
    with pytest.raises(ParameterError, match="no field 'speed'"):
        list(rows.read(path, fields=("speed",)))
    with pytest.raises(FileNotFoundError):
        list(rows.read(tmp_path / "none.csv"))
