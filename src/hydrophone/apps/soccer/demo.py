"""Soccer: simulate a match, run the four queries in this process and on Spark, compare, score and draw."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from hydrophone.apps.report import Report, picture_path
from hydrophone.apps.soccer import challenge, field, game, pictures
from hydrophone.apps.soccer.evaluate import GRID, judge, results
from hydrophone.apps.soccer.simulate import Match
from hydrophone.apps.soccer.truth import Truth
from hydrophone.cli.progress_bar import working
from hydrophone.engine.emit import result_schema
from hydrophone.errors import ParameterError


def main(arguments: list[str] | None = None) -> int:
    """Run the demo; the exit code says whether Spark and this process agreed."""
    options = _options(arguments)
    match = Match(seed=options.seed, seconds=max(options.seconds + 60, 60), noise=options.noise)
    with tempfile.TemporaryDirectory(prefix="hydrophone-soccer-") as folder:
        return _run(match, options, Path(folder))


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="hydrophone demo soccer", description=__doc__)
    parser.add_argument("--seconds", type=int, default=180, help="how much is played (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=123, help="another seed is another match (default: %(default)s)")
    parser.add_argument(
        "--noise", type=float, default=1.0, help="of the sensors, 1 is as measured (default: %(default)s)"
    )
    parser.add_argument("--picture", type=picture_path, default=Path("soccer.png"), help="default: %(default)s")
    parser.add_argument("--score", action="store_true", help="only score: no Spark, no picture")
    parser.add_argument(
        "--replay", type=float, metavar="TIMES", help="play at so many times real time, with a bar; no Spark"
    )
    options = parser.parse_args(arguments)
    if not 10 <= options.seconds <= field.HALF_SECONDS[1] - 60:
        parser.error(f"--seconds: from 10 to {field.HALF_SECONDS[1] - 60:.0f}, got {options.seconds}")
    if options.replay is not None and options.replay <= 0:
        parser.error(f"--replay: must be above 0, got {options.replay}")
    return options


def _run(match: Match, options: argparse.Namespace, folder: Path) -> int:
    print("Hydrophone demo: a soccer match, seen by the sensors of players and balls")
    print("  simulating ...", flush=True)
    path, stops = folder / "game.csv", Truth(match).interruptions()
    count = match.write(path, -1, options.seconds + 1)
    report = Report([])
    report.add("rows", f"{count:,} of {options.seconds} s, seed {match.seed}")
    if options.replay is not None:
        found = replay(match, options.seconds, options.replay)
    else:
        with report.timed("in this process, parsing included", count, "rows"):
            found = challenge.collect(results(game.from_file(path), game.interruptions(stops)))
    same = True
    if not options.score and options.replay is None:
        same = _on_spark(path, stops, found, count, report)
    if not options.score:
        minutes = f"{options.seconds // 60}:{options.seconds % 60:02} minutes"
        pictures.draw(
            options.picture, found, GRID, options.seconds, f"{minutes} of a simulated match, seed {match.seed}"
        )
        report.add("picture", str(options.picture))
    report.show()
    print()
    for line in standings(found):
        print(f"  {line}")
    print()
    for line in judge(match, options.seconds, found).lines():
        print(f"  {line}")
    return 0 if same else 1


def _on_spark(path: Path, stops: pa.Table, found: dict[str, pa.Table], rows: int, report: Report) -> bool:
    """The same queries on Spark, and whether they give the same rows."""
    from hydrophone.spark.quiet_start import quiet_start
    from hydrophone.spark.session import session

    print("  starting Spark ...", flush=True)
    with quiet_start():
        spark = session("hydrophone demo")
        spark.sparkContext.setLogLevel("ERROR")
    same = True
    for name, query in results(game.from_file(path), game.interruptions(stops)).items():
        with report.timed(f"on Spark: {name}", rows, "rows"):
            answer = pa.table(query.to_spark(spark, shards=2).toArrow())
        equal = _rows(answer.cast(found[name].schema)) == _rows(found[name])
        report.add("  against this process", f"{'equal' if equal else 'DIFFERENT'}, {len(answer):,} rows")
        same &= equal
    spark.stop()
    return same


def _rows(table: pa.Table) -> list[dict[str, Any]]:
    return table.sort_by([(name, "ascending") for name in table.column_names]).to_pylist()


def replay(match: Match, seconds: float, speed: float) -> dict[str, pa.Table]:
    """Play a match at a multiple of real time, and say what happens as it happens.

    Examples
    --------
    >>> from hydrophone.apps.soccer.demo import replay
    >>> from hydrophone.apps.soccer.simulate import Match
    >>> sorted(replay(Match(seed=1, seconds=20), 2, 1000.0))
        0:00  A6 hits the ball
        0:02  B7 hits the ball
        0:02  B7 hits the ball
    ['attempts', 'hits', 'paces', 'possessions', 'visits']
    """
    import hydrophone as hp

    if speed <= 0:
        raise ParameterError(f"replay: speed must be above 0, got {speed}")
    source = hp.from_arrow(game.SCHEMA, key="sid", time="t", progress=hp.ordered(), name="match")
    queries = results(source, game.interruptions(Truth(match).interruptions()))
    parts: dict[str, list[pa.Table]] = {name: [] for name in queries}

    def said(table: pa.Table) -> None:
        parts["hits"].append(table)
        for row in table.to_pylist():
            print(f"    {_clock(row['t'])}  {row['player']} hits the ball", flush=True)

    graph = hp.Graph()
    for name, query in queries.items():
        graph.subscribe(query, said if name == "hits" else parts[name].append)
    begun = time.monotonic()
    with working("playing") as ticker:
        for table in match.blocks(-1, seconds + 1):
            rows = game.timed(table)
            t = (rows["ts"].to_numpy() - field.KICK_OFFS[0]) / field.PS
            for second in range(int(t[0] // 1), int(t[-1] // 1) + 1):
                low, high = t.searchsorted([second, second + 1])
                time.sleep(max(second / speed - (time.monotonic() - begun), 0))
                ticker.at(max(second, 0), round(seconds), "s")
                if high > low:
                    graph.push(source, rows.slice(low, high - low))
    graph.run()
    graph.close()
    nothing = {name: result_schema(query.node.type).empty_table() for name, query in queries.items()}
    return {name: pa.concat_tables([nothing[name], *found]) for name, found in parts.items()}


def _clock(t: int) -> str:
    seconds = max(t - field.KICK_OFFS[0] // 1000, 0) // 10**9
    return f"{seconds // 60}:{seconds % 60:02}"


def standings(found: dict[str, pa.Table]) -> list[str]:
    """Who has had the ball, hit it, shot and run, as a table."""
    touched = found["hits"]["player"].to_pylist()
    shot = found["attempts"]["player_id"].to_pylist()
    held: dict[str, float] = {}
    for row in found["possessions"].to_pylist():
        held[row["status"]] = held.get(row["status"], 0.0) + row["held"] / 1e3
    metres: dict[str, float] = {}
    for row in found["paces"].select(["player", "distance"]).to_pylist():
        metres[row["player"]] = metres.get(row["player"], 0.0) + row["distance"]
    lines = ["player   hits  ball, s  shots  metres"]
    for player in field.PLAYERS:
        lines.append(
            f"{player:6} {touched.count(player):6} {held.get(player, 0.0):8.1f} {shot.count(player):6} {metres.get(player, 0.0):7.0f}"
        )
    return lines


if __name__ == "__main__":
    raise SystemExit(main())
