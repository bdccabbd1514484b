"""Write golden answers and states: ``python -m tests.golden.make [--again] [--case NAME] [engine ...] [states]``.

Answers of new cases are added, those of cases that are gone are dropped, and states of new kernels and versions are
added. Every answer names the environment it was made in, so that any machine may add some. ``--again`` writes all answers
again, after a change that is meant, or with ``--case`` those of some cases. It writes states again only where they are
named: an older state that can't be read any more is what they are there to show.
"""

from __future__ import annotations

import argparse
import sys

import pytest
from tests.cases import ALL_CASES
from tests.golden import states
from tests.golden.answers import ENGINES, FOLDER, Recorder, cases_of, read, write


def make(engines: list[str], again: bool, cases: list[str]) -> None:
    """Run the tests that compute what is lacking, or what is to be written again, and take their answers down."""
    known = {e: read(e) if (FOLDER / f"{e}.tsv").exists() else {} for e in engines}
    for engine in engines:
        known[engine] = {n: d for n, d in known[engine].items() if n in cases_of(engine)}
        write(engine, known[engine])
    kept = {e: set() if again and not cases else known[e].keys() - set(cases) for e in engines}
    recorder = Recorder({e: cases_of(e) - kept[e] for e in engines}, known)
    tests = [ENGINES[e] for e in engines if recorder.wanted[e]]
    # States import hypothesis, which pytest would rather import itself: that is a warning, and so an error.
    options = ["-q", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    code = pytest.main([*options, *tests], plugins=[recorder]) if tests else 0
    for engine in engines:
        print(f"{engine}: {len(recorder.found[engine])} taken down, {len(read(engine))} in all")
    if code:
        sys.exit(
            f"tests failed ({code!s}): the answers that they were to give stay as they were; run it again for the rest"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--again", action="store_true", help="write what is there already, too")
    parser.add_argument("--case", action="append", default=[], help="with --again: this case only; may be repeated")
    parser.add_argument("what", nargs="*", help=f"of {', '.join(ENGINES)} and states; all by default")
    given = parser.parse_args()
    if unknown := set(given.what) - {*ENGINES, "states"}:
        parser.error(f"nothing is called {', '.join(sorted(unknown))}; there are {', '.join(ENGINES)} and states")
    if unknown := set(given.case) - {c.name for c in ALL_CASES}:
        parser.error(f"no case is called {', '.join(sorted(unknown))}")
    if given.case and not given.again:
        parser.error("--case goes with --again")
    # States first: a case of a new kernel fails without them.
    if "states" in given.what or not given.what:
        states.make(given.again and "states" in given.what)
    if engines := [e for e in ENGINES if e in given.what or not given.what]:
        make(engines, given.again, given.case)
