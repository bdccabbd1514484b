"""Pictures of a match that a coach hangs up: heat maps, intensities, possession and shots."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hydrophone.apps.report import write_picture
from hydrophone.apps.soccer import field

GRASS, LINES = "#f4f7f2", "#7d8c7a"
TEAMS = {"A": "#c79a00", "B": "#c0392b"}
PACES = ("#d9d9d9", "#a6cee3", "#57a0ce", "#1f78b4", "#f08030", "#b30000")


def draw(path: Path, found: dict[str, pa.Table], grid: tuple[int, int], seconds: float, title: str) -> None:
    """Everything on one sheet: heat maps of both teams and of the player who ran most, shots, intensities, possession."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplot_mosaic(
        [["a", "b", "one", "shots"], ["pace", "pace", "held", "held"]],
        figsize=(13, 9.6),
        height_ratios=[1.15, 1],
        layout="constrained",
    )
    figure.suptitle(title, fontsize=14)
    visits, busiest = found["visits"], _busiest(found["paces"])
    for name, team, players in (("a", "A", field.PLAYERS[:8]), ("b", "B", field.PLAYERS[8:])):
        heat(axes[name], visits, players, grid, _colours(TEAMS[team]))
        axes[name].set_title(f"Team {team}: where they were")
    heat(axes["one"], visits, (busiest,), grid, "viridis_r")
    axes["one"].set_title(f"{busiest}, who ran most")
    shots(axes["shots"], found["attempts"])
    intensities(axes["pace"], found["paces"])
    held(axes["held"], found["possessions"], seconds)
    write_picture(figure, path)


def pitch(ax: Any) -> None:
    """The field with its lines, the long side upright."""
    (left, right), (low, high) = field.X, field.Y
    ax.set(xlim=(left - 3, right + 3), ylim=(low - 3, high + 3), aspect="equal", xticks=[], yticks=[])
    ax.set_facecolor(GRASS)
    for edge in ax.spines.values():
        edge.set_visible(False)
    line = {"color": LINES, "lw": 1.2, "zorder": 3}
    ax.plot([left, right, right, left, left], [low, low, high, high, low], **line)
    ax.plot([left, right], [(low + high) / 2] * 2, **line)
    round_ = np.linspace(0, 2 * np.pi, 90)
    ax.plot((left + right) / 2 + 6 * np.cos(round_), (low + high) / 2 + 6 * np.sin(round_), **line)
    for side, (post, other) in field.GOAL_X.items():
        end, middle = field.GOAL_LINE[side], (post + other) / 2
        ax.plot(
            [middle - 13, middle - 13, middle + 13, middle + 13], [end, end - side * 10, end - side * 10, end], **line
        )
        ax.plot([post, other], [end, end], color="0.1", lw=4, solid_capstyle="butt", zorder=4)


def heat(ax: Any, visits: pa.Table, players: tuple[str, ...], grid: tuple[int, int], colours: Any) -> None:
    """How long some players were in each cell, on the field."""
    pitch(ax)
    mine = visits.filter(pc.is_in(visits["player"], pa.array(players)))
    spent = np.bincount(
        mine["status"].to_numpy(), (mine["end"].to_numpy() - mine["t"].to_numpy()) / 1e9, grid[0] * grid[1]
    )
    image = np.ma.masked_equal(spent.reshape(grid[1], grid[0]), 0)
    top = np.percentile(spent[spent > 0], 98) if spent.any() else 1
    extent = (*field.X, *field.Y)
    ax.imshow(image, origin="lower", extent=extent, cmap=colours, vmin=0, vmax=top, alpha=0.9, zorder=2)


def shots(ax: Any, attempts: pa.Table) -> None:
    """Every shot as a line from its first row to its last, with who shot and how fast."""
    pitch(ax)
    rows, lines = attempts.sort_by("t").to_pylist(), []
    for number, row in enumerate(rows, 1):
        colour = TEAMS[row["player_id"].removeprefix("G")[0]]
        start, end = ((row[f"x{n}"] / 1e3, row[f"y{n}"] / 1e3) for n in (1, 2))
        ax.annotate("", xy=end, xytext=start, arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 1.6}, zorder=5)
        ax.text(*start, str(number), color="white", fontsize=8, ha="center", va="center", zorder=7,
                bbox={"boxstyle": "circle,pad=0.2", "fc": colour, "ec": "white"})  # fmt: skip
        lines.append(f"{number}  {row['player_id']}  {row['speed'] * 3.6e-6:.0f} km/h")
    # The list stands in the half with fewer shots.
    upper = sum(row["y1"] > 0 for row in rows) * 2 <= len(rows)
    ax.text(field.X[1] / 2, 11 if upper else -11, "\n".join(lines[:12]), ha="center", va="center", fontsize=9, zorder=8)
    ax.set_title(f"{len(attempts)} shots on goal" if len(attempts) != 1 else "1 shot on goal")


