"""Before and after: the cases of benchmarks in this checkout and in another one, in turn, by processor time.

Run as ``python -m hydrophone.bench.compare ../before --runs 15 local_engine trill_q1``. The other checkout runs twice: what its two
sides differ by is chance. Every row has the median of the ratios of turns and its 95 % interval (bootstrap).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import scipy.stats

from hydrophone.bench import compare_side

WARM = 2
SLOWER = 1.1
"""A case is slower where its whole interval lies above this."""


class Side:
    """A process that runs the cases of one checkout."""

    def __init__(self, source: Path, pattern: str, names: list[str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(Path(compare_side.__file__)), pattern, *names],
            env={**os.environ, "PYTHONPATH": str(source)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def read(self) -> dict[str, Any]:
        """The next thing that it says; Spark may talk in between."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                found: dict[str, Any] = json.loads(line)
                return found
        sys.exit("compare: a side has ended")

    def tell(self, word: str) -> None:
        """Run once more, or go on."""
        assert self.process.stdin is not None
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def run(self) -> dict[str, Any]:
        """One run."""
        self.tell("run")
        return self.read()


def ratio(these: list[float], those: list[float]) -> tuple[float, float, float]:
    """The median ratio of turns, and its 95 % interval."""
    logs = np.log(np.array(these) / np.array(those))
    found = scipy.stats.bootstrap((logs,), np.median, method="percentile", n_resamples=4000, rng=1).confidence_interval
    return float(np.exp(np.median(logs))), float(np.exp(found.low)), float(np.exp(found.high))


def main() -> None:
    """Print a table; the exit code is 1 where a case is slower or answers differ."""
    parser = argparse.ArgumentParser(prog="python -m hydrophone.bench.compare", description=__doc__.splitlines()[0])
    parser.add_argument("before", type=Path, help="the other checkout")
    parser.add_argument("names", nargs="+", metavar="NAME", help="benchmarks, in their quick form")
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--case", default="", metavar="REGEX", help="only the cases that match")
    options = parser.parse_args()
    here, there = Path(compare_side.__file__).parents[2], options.before.resolve() / "src"
    sides = {
        n: Side(s, options.case, options.names) for n, s in (("before", there), ("control", there), ("after", here))
    }
    bad = False
    print("| case | before, ms | after, ms | after / before (95 %) | before / before (95 %) |\n|---|---|---|---|---|")
    while (title := [side.read()["case"] for side in sides.values()][-1]) is not None:
        times: dict[str, list[float]] = {name: [] for name in sides}
        answers = set()
        for turn in range(options.runs + WARM):
            order = list(sides)
            for name in order[turn % 3 :] + order[: turn % 3]:
                got = sides[name].run()
                answers.add(got["answer"])
                if turn >= WARM:
                    times[name].append(got["seconds"])
        for side in sides.values():
            side.tell("next")
        after, chance = (ratio(times[name], times["before"]) for name in ("after", "control"))
        medians = [1e3 * float(np.median(times[name])) for name in ("before", "after")]
        cells = [f"{value:.1f}" for value in medians] + [f"{m:.2f} ({a:.2f} to {b:.2f})" for m, a, b in (after, chance)]
        remark = " slower" if after[1] > SLOWER else ""
        remark += " ANSWERS DIFFER" if len(answers) > 1 and not title.startswith("grouped_streaming") else ""
        bad = bad or bool(remark)
        print(f"| {title} | {' | '.join(cells)} |{remark}", flush=True)
    sys.exit(int(bad))


if __name__ == "__main__":
    main()
