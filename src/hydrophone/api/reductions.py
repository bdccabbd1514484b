"""One value per window: methods of `Windowed`, and the same over the samples of a `UniformSignal`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, Self

import numpy as np

from hydrophone.api.quantities import Extent, sample_count
from hydrophone.api.query import Query, UniformT
from hydrophone.ops.filters.rolling import Rolling, Statistic
from hydrophone.ops.user.calls import refuse_no_function
from hydrophone.ops.user.window_operator import Adding, Apply, is_sliding
from hydrophone.ops.windows.reduce import Reduce
from hydrophone.ops.windows.window import Window
from hydrophone.plan.types import Missing


class Reductions(Query, Generic[UniformT]):
    """Methods of `Windowed`."""

    def reduce(self, function: Callable[..., Any], *, at: str = "end") -> UniformT:
        """One value per window, as samples every `hop`: ``reduce(np.std)``; `at` says whether they lie at the end or start of each window.

        A function without a parameter `axis` gets an array with a row per window and gives one value for each.
        """
        return self._then(Reduce, function=function, at=at)

    def statistic(self, kind: str, *, at: str = "end") -> UniformT:
        """One number per window, by its name.

        ``"sum"``, ``"mean"``, ``"median"``, ``"min"``, ``"max"``, ``"energy"``, ``"power"``, ``"rms"``, ``"std"``, ``"kurtosis"`` or
        ``"crest"``.
        """
        below = self.node
        if isinstance(below, Window) and below.missing is Missing.DROP:
            # The samples themselves: no need to cut windows.
            return type(self)(below.inputs[0])._then(Rolling, kind=kind, size=below.size, hop=below.hop, at=at)
        return self._then(Statistic, kind=kind, at=at)

    def sum(self, *, at: str = "end") -> UniformT:
        """Sum of every window."""
        return self.statistic("sum", at=at)

    def mean(self, *, at: str = "end") -> UniformT:
        """Mean of every window."""
        return self.statistic("mean", at=at)

    def min(self, *, at: str = "end") -> UniformT:
        """Smallest value of every window."""
        return self.statistic("min", at=at)

    def max(self, *, at: str = "end") -> UniformT:
        """Largest value of every window."""
        return self.statistic("max", at=at)

    def energy(self, *, at: str = "end") -> UniformT:
        """Sum of the squared magnitudes of every window."""
        return self.statistic("energy", at=at)

    def rms(self, *, at: str = "end") -> UniformT:
        """Root of the mean square of every window."""
        return self.statistic("rms", at=at)

    def std(self, *, at: str = "end") -> UniformT:
        """Standard deviation of every window (of the population, as ``numpy.std``)."""
        return self.statistic("std", at=at)

    def kurtosis(self, *, at: str = "end") -> UniformT:
        """Excess kurtosis of every window, as ``scipy.stats.kurtosis``."""
        return self.statistic("kurtosis", at=at)

    def crest(self, *, at: str = "end") -> UniformT:
        """Largest magnitude over the root mean square of every window."""
        return self.statistic("crest", at=at)

    def aggregate(
        self,
        add: Callable[[Any, Any], Any],
        remove: Callable[[Any, Any], Any] | None = None,
        result: Callable[[Any], Any] | None = None,
        *,
        initial: float | complex | Sequence[float | complex] = 0.0,
        at: str = "end",
    ) -> UniformT:
        """A user-defined aggregate: ``add(state, samples)`` and ``remove(state, samples)`` give the new state, ``result(state)`` a value.

        All get arrays with a row per window; a state has as many columns as `initial` has numbers. Where windows overlap, only samples
        that come and go are added and removed; now and then, and where there is no `remove`, the state is made afresh from `initial`.

        Examples
        --------
        >>> import pyarrow as pa, hydrophone as hp
        >>> x = hp.from_arrow(pa.table({"t": [0, 1, 2, 3], "v": [1.0, 2.0, 3.0, 4.0]}), time="t").signal("v").sample(1)
        >>> def add(state, sample_count):
        ...     return state + (sample_count**3).sum(axis=1, keepdims=True)
        >>> def remove(state, sample_count):
        ...     return state - (sample_count**3).sum(axis=1, keepdims=True)
        >>> x.window(2, hop=1).aggregate(add, remove).to_arrow()["value"].to_pylist()
        [9.0, 35.0, 91.0]
        """
        for function in (add, *(f for f in (remove, result) if f is not None)):
            refuse_no_function("aggregate", function)
        start = tuple(np.atleast_1d(np.asarray(initial)).tolist())
        states: Query = self._then(Apply, operator=Adding(add, remove, start), raw=is_sliding(self.node))
        return states._then(Reduce, function=result or first_number, at=at, what="aggregate")


def first_number(states: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The first number of every state: what an aggregate without `result` gives."""
    out: np.ndarray[Any, Any] = states[:, 0]
    return out


