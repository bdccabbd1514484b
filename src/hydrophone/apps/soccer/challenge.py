"""All four queries of the challenge at once: they share the parse and whatever else they have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import pyarrow as pa

import hydrophone as hp
from hydrophone.apps.soccer import field, possession, queries, shots

ROWS = 1 << 18
"""Rows of a turn."""


def four(match: hp.Stream, stops: hp.Stream, grids: Iterable[tuple[int, int]] = field.GRIDS) -> dict[str, hp.Stream]:
    """The results that the challenge asks for, by name.

    Parameters
    ----------
    match : rows of sensors, see `game.from_file` and `game.from_tables`
    stops : interruptions of the game, see `game.interruptions`
    grids : those of the heat map, columns by rows

    Examples
    --------
    >>> from hydrophone.apps.soccer import challenge, game
    >>> from hydrophone.apps.soccer.simulate import Match
    >>> from hydrophone.apps.soccer.truth import Truth
    >>> play = Match(seed=1, seconds=20)
    >>> list(challenge.four(game.from_tables(play.blocks(0, 1)), game.interruptions(Truth(play).interruptions()), grids=[(8, 13)]))
    ['pace', 'running', 'player_possession', 'team_possession', 'heat_map_8x13', 'shots']
    """
    players = queries.legs(match)
    return {
        "pace": queries.paces(players),
        "running": queries.running(players),
        "player_possession": possession.of_players(match, stops),
        "team_possession": possession.of_teams(match, stops),
        **{f"heat_map_{x}x{y}": queries.heat_map(players, (x, y)) for x, y in grids},
        "shots": shots.shots(match),
    }


def run(results: Mapping[str, hp.Stream], to: Callable[[str, pa.Table], None], rows: int = ROWS) -> None:
    """Run queries in one graph of this process, and hand over what each gives as soon as it is final.

    Examples
    --------
    >>> from hydrophone.apps.soccer import challenge, game, queries
    >>> from hydrophone.apps.soccer.simulate import Match
    >>> players = queries.legs(game.from_tables(Match(seed=1, seconds=20).blocks(0, 3)))
    >>> tables = []
    >>> challenge.run({"pace": queries.paces(players)}, lambda name, table: tables.append(table))
    >>> sum(map(len, tables)) == len(queries.paces(players).to_arrow())
    True
    """

    def sink(name: str) -> Callable[[pa.Table], None]:
        return lambda table: to(name, table)

    with hp.Graph(rows=rows) as graph:
        for name, query in results.items():
            graph.subscribe(query, sink(name))
        graph.run()


def collect(results: Mapping[str, hp.Stream], rows: int = ROWS) -> dict[str, pa.Table]:
    """The same as whole tables by name."""
    parts: dict[str, list[pa.Table]] = {name: [] for name in results}
    run(results, lambda name, table: parts[name].append(table), rows)
    return {
        name: pa.concat_tables(found) if found else query.head(0)
        for (name, query), found in zip(results.items(), parts.values(), strict=True)
    }
