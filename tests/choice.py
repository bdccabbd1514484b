"""Which cases run in `make test` where it does not run all: a few that cover every operator and every kind of state.

The rules are here and nowhere else. What a case computes is proved for all of them by the golden answers; a law proves
something about operators and their states, and more cases of these repeat it. `make soak` runs all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache

import pytest
from tests.cases import ALL_CASES, Case

from hydrophone.compiler.compile import Host, compile_plan, lower
from hydrophone.compiler.reach import reach_of_sources
from hydrophone.engine.emit import result_schema
from hydrophone.engine.pipeline import Pipeline
from hydrophone.engine.watch import waiting
from hydrophone.errors import PlanError
from hydrophone.model.state import SlotArrays

_kept: dict[str, set[tuple[str, str]]] = {}


def kept(case: Case) -> set[tuple[str, str]]:
    """What the plan of a case keeps: the kernel, and the kind of state: operator, name and what it is made of."""
    if case.name not in _kept:
        found = set()
        for station in Pipeline(lower([case.plan]).roots).stations.values():
            for name, held in station.states.items():
                types = {n: a.dtype.str for n, a in held.arrays.items()} if isinstance(held, SlotArrays) else held.kind
                found.add((type(station.kernel).__name__, f"{type(station.node).__name__} {name} {types}"))
        _kept[case.name] = found
    return _kept[case.name]


def representative(cases: Iterable[Case]) -> list[Case]:
    """In the order of the table, each case that is the first of its operator or keeps a kind of state that none before it keeps."""
    operators: set[type] = set()
    states: set[tuple[str, str]] = set()
    chosen = []
    for case in cases:
        if case.node not in operators or kept(case) - states:
            chosen.append(case)
            operators.add(case.node)
            states |= kept(case)
    return chosen


def for_a_law(cases: Iterable[Case]) -> pytest.MarkDecorator:
    """All cases as the parameter ``case`` of a test; those that are not representative run in `make soak` only."""
    cases = list(cases)
    return _marked(cases, {c.name for c in representative(cases)})


def _marked(cases: Iterable[Case], now: set[str]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "case", [pytest.param(c, id=c.name, marks=() if c.name in now else pytest.mark.soak) for c in cases]
    )


# --- batches on Spark ---------------------------------------------------------------------------------------------------


def for_slices() -> pytest.MarkDecorator:
    """The cases that run as slices on Spark: in `make test` few that can for all that there is, and of those that are refused."""
    return _marked(ALL_CASES, {c.name for c in [*_few(filter(_has_reach, ALL_CASES)), *_refused_slices()[:2]]})


def for_shards() -> pytest.MarkDecorator:
    """The cases that run as shards on Spark: in `make test` few for all that there is."""
    return _marked(ALL_CASES, {c.name for c in _few(ALL_CASES)})


def _few(cases: Iterable[Case]) -> list[Case]:
    """Few cases that together have every operator, kernel with state and type of a result: what crosses to Spark and back.

    What operators compute in slices and shards, the laws prove in this process.
    """
    return covering(cases, lambda c: _operators(c) | {k for k, _ in kept(c)} | _types(c))


def _operators(case: Case) -> set[str]:
    return {f"{type(n).__module__}.{type(n).__name__}" for n in case.plan.topological()}


def _types(case: Case) -> set[str]:
    return {str(t) for t in result_schema(case.plan.type, "rows").types}


def _has_reach(case: Case) -> bool:
    """Whether slices are possible: the answer at an instant depends on a known stretch of time around it."""
    return all(r.bounded for r in reach_of_sources(compile_plan(case.plan, Host.SLICES)).values())


def _refused_slices() -> list[Case]:
    return [c for c in ALL_CASES if not _has_reach(c)]


def covering(cases: Iterable[Case], features: Callable[[Case], set[str]]) -> list[Case]:
    """Few cases that together have every feature that any of the cases has."""
    cases = list(cases)
    found = {c.name: features(c) for c in cases}
    lacking: set[str] = set().union(*found.values())
    chosen = []
    while lacking:
        best = max(cases, key=lambda c: len(found[c.name] & lacking))
        lacking -= found[best.name]
        chosen.append(best)
    return chosen


def asked(request: pytest.FixtureRequest, test: str) -> list[Case]:
    """The cases that this run of pytest asks of a test, for a fixture that answers many at once."""
    return [i.callspec.params["case"] for i in request.session.items if getattr(i, "originalname", "") == test]  # type: ignore[attr-defined]


# --- real streams -------------------------------------------------------------------------------------------------------


def for_a_stream() -> pytest.MarkDecorator:
    """The cases that run as real Spark streams: those for every kernel with state in `make test`, all in `make soak`."""
    return _marked(streamed(), {c.name for c in one_for_every_kernel()})


@cache
def one_for_every_kernel() -> list[Case]:
    """Few cases, for every kernel with state: a stream costs seconds."""
    return covering(filter(_ends, ALL_CASES), lambda c: {kernel for kernel, _ in kept(c)})


def _ends(case: Case) -> bool:
    """Whether a stream gives the whole answer: no window waits for a key that has fallen silent."""
    return can_stream(case) and not may_stall(case)


def streamed() -> list[Case]:
    """Cases for every operator and kind of state, those for every kernel first."""
    now = one_for_every_kernel()
    more = representative(filter(_ends, ALL_CASES))
    return [*now, *(c for c in more if c.name not in {n.name for n in now})]


def can_stream(case: Case) -> bool:
    """Streams read no segments, and refuse what could wait for ever."""
    return not reads_segments(case) and not _refused(case, None)


def may_stall(case: Case) -> bool:
    """Whether a stream refuses the query, or would refuse an operator that waits for it, because of keys that fall silent."""
    if case.plan.digest not in _stalls:
        _stalls[case.plan.digest] = reads_segments(case) or _refused(case, "an operator above")
    return _stalls[case.plan.digest]


_stalls: dict[str, bool] = {}


def reads_segments(case: Case) -> bool:
    """Whether a source has segments: each key may have a period of its own, which nobody knows before it comes."""
    return any(s.samples for s in case.inputs.values())


def _refused(case: Case, above: str | None) -> bool:
    try:
        for node, waits in waiting(case.plan).items():
            node.check_stream(waits or above)
    except PlanError:
        return True
    return False
