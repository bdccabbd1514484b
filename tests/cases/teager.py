"""Cases of Teager."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from tests import oracles
from tests.cases import data
from tests.cases.sampling import GRID_44K, _cd_audio, _vectors
from tests.cases.segments import GRIDS, segmented, signals
from tests.cases.table import Case, Row, Source
from tests.cases.uniform import uniform

from hydrophone.ops.filters.teager import Teager


def energy(x: oracles.Samples) -> dict[int, Any]:
    x = {k: np.asarray(v, float)[()] for k, v in x.items()}
    return {k: v * v - x[k - 1] * x[k + 1] for k, v in x.items() if k - 1 in x and k + 1 in x}


def teager(name: str, source: Source, **options: Any) -> Case:
    return uniform(name, Teager, source, lambda x: x.teager(), energy, tolerance=0, **options)


def _of_segments() -> Case:
    """Every key has its own period."""

    def expected(inputs: Mapping[str, Source]) -> list[Row]:
        found = oracles.each(energy, signals(inputs["x"]))
        return [(k, GRIDS[k].instant(n), float(v)) for k, x in found.items() for n, v in x.items()]

    return Case("teager-segments", Teager, {"x": segmented(245)}, lambda s: s["x"].teager(), expected)


CASES = [
    teager("teager", data.beats(240)),
    teager("teager-rough", data.beats(241, value=data.rough)),
    teager("teager-integers", data.beats(242, [7, -7], value=data.widest)),
    teager("teager-single", data.beats(243, value=data.single, lost=0.3)),
    teager("teager-channels", _vectors(), period=1, columns=("v", "w")),
    teager("teager-44khz", _cd_audio(), period=GRID_44K, spacing="44.1kHz"),
    teager("teager-empty", data.empty(data.beats(240))),
    teager("teager-one", data.one_row(data.beats(240))),
    _of_segments(),
]
