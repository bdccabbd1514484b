"""Digests of every case's answer on every engine: no bit changes unnoticed.

A file per engine has a line per case: its name, the digest of the bits, two digests of rounded values, and the environment
that it was made in, which the lines at the top explain. Bits are compared where libraries and processor are those of the
line, rounded values elsewhere. ``python -m tests.golden.make`` writes the files.
"""

from __future__ import annotations

import hashlib
import math
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import pyarrow as pa
from tests.cases import ALL_CASES, Case, rows

FOLDER = Path(__file__).parent

ENGINES = {
    "local": "tests/cases/test_cases.py::test_case",
    "streaming": "tests/spark/test_stateful.py::test_every_case",
    "slices": "tests/spark/test_batch.py::test_slices",
    "shards": "tests/spark/test_batch.py::test_shards",
    "streams": "tests/spark/test_real_streams.py::test_stopped_and_started_again",
}
"""The test that computes the answers of an engine, and hands them to the fixture `golden`."""

LIBRARIES = ("numpy", "scipy", "numba", "pyarrow", "pywavelets", "pyspark")
DIGITS = 1e-9
OFFSETS = (0.118, 0.618)
"""Two ways to round: a value next to the border of one step is in the middle of the other's."""

Digests = tuple[str, str, str]

Line = tuple[Digests, str]
"""What a file says of a case: its digests, and the environment in which they were taken down."""


def cases_of(engine: str) -> set[str]:
    """The cases that an engine runs: of real streams a choice, else all."""
    from tests import choice

    return {c.name for c in (choice.streamed() if engine == "streams" else ALL_CASES)}


@cache
def environment() -> str:
    """What the last bits of floats may depend on."""
    features = llvm.get_host_cpu_features().flatten()
    libraries = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    return f"{libraries}, {llvm.get_host_cpu_name()} with {_digest([features])}"


def digests(case: Case, answer: pa.Table | None) -> Digests:
    """Of the bits, and of rounded values; None is an answer that the engine refuses. NaN is NaN, whatever its bits."""
    if answer is None:
        return "refused", "refused", "refused"
    schema, found = str(answer.schema.remove_metadata()), rows(answer)
    # The oracle may be off by the tolerance, and another machine by a part of it.
    steps = [max(DIGITS, 100 * case.tolerance) * _largest(column) for column in zip(*found, strict=True)]
    exact = _digest([schema, *sorted(map(repr, found))])
    first, second = (
        _digest([schema, *sorted(repr([_rounded(v, s, o) for v, s in zip(r, steps, strict=True)]) for r in found)])
        for o in OFFSETS
    )
    return exact, first, second


def _digest(lines: list[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _rounded(value: Any, step: float, offset: float) -> Any:
    if isinstance(value, tuple):
        return [_rounded(v, step, offset) for v in value]
    if isinstance(value, complex):
        return [_rounded(value.real, step, offset), _rounded(value.imag, step, offset)]
    return math.floor(value / step + offset) if isinstance(value, float) and math.isfinite(value) else value


def _largest(values: Any) -> float:
    """The largest finite float among values and tuples of values, at least 1."""
    largest = 1.0
    for value in values:
        if isinstance(value, tuple):
            largest = max(largest, _largest(value))
        elif isinstance(value, float | complex) and math.isfinite(abs(value)):
            largest = max(largest, abs(value))
    return largest


# --- the files ----------------------------------------------------------------------------------------------------------


def read(engine: str) -> dict[str, Line]:
    """The digests of a file by case, and the environment that each was made in."""
    made_in, found = {}, {}
    for line in (FOLDER / f"{engine}.tsv").read_text().splitlines():
        if line.startswith("# "):
            short, _, text = line[2:].partition(" = ")
            made_in[short] = text
        else:
            name, bits, a, b, short = line.split("\t")
            found[name] = (bits, a, b), short
    return {name: (digests, made_in[short]) for name, (digests, short) in found.items()}


def write(engine: str, answers: dict[str, Line]) -> None:
    """Replace a file."""
    made_in = sorted({text for _, text in answers.values()})
    head = [f"# {_digest([text])[:8]} = {text}" for text in made_in]
    lines = ["\t".join((name, *found, _digest([text])[:8])) for name, (found, text) in sorted(answers.items())]
    (FOLDER / f"{engine}.tsv").write_text("\n".join([*head, *lines, ""]))


class Golden:
    """What tests compare with; says how it compared."""

    def __init__(self) -> None:
        self._read = cache(read)

    def check(self, engine: str, case: Case, answer: pa.Table | None) -> str:
        """Compare an answer with the golden one."""
        known = self._read(engine)
        if engine == "streams" and case.name not in known:
            return "streams, compared with the case's own answer alone"
        assert case.name in known, f"{engine}: no golden answer of {case.name}; python -m tests.golden.make adds it"
        (bits, *rounded), (golden, made_in) = digests(case, answer), known[case.name]
        how = "bit by bit" if made_in == environment() else f"rounded: made with {made_in}, this is {environment()}"
        same = bits == golden[0] or (
            made_in != environment() and any(a == b for a, b in zip(rounded, golden[1:], strict=True))
        )
        assert same, (
            f"{engine}: {case.name} has another answer than the golden one ({how}); "
            "if it must change, python -m tests.golden.make --again and look at the difference"
        )
        return f"{engine}, {how}"


class Recorder(Golden):
    """Takes answers down instead, in a run of the tests that compute them; each at once, so that none is lost when a run ends early."""

    def __init__(self, wanted: dict[str, set[str]], known: dict[str, dict[str, Line]]) -> None:
        self.wanted, self.known = wanted, known
        self.found: dict[str, dict[str, Line]] = {engine: {} for engine in wanted}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Run the tests of the wanted cases only."""
        tests = {ENGINES[engine]: names for engine, names in self.wanted.items()}
        items[:] = [i for i in items if i.callspec.params["case"].name in tests[i.nodeid.partition("[")[0]]]

    def check(self, engine: str, case: Case, answer: pa.Table | None) -> str:
        """Take down an answer."""
        self.found[engine][case.name] = digests(case, answer), environment()
        write(engine, self.known[engine] | self.found[engine])
        return f"{engine}, taken down"
