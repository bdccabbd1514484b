"""docs/operators.md is made from the code, the table of cases and the golden answers: ``python -m tests.docs.test_operators_page``."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.cases import ALL_CASES
from tests.golden.answers import ENGINES as GOLDEN
from tests.golden.answers import read

from hydrophone import api as handles
from hydrophone.plan.node import Node

PAGE = Path(__file__).parents[2] / "docs" / "operators.md"
HANDLES = (handles.Stream, handles.Signal, handles.UniformSignal, handles.Windowed)

TOP = """# Operators

Made by `python -m tests.docs.test_operators_page` from the code, the table of cases and the golden
answers; a test fails when it is out of date.

## Methods

What happens at the start, at a gap and at the end of a signal, and the NumPy or SciPy call that gives the same answer, is in
the docstring of each operator (`help(hp.UniformSignal.fir)`, and the class in `hydrophone.ops`).
"""

ENGINES = """
## Engines

How many of an operator's cases each engine answers, each as its reference does. The numbers are those of the golden answers
(`tests/golden/*.tsv`), which the tests of each engine write and compare with; what an engine refuses is not counted. Slices of
time need a bounded reach; where an operator looks back without bound, Spark batch uses shards instead. Streaming: `stream` is
a real Spark stream that was stopped and started again from its checkpoint; `rehearsed` are the same shards without Spark,
with micro-batches and restarts at any moment.

| operator | cases | local | Spark batch: shards | Spark batch: slices | Spark streaming |
|---|---|---|---|---|---|
"""


def first_line(member: object) -> str:
    doc = inspect.getdoc(member) or ""
    return doc.split("\n\n")[0].replace("\n", " ").replace("|", "\\|")


def families() -> Iterator[tuple[str, str, list[str]]]:
    """Per handle and family: a heading, what the family is, and its methods."""
    seen: set[object] = set()
    for handle in HANDLES:
        for owner in reversed(handle.__mro__):
            if owner in (object, handles.Query) or owner in seen:
                continue
            seen.add(owner)
            names = [n for n, m in vars(owner).items() if inspect.isfunction(m) and not n.startswith("_")]
            if names:
                about = (sys.modules[owner.__module__].__doc__ or "").strip().splitlines()[0]
                yield handle.__name__, about, [f"| `{n}` | {first_line(vars(owner)[n])} |" for n in sorted(names)]


def engines() -> Iterator[str]:
    answered = {engine: {n for n, found in read(engine).items() if found[0][0] != "refused"} for engine in GOLDEN}
    by_node: dict[type[Node], list[str]] = {}
    for case in ALL_CASES:
        by_node.setdefault(case.node, []).append(case.name)
    for node in sorted(by_node, key=lambda n: (n.__module__, n.__name__)):
        names = set(by_node[node])
        count = {engine: len(names & found) for engine, found in answered.items()}
        batch = " | ".join(_of(count[engine], len(names)) for engine in ("local", "shards", "slices"))
        family = node.__module__.rpartition(".")[2]
        streaming = "stream" if count["streams"] else "rehearsed" if count["streaming"] == len(names) else "no"
        yield f"| {node.__name__} (`{family}`) | {len(names)} | {batch} | {streaming} |"


def _of(count: int, cases: int) -> str:
    return "all" if count == cases else f"{count} of {cases}" if count else "no"


def page() -> str:
    text, last = TOP, ""
    for handle, about, lines in families():
        if handle != last:
            text += f"\n### {handle}\n"
            last = handle
        text += f"\n{about}\n\n| method | what it does |\n|---|---|\n" + "\n".join(lines) + "\n"
    return text + ENGINES + "\n".join(engines()) + "\n"


def test_the_page_of_operators_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run: python -m tests.docs.test_operators_page"


def test_every_method_is_in_the_page() -> None:
    named = set(re.findall(r"^\| `(\w+)` \|", PAGE.read_text(), re.MULTILINE))
    for handle in HANDLES:
        own = {n for n, m in inspect.getmembers(handle, inspect.isfunction) if not n.startswith("_")}
        assert own - named <= {n for n, _ in inspect.getmembers(handles.Query, inspect.isfunction)}


if __name__ == "__main__":
    PAGE.write_text(page())
