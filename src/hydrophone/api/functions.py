"""Signals whose payload is a function of time, until they are sampled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic

from hydrophone.api.query import Query, UniformT
from hydrophone.arguments import public
from hydrophone.model.time import Duration, Instant, instant, period
from hydrophone.model.timebase import Timebase
from hydrophone.ops.signals.functions import SampleFunction, TimeScale

Functions = Callable[[Any, Any], Any] | Mapping[Any, Callable[[Any, Any], Any]]


@dataclass(frozen=True, eq=False)
class FunctionSignal(Generic[UniformT]):
    """Events that are functions of time, waiting for `sample`.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa, hydrophone as hp
    >>> notes = pa.table({"t": [0, 500_000_000], "end": [250_000_000, 750_000_000], "freq": [1.0, 3.0]})
    >>> tones = hp.from_arrow(notes, time="t", end="end").signal(lambda t, e: np.cos(2 * np.pi * e.freq * t))
    >>> tones.sample("125ms").to_pandas()["value"].round(3).tolist()
    [1.0, 0.707, -1.0, 0.707]
    """

    stream: Query
    functions: Functions
    by: str | None
    clock: TimeScale
    dtype: str

    def select(self, function: Functions, *, by: str | None = None) -> FunctionSignal[UniformT]:
        """The same events with another function."""
        return replace(self, functions=function, by=by)

    @public
    def sample(self, spacing: Duration, *, offset: Instant = 0) -> UniformT:
        """The values of the functions at the beats inside their events."""
        several = isinstance(self.functions, Mapping)
        functions = tuple(self.functions.items()) if isinstance(self.functions, Mapping) else ((None, self.functions),)
        return self.stream._then(
            SampleFunction,
            timebase=Timebase(period(spacing), instant(offset)),
            functions=functions,
            by=self.by if several else None,
            clock=self.clock,
            dtype=self.dtype,
        )
