"""Draw what ``hydrophone bench run oop_skew --json`` printed: ``python -m hydrophone.bench.skew_picture RESULTS --to PATH``."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable
from pathlib import Path


def picture(lines: Iterable[str], path: Path) -> int:
    """Peak state against skew, both ways; gives how many skews there are."""
    from matplotlib.figure import Figure

    found = {}
    for line in lines:
        result = json.loads(line)
        skew = re.search(r"^state, skew (\d+) s", result["case"])
        if result["bench"] == "oop_skew" and skew:
            found[int(skew[1])] = (
                result["ours_s"],
                result["peer_s"],
                result["case"].partition(", ")[2].partition(", ")[2],
            )
    skews = sorted(found)
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for way, label, colour in (
        (1, "in order: sort and merge first", "tab:red"),
        (0, "Hydrophone: as they come", "tab:blue"),
    ):
        axes.plot(skews, [found[s][way] for s in skews], "o-", color=colour, label=label)
        axes.annotate(
            f"{found[skews[-1]][way]:.3g} MB", (skews[-1], found[skews[-1]][way]), (4, 4), textcoords="offset points"
        )
    top = 1.1 * max(f[1] for f in found.values())
    axes.set(xlabel="skew between the links, s", ylabel="peak state, MB", ylim=(0, top), xlim=(0, skews[-1] * 1.12))
    axes.set_title(f"Packets per pair of hosts and 10 s, two links\n{found[skews[-1]][2]}", fontsize=10)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=120)
    return len(skews)


def main(arguments: list[str] | None = None) -> None:
    """Read results and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("--to", type=Path, default=Path("oop-skew.png"))
    options = parser.parse_args(arguments)
    print(f"{picture(options.results.read_text().splitlines(), options.to)} skews in {options.to}")


if __name__ == "__main__":
    main()
