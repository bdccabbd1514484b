"""The benchmarks of schedulers, in small: all ways give the same answer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from hydrophone.bench import engine_chain, offered_load, pipes
from hydrophone.bench.harness import Measured

SMALL: dict[str, Callable[[], Measured]] = {
    "passchain": partial(engine_chain._measured, 10, 1, engine_chain.SCHEDULERS["depth first"]),
    "enginebench": partial(engine_chain._measured, 120, 1, engine_chain.SCHEDULERS["operator threads"]),
    "schedulers": partial(offered_load._offered, 4 * offered_load.PIECE, 1, 2.0, 2),
    "pipes_hmts": partial(pipes._hmts, 3_000, 1, False, False),
    "pipes_hmts waits": partial(pipes._hmts, 3_000, 1, False, True),
    "pipes_di": partial(pipes._di, 2_000, 1),
    "pipes_memory": partial(pipes._memory, 20_000, 1, True),
    "pipes_decouple": partial(pipes._decouple, 400, 1),
}


@pytest.mark.parametrize("name", SMALL)
def test_all_ways_agree(name: str) -> None:
    found = SMALL[name]()
    assert "ours" in found and len(found) > 1
    assert len({tuple(answer) for _, answer in found.values()}) == 1 and all(any(a) for _, a in found.values())
    assert all(seconds >= 0 for times, _ in found.values() for seconds in times)
