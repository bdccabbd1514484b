"""Main plus late is the input, each row once, whatever happens to late rows."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.cases import ALL_CASES, Case, Row, Source, rows
from tests.cases.data import overlapping, points
from tests.choice import for_a_law
from tests.laws.harness import EXAMPLES

import hydrophone as hp
from hydrophone.engine.late import Late
from hydrophone.errors import LateEventError
from hydrophone.model.progress import Policy

SOURCES = {"points": points(120), "lifetimes": overlapping(121)}
POLICIES = {
    "ordered": hp.ordered(),
    "delayed": hp.delayed(40),
    "by": hp.delayed(40, by="k"),
    "idle": hp.ordered(by="k", idle=60),
}


def disordered(source: Source, progress: Policy, seed: int) -> Source:
    rng = np.random.default_rng(seed)
    order = np.argsort(source.starts() + rng.random(len(source.table)) * rng.choice([0, 30, 400]), kind="stable")
    return Source(source.table.take(pa.array(order)), source.key, source.time, source.end, progress=progress)


def answer(source: Source, size: int, late: Late) -> list[Row]:
    return [r for t in source.stream().batches(size, late=late) for r in rows(t)]


def aside(folder: Path) -> list[Row]:
    return rows(ds.dataset(folder, format="parquet").to_table()) if folder.exists() else []


LAW = settings(max_examples=EXAMPLES * 2, phases=[Phase.explicit, Phase.reuse, Phase.generate])
WAYS = {"name": st.sampled_from(sorted(SOURCES)), "policy": st.sampled_from(sorted(POLICIES))}


@given(**WAYS, seed=st.integers(0, 2**20), size=st.sampled_from([1, 3, 17, 1000]))
@LAW
def test_main_and_late_are_the_input(name: str, policy: str, seed: int, size: int) -> None:
    source = disordered(SOURCES[name], POLICIES[policy], seed)
    whole = Counter(map(str, rows(source.table)))
    with TemporaryDirectory() as folder:
        main = answer(source, size, hp.late.side(f"{folder}/late"))
        late = aside(Path(folder) / "late")
    assert Counter(map(str, main + late)) == whole
    assert Counter(map(str, answer(source, size, hp.late.drop()))) == Counter(map(str, main))
    if late:
        with pytest.raises(LateEventError, match="rows are late"):
            answer(source, size, hp.late.error())
    else:
        assert Counter(map(str, answer(source, size, hp.late.error()))) == whole


@given(**WAYS, seed=st.integers(0, 2**20), size=st.sampled_from([1, 3, 17, 1000]))
@LAW
def test_adjusted_rows_all_take_part(name: str, policy: str, seed: int, size: int) -> None:
    """Each row once; a moved one starts later, and its lifetime is as long as it was."""
    source = disordered(SOURCES[name], POLICIES[policy], seed)
    at = 3 if source.end else 2
    moved = answer(source, size, hp.late.adjust())
    given_rows = rows(source.table)
    assert Counter(str((r[0], *r[at:])) for r in moved) == Counter(str((r[0], *r[at:])) for r in given_rows)
    assert sum(r[1] for r in moved) >= sum(r[1] for r in given_rows)
    if source.end:
        assert Counter(str((r[2] - r[1], r[3:])) for r in moved) == Counter(
            str((r[2] - r[1], r[3:])) for r in given_rows
        )


@given(seed=st.integers(0, 2**20), size=st.sampled_from([1, 3, 17]))
@LAW
def test_a_punctuation_that_holds_makes_no_row_late(seed: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    t = rng.integers(0, 100, 40)
    # What the rows after each one really keep.
    truth = np.minimum.accumulate(t[::-1])[::-1]
    mark = np.append(truth[1:], 100)
    source = Source(pa.table({"k": ["a"] * 40, "t": t, "mark": mark}), key="k", progress=hp.punctuated("mark"))
    assert Counter(map(str, answer(source, size, hp.late.error()))) == Counter(map(str, rows(source.table)))


@for_a_law(ALL_CASES)
def test_as_it_comes_equals_the_whole(case: Case) -> None:
    """In time order a source that promises it gives the same answer in pieces."""
    ordered = {}
    for name, s in case.inputs.items():
        order = pa.array(np.argsort(s.starts(), kind="stable"))
        ordered[name] = Source(s.table.take(order), s.key, s.time, s.end, s.sequence, hp.ordered(), s.samples, s.period)
    query = case.build({n: s.stream() for n, s in ordered.items()})
    case.check([r for t in query.batches(7, late=hp.late.error()) for r in rows(t)])
