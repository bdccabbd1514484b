"""Random rows and random parameters of the main operators against their oracles, run in any manner and in slices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.cases import Case, Source, filters, sampling, signals, streams, windows
from tests.laws import random_relations
from tests.laws.harness import EXAMPLES, Manner, Run, manners, sources_of
from tests.laws.test_runs import RESTARTS
from tests.laws.test_slices import bounded, edges, run_slices

from hydrophone.compiler.compile import lower

VALUES = st.floats(-100, 100, width=16) | st.sampled_from([float("nan"), float("inf"), -0.0])


@st.composite
def beats(draw: st.DrawFn, finite: bool = False) -> Source:
    """Point events of two keys at small times, each time once per key."""
    value = st.floats(-100, 100, width=16) if finite else VALUES
    rows = draw(
        st.lists(st.tuples(st.sampled_from("ab"), st.integers(-12, 25), value), max_size=25, unique_by=lambda r: r[:2])
    )
    table = {"k": [r[0] for r in rows], "t": [r[1] for r in rows], "v": [float(r[2]) for r in rows]}
    return Source(
        pa.table(table, schema=pa.schema([("k", pa.string()), ("t", pa.int64()), ("v", pa.float64())])), key="k"
    )


def small(low: int, high: int) -> st.SearchStrategy[int]:
    return st.integers(low, high)


def a_window(draw: st.DrawFn) -> Case:
    size, hop, missing = draw(small(1, 7)), draw(small(1, 9)), draw(st.sampled_from(["drop", "zero"]))
    build: Callable[..., Case] = draw(st.sampled_from([windows.window, windows._ola]))
    return build("window", draw(beats()), size, hop, missing, period=draw(small(1, 3)), tolerance=1e-12)


def a_fir(draw: st.DrawFn) -> Case:
    taps = draw(st.lists(st.floats(-2, 2, width=16), min_size=1, max_size=6))
    return filters.fir(
        "fir",
        draw(beats()),
        [float(t) for t in taps],
        draw(st.sampled_from(["zero", "drop", "reset"])),
        period=draw(small(1, 3)),
    )


def a_sos(draw: st.DrawFn) -> Case:
    sections = draw(st.sampled_from([filters.PLAIN, filters.BUTTER, filters.NOTCH]))
    return filters.sos(
        "sos", draw(beats(finite=True)), sections, draw(st.sampled_from(["zero", "reset"])), period=draw(small(1, 3))
    )


def an_ema(draw: st.DrawFn) -> Case:
    alpha, missing = draw(st.sampled_from([1.0, 0.75, 0.5])), draw(st.sampled_from(["fade", "reset"]))
    return filters.ema("ema", draw(beats()), alpha, missing, period=draw(small(1, 3)))


def a_sample(draw: st.DrawFn) -> Case:
    fill, gap = draw(st.sampled_from([None, "last", "linear"])), draw(st.none() | small(1, 12))
    return sampling.case("sample", draw(beats()), draw(small(1, 5)), fill=fill, gap=gap, origin=draw(small(-3, 3)))


def an_above(draw: st.DrawFn) -> Case:
    threshold, report = draw(st.sampled_from([0.0, -5.5, float("-inf")])), draw(st.none() | small(1, 9))
    return signals.above("above", draw(beats()), threshold, report, period=draw(small(1, 3)))


def a_combine(draw: st.DrawFn) -> Case:
    return signals.combine(
        "combine", draw(beats()), draw(beats()), draw(st.sampled_from("+-*/")), period=draw(small(1, 3))
    )


def a_tumble(draw: st.DrawFn) -> Case:
    return streams.tumble("tumble", draw(beats(finite=True)), draw(small(1, 12)), draw(small(-5, 5)))


def a_band(draw: st.DrawFn) -> Case:
    before = draw(small(-4, 9))
    return streams.band("band", draw(beats()), draw(beats()), before, draw(small(-before, 9)))


MAKERS: list[Callable[[Any], Case]] = [
    a_window,
    a_fir,
    a_sos,
    an_ema,
    a_sample,
    an_above,
    a_combine,
    a_tumble,
    a_band,
    *random_relations.MAKERS,
]


@pytest.mark.parametrize("maker", MAKERS, ids=lambda m: m.__name__)
@given(data=st.data(), manner=manners(), restart=st.sampled_from(sorted(RESTARTS)))
@settings(max_examples=EXAMPLES * 3, phases=[Phase.explicit, Phase.reuse, Phase.generate])
def test_random_queries(maker: Callable[[Any], Case], data: st.DataObject, manner: Manner, restart: str) -> None:
    case = data.draw(st.composite(maker)(), label=maker.__name__)
    case.check(case.build().to_arrow())
    case.check(Run(case, RESTARTS[restart](), manner.apart is not None).go(manner))
    if bounded(case):
        sources = sources_of(case, lower([case.plan]))
        case.check(run_slices(case, edges(sources, np.random.default_rng(manner.seed))))