def intensities(ax: Any, paces: pa.Table) -> None:
    """How long and how far every player ran at each intensity."""
    time = {p: _times(paces, p) for p in field.PLAYERS}
    left = np.zeros(len(field.PLAYERS))
    for number, status in enumerate(field.INTENSITIES):
        width = np.array([time[p].get(status, 0.0) / max(sum(time[p].values()), 1e-9) * 100 for p in field.PLAYERS])
        ax.barh(field.PLAYERS, width, left=left, color=PACES[number], label=status, edgecolor="white", lw=0.4)
        left += width
    metres = paces.group_by("player").aggregate([("distance", "sum")])
    for player, far in zip(metres["player"].to_pylist(), metres["distance_sum"].to_pylist(), strict=True):
        ax.text(101, field.PLAYERS.index(player), f"{far:,.0f} m", va="center", fontsize=9)
    ax.invert_yaxis()
    ax.set(title="How fast they ran", xlabel="% of the time; metres run", xlim=(0, 112), xticks=range(0, 101, 20))
    ax.legend(ncols=6, loc="upper center", bbox_to_anchor=(0.47, -0.12), frameon=False, fontsize=9, handlelength=1)
    ax.spines[["top", "right"]].set_visible(False)


def held(ax: Any, possessions: pa.Table, seconds: float) -> None:
    """Who had the ball when, and team A's share so far."""
    rows = possessions.sort_by("t").to_pylist()
    zero = field.KICK_OFFS[0] // 1000
    share, at, mine, all_ = [50.0], [0.0], 0.0, 0.0
    for row in rows:
        team = row["status"].removeprefix("G")[0]
        start, end = ((row[n] - zero) / 1e9 for n in ("t", "end"))
        ax.axvspan(start, end, ymin=0.0, ymax=0.12, color=TEAMS[team], lw=0)
        mine, all_ = mine + row["a"], all_ + row["a"] + row["b"]
        if all_:
            share.append(100 * mine / all_)
            at.append(end)
    ax.step([*at, seconds], [*share, share[-1]], where="post", color="0.15", lw=2)
    ax.axhline(50, color="0.7", lw=1, ls=":")
    ax.fill_between([*at, seconds], [*share, share[-1]], 0, step="post", color=TEAMS["A"], alpha=0.2, lw=0)
    ax.fill_between([*at, seconds], [*share, share[-1]], 100, step="post", color=TEAMS["B"], alpha=0.2, lw=0)
    last = share[-1]
    ax.text(seconds * 0.99, 17, f"team A {last:.0f} %", ha="right", color="#7a5f00", fontsize=11)
    ax.text(seconds * 0.99, 93, f"team B {100 - last:.0f} %", ha="right", color=TEAMS["B"], fontsize=11)
    ax.set(
        title="Ball possession so far; the strip shows who has the ball",
        xlabel="seconds",
        ylabel="% of team A",
        ylim=(0, 100),
        xlim=(0, seconds),
    )
    ax.spines[["top", "right"]].set_visible(False)


def _colours(end: str) -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("team", ["#ffffff", end, "#3b2f00" if end == TEAMS["A"] else "#4a0d07"])


def _times(paces: pa.Table, player: str) -> dict[str, float]:
    mine = paces.filter(pc.equal(paces["player"], player))
    out: dict[str, float] = {}
    for status, start, end in zip(
        mine["status"].to_pylist(), mine["t"].to_pylist(), mine["end"].to_pylist(), strict=True
    ):
        out[status] = out.get(status, 0.0) + (end - start) / 1e9
    return out


def _busiest(paces: pa.Table) -> str:
    far = paces.group_by("player").aggregate([("distance", "sum")]).sort_by([("distance_sum", "descending")])
    return str(far["player"][0])
