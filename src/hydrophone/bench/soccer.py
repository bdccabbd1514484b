"""`soccer`: the four queries of DEBS 2013 over a simulated match, parsing included; the ratio is to real time.

In this process, as one graph, and on Spark from the same file.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

import hydrophone as hp
from hydrophone.apps.soccer import challenge, field, game, possession, queries, shots
from hydrophone.apps.soccer.simulate import Match
from hydrophone.apps.soccer.truth import Truth
from hydrophone.bench.harness import Answer, Case, Timed, Turns

Queries = Mapping[str, hp.Stream]
RATE = 11_600
"""Rows a second of the original file."""
PANES = 600
"""Of a second each, in ten minutes."""


def parts(match: hp.Stream, stops: hp.Stream) -> dict[str, Queries]:
    """The queries alone and together."""
    players = queries.legs(match)
    return {
        "running": {"pace": queries.paces(players), "running": queries.running(players)},
        "possession": {"p": possession.of_players(match, stops), "t": possession.of_teams(match, stops)},
        "heat map": {str(g): queries.heat_map(players, g) for g in field.GRIDS},
        "shots": {"shots": shots.shots(match)},
        "all four": challenge.four(match, stops),
    }


def cases(quick: bool) -> Iterator[Case]:
    """Each query and all four, in this process and on Spark."""
    seconds = 60 if quick else 600
    play = Match(seed=1, seconds=seconds + 10)
    stops = Truth(play).interruptions()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "game.csv"
        count = play.write(path, 0, seconds)

        def chosen(name: str) -> Queries:
            return parts(game.from_file(path), game.interruptions(stops))[name]

        answers: dict[str, Answer] = {}

        def live(name: str) -> Answer:
            rows: dict[str, int] = {}
            challenge.run(chosen(name), lambda query, table: rows.update({query: rows.get(query, 0) + len(table)}))
            return answers.setdefault(name, sorted(rows.values()))

        def real_time(name: str) -> Timed:
            return Timed(count / RATE, answers[name])

        def on_spark(name: str) -> Answer:
            spark = _session()
            counts = (query.to_spark(spark, shards=2).count() for query in chosen(name).values())
            return sorted(n for n in counts if n)

        names = tuple(parts(game.from_file(path), game.interruptions(stops)))
        for name in names:
            also: dict[str, Callable[[], Answer]] = {f"Spark batch, {name}": partial(on_spark, name)}
            yield Case(
                f"in process, {name}, {count} rows", partial(live, name), {f"{RATE} rows/s": partial(real_time, name)},
                runs=1 if quick else 3, also=also,
            )  # fmt: skip


def _session() -> Any:
    from hydrophone.spark.session import session

    return session("hydrophone-bench")


# --- memory -------------------------------------------------------------------------------------------------------------


def frames_memory(quick: bool) -> Iterator[Turns]:
    """Memory of a heat map of ten minutes with 64 by 100 cells for 16 players: frames against panes of a second."""
    seconds = 120 if quick else 700
    play = Match(seed=1, seconds=seconds + 10)
    visits = queries.visits(queries.legs(game.from_tables(play.blocks(0, seconds)))).to_arrow()

    def run() -> Mapping[str, tuple[list[float], Answer]]:
        return {
            "ours": ([kept_by_frames(visits) / 1e6], [seconds]),
            "panes, every cell": (
                [PANES * field.GRIDS[-1][0] * field.GRIDS[-1][1] * len(field.PLAYERS) * 8 / 1e6],
                [seconds],
            ),
            "panes, visited cells": ([visited(visits) * 16 / 1e6], [seconds]),
        }

    yield Turns(f"{seconds} s of a match", run, "MB")


def kept_by_frames(visits: pa.Table) -> int:
    """The state of the trailing window over frames, at its largest."""
    graph, most = hp.Graph(), 0
    source = hp.from_arrow(visits.schema, key="player", time="t", end="end", progress=hp.ordered())
    graph.subscribe(source.trailing("10min").agg(time=hp.duration(), by="status", changed=True), lambda table: None)
    for part in visits.sort_by("t").to_batches(2_000):
        graph.push(source, pa.Table.from_batches([part]))
        most = max(most, sum(node["state_bytes"] for node in graph.nodes()))
    graph.close()
    return most


def visited(visits: pa.Table) -> int:
    """How many cells of panes of the last ten minutes hold any time: a cell and its time for each."""
    t = visits["t"].to_numpy()
    late = visits.filter(pa.array(t >= t.max() - PANES * 10**9))
    found = set(
        zip(
            late["player"].to_pylist(),
            (late["t"].to_numpy() // 10**9).tolist(),
            late["status"].to_pylist(),
            strict=True,
        )
    )
    return len(found)
