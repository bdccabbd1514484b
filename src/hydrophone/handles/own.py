"""Filters and stateful operators of one's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hydrophone.errors import ParameterError
from hydrophone.handles.query import Query
from hydrophone.ops.blocks import Blocks
from hydrophone.ops.digital_filter import DigitalFilter, Filter
from hydrophone.ops.iterate import Iterate, StatefulOperator
from hydrophone.ops.windows import Window

if TYPE_CHECKING:
    from hydrophone.handles.uniform import UniformSignal
    from hydrophone.handles.windowed import Windowed


class OwnFilters(Query):
    """Methods of `UniformSignal`."""

    def filter(self, operator: DigitalFilter) -> UniformSignal:
        """A digital filter of one's own; see `hydrophone.DigitalFilter`."""
        return self._then(Filter, operator=operator)

    def iterate(self, operator: StatefulOperator) -> UniformSignal:
        """A stateful operator of one's own, over blocks of ``operator.size`` samples; see `hydrophone.StatefulOperator`.

        Blocks lie on the absolute grid. Start, gap and end: a block that is not complete gives nothing, and after one that
        is missing the operator starts afresh. Where `step` gives another number of values than it gets samples, they are samples of
        another rate: spread evenly over the block, the first at its first sample, with an exact period.
        """
        size = operator.size if isinstance(operator, StatefulOperator) else 1
        if size < 1:
            raise ParameterError(f"iterate: size must be at least 1 sample, got {size}")
        blocks: Windowed = self._then(Window, size=size, hop=size)
        found = blocks.iterate(operator)
        if not found.node.type.length:
            raise ParameterError(
                f"iterate: {type(operator).__qualname__}.step gives no values",
                hint="give at least one per block and key",
            )
        return found.overlap_add() if found.node.type.length == size else found._then(Blocks)


class OwnIterations(Query):
    """Methods of `Windowed`."""

    def iterate(self, operator: StatefulOperator) -> Windowed:
        """A stateful operator of one's own over windows: a row per key in, one out; see `hydrophone.StatefulOperator`."""
        return self._then(Iterate, operator=operator)