class Rollings(Query):
    """Methods of `UniformSignal`: aggregates of the last `size` samples, every `hop` samples (by default `size`)."""

    def rolling(
        self, kind: str, size: Extent, *, hop: Extent | None = None, missing: str = "drop", at: str = "end"
    ) -> Self:
        """An aggregate of windows by its name; ``rms(...)`` and its kin are short for it.

        Channels are aggregated each by itself. ``missing="drop"`` gives nothing where a sample is missing, ``"skip"`` aggregates
        those that are there, and with ``"zero"`` a hole counts as zeros, as in `window`. `at` says whether a result lies at the
        ``"end"`` of its window, the instant of its last sample, or at the ``"start"``.
        """
        span = sample_count(size, self.node.type, f"{kind}: size")
        step = span if hop is None else sample_count(hop, self.node.type, f"{kind}: hop")
        if missing == "zero":
            cut: Query = self._then(Window, size=span, hop=step, missing=Missing.ZERO)
            return cut._then(Statistic, kind=kind, at=at)
        return self._then(Rolling, kind=kind, size=span, hop=step, at=at, missing=missing)

    def sum(self, size: Extent, *, hop: Extent | None = None, missing: str = "drop", at: str = "end") -> Self:
        """Sum of the last `size` samples. Options as in `rolling`."""
        return self.rolling("sum", size, hop=hop, missing=missing, at=at)

    def mean(self, size: Extent, *, hop: Extent | None = None, missing: str = "drop", at: str = "end") -> Self:
        """Mean of the last `size` samples. Options as in `rolling`."""
        return self.rolling("mean", size, hop=hop, missing=missing, at=at)

    def min(self, size: Extent, *, hop: Extent | None = None, missing: str = "drop", at: str = "end") -> Self:
        """Smallest of the last `size` samples. Options as in `rolling`."""
        return self.rolling("min", size, hop=hop, missing=missing, at=at)

    def max(self, size: Extent, *, hop: Extent | None = None, missing: str = "drop", at: str = "end") -> Self:
        """Largest of the last `size` samples. Options as in `rolling`."""
        return self.rolling("max", size, hop=hop, missing=missing, at=at)

    def energy(self, size: Extent, *, hop: Extent | None = None, missing: str = "drop", at: str = "end") -> Self:
        """Sum of the squared magnitudes of the last `size` samples. Options as in `rolling`."""
        return self.rolling("energy", size, hop=hop, missing=missing, at=at)

    def power(self, size: Extent, *, hop: Extent | None = None, missing: str = "drop", at: str = "end") -> Self:
        """Mean of the squared magnitudes of the last `size` samples. Options as in `rolling`."""
        return self.rolling("power", size, hop=hop, missing=missing, at=at)

    def rms(self, size: Extent, *, hop: Extent | None = None, missing: str = "drop", at: str = "end") -> Self:
        """Root of the mean square of the last `size` samples. Options as in `rolling`."""
        return self.rolling("rms", size, hop=hop, missing=missing, at=at)

    def std(self, size: Extent, *, hop: Extent | None = None, missing: str = "drop", at: str = "end") -> Self:
        """Standard deviation of the last `size` samples (of the population, as ``numpy.std``). Options as in `rolling`."""
        return self.rolling("std", size, hop=hop, missing=missing, at=at)

    def kurtosis(self, size: Extent, *, hop: Extent | None = None, missing: str = "drop", at: str = "end") -> Self:
        """Excess kurtosis of the last `size` samples, as ``scipy.stats.kurtosis``. Options as in `rolling`."""
        return self.rolling("kurtosis", size, hop=hop, missing=missing, at=at)

    def crest(self, size: Extent, *, hop: Extent | None = None, missing: str = "drop", at: str = "end") -> Self:
        """Largest magnitude over the root mean square of the last `size` samples. Options as in `rolling`."""
        return self.rolling("crest", size, hop=hop, missing=missing, at=at)
