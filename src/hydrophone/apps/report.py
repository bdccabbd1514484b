"""What the demos share: the lines and tables that they print, the comparison with Spark, and where their pictures go."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from hydrophone.api.query import Query
from hydrophone.cli.progress_bar import Ticker, working
from hydrophone.connect.files import check_output, write_then_rename

Recorded = TypeVar("Recorded")
Scored = TypeVar("Scored")
PICTURES = (".png", ".pdf", ".svg")


@dataclass
class Report:
    """The lines that a demo prints."""

    lines: list[tuple[str, str]] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)

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

    def table(self, titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """A table in Markdown, printed after the lines."""
        lines = [titles, ["---"] * len(titles), *rows]
        self.tables.append("\n".join(f"| {' | '.join(cells)} |" for cells in lines))

    def show(self) -> None:
        """Print the lines, and the tables below them."""
        wide = max(len(what) for what, _ in self.lines)
        print()
        for what, found in self.lines:
            print(f"  {what.ljust(wide)}   {found}")
        for table in self.tables:
            print(f"\n{table}")


def demo_options(name: str, doc: str | None) -> argparse.ArgumentParser:
    """The options that every application has; `doc` is that of its module."""
    parser = argparse.ArgumentParser(
        prog=f"hydrophone demo {name}", description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    where = Path(f"{name}.png")
    parser.add_argument(
        "--picture", type=picture_path, default=where, help="where the picture goes (default: %(default)s)"
    )
    return parser


def at_least(least: int) -> Callable[[str], int]:
    """A whole number that is large enough, as an argument of the command line."""

    def number(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"must be a number of at least {least}, got {text!r}")
        return int(text)

    return number


def check_picture(path: Path) -> None:
    """Refuse a picture that cannot be written before any work."""
    check_output(str(path), what="demo", overwrite=True)


def sweep_noise(
    report: Report,
    what: str,
    samples: int,
    levels: Sequence[float],
    record: Callable[[float], Recorded],
    query: Callable[[Recorded], Query],
    judge: Callable[[Recorded, pa.Table], Scored],
) -> dict[float, tuple[Recorded, pa.Table, Scored]]:
    """Run a query on recordings with more and more signal over the noise: by level the recording, the answer and its score."""
    done = {}
    for level in levels:
        recording = record(level)
        with report.timed(f"in this process, {what} at {level:g} dB", samples, "samples"):
            found = query(recording).to_arrow()
        done[level] = recording, found, judge(recording, found)
        report.add("  what was found", str(done[level][2]))
    return done


def equal_on_spark(report: Report, query: Query, here: pa.Table) -> bool:
    """Run the query on Spark too, and say whether its rows are those of this process."""
    from hydrophone.spark.quiet_start import quiet_start
    from hydrophone.spark.session import session

    print("  the same query on Spark ...", flush=True)
    with working("   "):
        with quiet_start():
            spark = session("hydrophone demo")
            spark.sparkContext.setLogLevel("ERROR")  # Spark's warnings would hide the demo's output
        there = query.to_spark(spark).toArrow()
        spark.stop()
    same = in_order(there) == in_order(here)
    report.add("Spark against this process", f"{'equal' if same else 'DIFFERENT'}: {len(there):,} rows")
    return same


def in_order(table: pa.Table) -> list[dict[str, Any]]:
    """The rows of an answer in an order that no engine changes: that of their scalar columns."""
    scalars = [field.name for field in table.schema if not pa.types.is_nested(field.type)]
    rows: list[dict[str, Any]] = table.sort_by([(name, "ascending") for name in scalars]).to_pylist()
    return rows


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
