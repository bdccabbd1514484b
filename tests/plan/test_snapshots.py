"""Plans as `explain` shows them, in text files that a reviewer reads in a diff: snapshots/CASE.txt has every stage of one case.

``python -m tests.plan.test_snapshots`` writes the files again; with names of cases it adds files for them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.cases import ALL_CASES, Case

from hydrophone.compiler.explain import STAGES
from hydrophone.plan.source import Leaf

FOLDER = Path(__file__).parent / "snapshots"


def named(case: Case) -> dict[str, str]:
    """The text of every stage, over sources with names: no path and no number of an object."""
    query = case.build({n: s.stream(name=n) for n, s in case.inputs.items()})
    return {stage: query.explain(stage) for stage in STAGES}


def snapshot(case: Case) -> str:
    """All stages one after the other; one that changes nothing is only named."""
    parts, before = [], ""
    for stage, text in named(case).items():
        parts.append(f"== {stage}: unchanged" if text == before else f"== {stage}\n{text.rstrip()}")
        before = text
    return "\n\n".join(parts) + "\n"


def files() -> list[Path]:
    return sorted(FOLDER.glob("*.txt"))


@pytest.mark.parametrize("stage", [*STAGES, "spark"])
def test_every_stage_of_every_case_is_explained(stage: str) -> None:
    for case in ALL_CASES:
        query = case.build()
        text = query.explain(stage)
        assert text.strip(), case.name
        if stage == "logical" and not isinstance(query.node, Leaf):
            assert query.node.name() in text.splitlines()[0], case.name


@pytest.mark.parametrize("file", files(), ids=lambda f: f.stem)
def test_a_plan_is_explained_as_before(file: Path) -> None:
    case = next(c for c in ALL_CASES if c.name == file.stem)
    assert snapshot(case) == file.read_text(), "if it must change, python -m tests.plan.test_snapshots writes it again"


def test_snapshots_hold_nothing_of_a_machine() -> None:
    assert len(files()) >= 30
    for file in files():
        assert "0x" not in file.read_text() and str(Path(__file__).parents[2]) not in file.read_text()


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    wanted = {*sys.argv[1:], *(f.stem for f in files())}
    for shown in (c for c in ALL_CASES if c.name in wanted):
        (FOLDER / f"{shown.name}.txt").write_text(snapshot(shown))
