"""A picture of results: a bar for every case and peer, to the right of 1 where we are faster."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hydrophone.errors import DataError
from hydrophone.plot.axes import canvas

_OURS, _THEIRS = "#0b6e8f", "#c46a2f"


def chart(lines: Iterable[str], to: Path) -> int:
    """Draw what ``bench run --json`` printed; gives the number of bars."""
    results = [_result(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not results:
        raise DataError("bench chart: no results", hint="make some: hydrophone bench run NAME --json > results.jsonl")
    ratios = [r["ratio"] for r in results]
    with canvas(None, to) as axes:
        figure: Any = axes.figure
        figure.set_size_inches(10, 0.8 + 0.24 * len(results))
        colours = [_OURS if r >= 1 else _THEIRS for r in ratios]
        axes.barh(range(len(results)), [r - 1 for r in ratios], left=1, color=colours)
        axes.set_yticks(
            range(len(results)), [f"{r['bench']}: {r['case']}  |  {r['peer']}" for r in results], fontsize=7
        )
        for row, ratio in enumerate(ratios):
            aside = ("left", 3) if ratio >= 1 else ("right", -3)
            axes.annotate(
                f"{ratio:.3g}",
                (ratio, row),
                (aside[1], 0),
                textcoords="offset points",
                ha=aside[0],
                va="center",
                size=7,
            )
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.margins(x=0.12, y=0.01)
        axes.axvline(1, color="black", linewidth=0.8)
        axes.invert_yaxis()
        axes.set_xlabel("the peer's time over ours")
    return len(results)


def _result(number: int, line: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(line)
        return {name: found[name] for name in ("bench", "case", "peer", "ratio")}
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"bench chart: line {number} is no result: {line.strip()[:60]!r}",
            hint="lines come from: hydrophone bench run NAME --json",
        ) from error
