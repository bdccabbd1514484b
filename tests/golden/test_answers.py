"""The golden answers are complete, and a digest sees what it must see."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.cases import ALL_CASES
from tests.choice import one_for_every_kernel
from tests.golden import answers
from tests.golden.answers import ENGINES, Digests, Golden, digests

CASE = replace(ALL_CASES[0], tolerance=0.0, why="")
TABLE = pa.table({"t": [1, 2, 3], "v": [0.5, -1 / 3, math.nan], "w": [[1.0], [2.0, math.inf], None]})


@pytest.mark.parametrize("engine", ENGINES)
def test_every_case_has_a_golden_answer(engine: str) -> None:
    known = answers.read(engine)
    assert set(known) <= answers.cases_of(engine), "python -m tests.golden.make"
    assert engine == "streams" or set(known) == answers.cases_of(engine), "python -m tests.golden.make"
    assert list(known) == sorted(known)


def test_every_kernel_with_state_has_a_stream() -> None:
    lacking = {c.name for c in one_for_every_kernel()} - set(answers.read("streams"))
    assert not lacking, "python -m tests.golden.make streams"


def with_value(value: float) -> Digests:
    return digests(CASE, TABLE.set_column(1, "v", pa.array([value, -1 / 3, math.nan])))


def test_the_order_of_rows_does_not_matter() -> None:
    assert digests(CASE, TABLE.take([2, 0, 1])) == digests(CASE, TABLE)


@pytest.mark.parametrize(
    "other",
    [
        TABLE.rename_columns(["t", "u", "w"]),
        TABLE.set_column(0, "t", TABLE["t"].cast(pa.int32())),
        TABLE.slice(1),
        pa.concat_tables([TABLE, TABLE.slice(1, 1)]),
        None,
    ],
    ids=["name", "type", "row less", "row twice", "refused"],
)
def test_other_rows_have_other_digests(other: pa.Table | None) -> None:
    assert not set(digests(CASE, other)) & set(digests(CASE, TABLE))


def test_bits_and_rounded_values() -> None:
    bits, *rounded = with_value(0.5)
    assert with_value(np.nextafter(0.5, 1))[0] != bits
    assert list(with_value(np.nextafter(0.5, 1))[1:]) == rounded
    assert not set(with_value(0.5 + 3e-9)) & {bits, *rounded}
    assert with_value(-0.0)[0] != with_value(0.0)[0]


def test_a_value_at_the_border_of_a_step_is_not_at_that_of_the_other() -> None:
    for border in (0.382e-9, 0.882e-9):
        below, above = with_value(border - 1e-14)[1:], with_value(border + 1e-14)[1:]
        assert sum(a == b for a, b in zip(below, above, strict=True)) == 1


def test_another_environment_compares_rounded_values_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(value: float) -> pa.Table:
        return TABLE.set_column(1, "v", pa.array([value, -1 / 3, math.nan]))

    for made_in, how in ((answers.environment(), "bit by bit"), ("numpy 0.1", "rounded: made with numpy 0.1")):
        monkeypatch.setattr(answers, "read", lambda _, made_in=made_in: {CASE.name: (with_value(0.5), made_in)})
        golden, near = Golden(), answer(float(np.nextafter(0.5, 1)))
        assert golden.check("local", CASE, answer(0.5)).startswith(f"local, {how}")
        if how == "bit by bit":
            with pytest.raises(AssertionError, match="another answer than the golden one"):
                golden.check("local", CASE, near)
        else:
            golden.check("local", CASE, near)
        with pytest.raises(AssertionError, match="another answer than the golden one"):
            golden.check("local", CASE, answer(0.5 + 3e-9))


def test_a_file_keeps_the_environment_of_every_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "FOLDER", tmp_path)
    lines = {
        "b": (with_value(0.5), "numpy 0.1"),
        "a": (with_value(1.5), "numpy 0.2"),
        "c": (with_value(2.5), "numpy 0.1"),
    }
    answers.write("local", lines)
    assert answers.read("local") == lines
