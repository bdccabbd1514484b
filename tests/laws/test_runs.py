"""The same answer however rows come: chunks, interleaving, order of arrival, marks, sweeps and restarts at any moment."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.cases import ALL_CASES, Case
from tests.choice import for_a_law
from tests.laws.harness import EXAMPLES, Manner, Run, manners, merged

from hydrophone.engine.pipeline import Pipeline

Restart = Callable[[Run], None]


def from_full(run: Run) -> None:
    """Go on in a fresh pipeline from one complete snapshot."""
    run.drain()
    state = merged({}, run.pipeline.snapshot())
    run.pipeline = Pipeline(run.plan.roots)
    run.pipeline.restore(state)


class Chain:
    """A store of changed blocks; every second time the pipeline goes on from it."""

    def __init__(self) -> None:
        self.store: dict[str, bytes] = {}
        self.turn = 0

    def __call__(self, run: Run) -> None:
        run.drain()
        self.store = merged(self.store, run.pipeline.snapshot(changed=True))
        self.turn += 1
        if self.turn % 2 == 0:
            run.pipeline = Pipeline(run.plan.roots)
            run.pipeline.restore(self.store)


RESTARTS: dict[str, Callable[[], Restart | None]] = {"never": lambda: None, "full": lambda: from_full, "chain": Chain}


# A run is drawn by its seed, so there is nothing to shrink; the seeds are small enough to repeat by hand.
@for_a_law(ALL_CASES)
@given(manner=manners(), restart=st.sampled_from(sorted(RESTARTS)))
@settings(max_examples=EXAMPLES, phases=[Phase.explicit, Phase.reuse, Phase.generate])
def test_no_way_of_running_changes_the_answer(case: Case, manner: Manner, restart: str) -> None:
    """Chunks, arrival order, marks, sweeps and restarts; output marks are checked on the way."""
    case.check(Run(case, RESTARTS[restart](), manner.apart is not None).go(manner))
