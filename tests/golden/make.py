"""Write golden answers and states: ``python -m tests.golden.make [--again] [engine ...] [states]``.

Answers of new cases are added, those of cases that are gone are dropped, and states of new kernels and versions are
added. ``--again`` writes all answers again, after a change that is meant or for another environment; without it, what is
added in another environment is compared by rounded values from then on. It writes states
again only where they are named: an older state that can't be read any more is what they are there to show.
"""

from __future__ import annotations

import argparse
import sys

import pytest
from tests.golden import states
from tests.golden.answers import ENGINES, FOLDER, Recorder, cases_of, environment, read, write


def make(engines: list[str], again: bool) -> None:
    """Run the tests that compute what is lacking, and take their answers down."""
    known = {e: read(e)[1] if (FOLDER / f"{e}.tsv").exists() else {} for e in engines}
    # All answers of a file are of one environment; elsewhere only rounded values of new cases are added.
    made_in = {e: read(e)[0] if known[e] and not again else environment() for e in engines}
    for engine in engines:
        kept = {} if again and read(engine)[0] != environment() else known[engine]
        known[engine] = {n: d for n, d in kept.items() if n in cases_of(engine)}
        write(engine, known[engine], made_in[engine])
    recorder = Recorder({e: cases_of(e) - (set() if again else known[e].keys()) for e in engines}, known, made_in)
    tests = [ENGINES[e] for e in engines if recorder.wanted[e]]
    # States import hypothesis, which pytest would rather import itself: that is a warning, and so an error.
    options = ["-q", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    code = pytest.main([*options, *tests], plugins=[recorder]) if tests else 0
    for engine in engines:
        print(f"{engine}: {len(recorder.found[engine])} taken down, {len(read(engine)[1])} in all")
    if code:
        sys.exit(
            f"tests failed ({code!s}): the answers that they were to give stay as they were; run it again for the rest"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--again", action="store_true", help="write what is there already, too")
    parser.add_argument("what", nargs="*", help=f"of {', '.join(ENGINES)} and states; all by default")
    given = parser.parse_args()
    if unknown := set(given.what) - {*ENGINES, "states"}:
        parser.error(f"nothing is called {', '.join(sorted(unknown))}; there are {', '.join(ENGINES)} and states")
    # States first: a case of a new kernel fails without them.
    if "states" in given.what or not given.what:
        states.make(given.again and "states" in given.what)
    if engines := [e for e in ENGINES if e in given.what or not given.what]:
        make(engines, given.again)
