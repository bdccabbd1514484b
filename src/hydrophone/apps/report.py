"""What the demos share: the lines that they print, and where their pictures go."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydrophone.cli.progress_bar import Ticker, working
from hydrophone.connect.files import write_then_rename

PICTURES = (".png", ".pdf", ".svg")


@dataclass
class Report:
    """The lines that a demo prints."""

    lines: list[tuple[str, str]]

    def add(self, what: str, found: str) -> None:
        """Say one more thing."""
        self.lines.append((what, found))

    @contextmanager
    def timed(self, what: str, rows: int, unit: str = "readings") -> Iterator[Ticker]:
        """Say how long a step took, and how many rows a second that is."""
        print(f"  {what} ...", flush=True)
        start = time.perf_counter()
        with working("   ") as ticker:
            yield ticker
        took = time.perf_counter() - start
        self.add(what, f"{took:.1f} s, {rows / took / 1e6:.2f} M {unit}/s")

    def show(self) -> None:
        """Print the table."""
        wide = max(len(what) for what, _ in self.lines)
        print()
        for what, found in self.lines:
            print(f"  {what.ljust(wide)}   {found}")


def picture_path(text: str) -> Path:
    """The path of a picture, as an argument of the command line."""
    if Path(text).suffix not in PICTURES:
        raise argparse.ArgumentTypeError(f"must end in {', '.join(PICTURES)}, got {text!r}")
    return Path(text)


def write_picture(figure: Any, path: Path) -> None:
    """Write a figure whole, or not at all, and close it."""
    import matplotlib.pyplot as plt

    with write_then_rename(str(path), what="demo", overwrite=True) as draft:
        figure.savefig(draft, format=path.suffix[1:], dpi=110)
    plt.close(figure)
