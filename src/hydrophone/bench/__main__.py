"""``hydrophone bench``: list the benchmarks, run them, draw what came out."""

from __future__ import annotations

import argparse
import re
import sys
import time
from dataclasses import replace
from pathlib import Path

from hydrophone.bench.chart import chart
from hydrophone.bench.harness import Case, Result, measure
from hydrophone.bench.registry import BENCHES, describe, load
from hydrophone.bench.table import read_results, table
from hydrophone.cli.query_file import UsageError


def main(arguments: list[str] | None = None) -> int:
    """List, run or draw; the exit code is 1 where answers differ."""
    parser = argparse.ArgumentParser(prog="hydrophone bench", description=__doc__)
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("list", help="the benchmarks")
    run = commands.add_parser("run", help="run one, or all")
    run.add_argument("name", nargs="?", choices=[*BENCHES, "all"], default="all", metavar="NAME", help="see list")
    run.add_argument("--quick", action="store_true", help="smaller data, fewer cases")
    run.add_argument("--json", action="store_true", help="one object per line")
    run.add_argument("--case", type=_pattern, default="", metavar="REGEX", help="only the cases that match")
    run.add_argument(
        "--peer", type=_pattern, default="", metavar="REGEX", help="only the peers that match; some take minutes"
    )
    run.add_argument(
        "--runs", type=_count, metavar="N", help="timed runs of each way, instead of the benchmark's own number"
    )
    run.add_argument(
        "--processor",
        action="store_true",
        help="processor time of this process, all threads together, instead of the clock's: for a busy machine",
    )
    drawn = commands.add_parser("chart", help="a picture of what run --json printed")
    drawn.add_argument("results", type=argparse.FileType(), metavar="RESULTS", help="a file with one object per line")
    drawn.add_argument("--to", type=Path, default=Path("bench.png"), metavar="PATH", help="default: %(default)s")
    written = commands.add_parser("table", help="a table in Markdown of what run catalogue --json printed")
    written.add_argument("results", type=argparse.FileType(), metavar="RESULTS", help="a file with one object per line")
    written.add_argument("--to", type=Path, metavar="PATH", help="default: standard output")
    options = parser.parse_args(arguments if arguments is not None else sys.argv[1:])
    if options.command == "run":
        return _run(options)
    if options.command == "chart":
        with options.results as lines:
            print(f"{chart(lines, options.to)} bars in {options.to}")
        return 0
    if options.command == "table":
        with options.results as lines:
            text = table(read_results(lines))
        if options.to is None:
            print(text, end="")
        else:
            options.to.write_text(text)
        return 0
    for name in BENCHES:
        print(f"{name:20} {describe(name)}")
    return 0


def _run(options: argparse.Namespace) -> int:
    wrong = 0
    known: list[str] = []
    ran = False
    for name in BENCHES if options.name == "all" else [options.name]:
        for case in load(name)(options.quick):
            known += case.names
            if not any(re.search(options.case, n) for n in case.names):
                continue
            ran = True
            if isinstance(case, Case):
                case = _chosen(case, options)
            for result in measure(name, case, time.process_time if options.processor else time.perf_counter):
                if not re.search(options.case, result.case):
                    continue
                print(result.as_json() if options.json else _line(result), flush=True)
                wrong += not result.agrees
    if not ran:
        raise UsageError(
            f"bench run: no case of {options.name} matches {options.case!r}", hint=f"there are: {'; '.join(known)}"
        )
    return 1 if wrong else 0


def _chosen(case: Case, options: argparse.Namespace) -> Case:
    peers = {name: way for name, way in case.peers.items() if re.search(options.peer, name)}
    return replace(case, peers=peers, runs=case.runs if options.runs is None else options.runs)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {text!r}")
    return int(text)


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no regular expression: {error}") from None
    return text


def _line(result: Result) -> str:
    note = "" if result.agrees else "   ANSWERS DIFFER"
    values = ((result.ours_s, result.ours_95), (result.peer_s, result.peer_95))
    ours, peers = (f"{value:8.3f} {result.unit}{'' if half is None else f' ± {half:.3g}'}" for value, half in values)
    times = f"ours {ours}   {result.peer:24} {peers}   x{result.ratio:7.2f}"
    memory = f"   {result.ours_peak_mb:.0f} and {result.peer_peak_mb:.0f} MB"
    return f"{result.bench:14} {result.case:44} {times}{memory}{note}"


if __name__ == "__main__":
    raise SystemExit(main())
