"""User-defined filters and stateful operators."""

from __future__ import annotations

from typing import Self

from hydrophone.api.query import Query
from hydrophone.errors import ParameterError
from hydrophone.ops.user.blocks import Blocks
from hydrophone.ops.user.digital_filter import DigitalFilter, Filter
from hydrophone.ops.user.iterate import Iterate, StatefulOperator
from hydrophone.ops.windows.overlap_add import OverlapAdd
from hydrophone.ops.windows.window import Window


class UserDefinedFilters(Query):
    """Methods of `UniformSignal`."""

    def filter(self, operator: DigitalFilter) -> Self:
        """A user-defined digital filter; see `hydrophone.DigitalFilter`."""
        return self._then(Filter, operator=operator)

    def iterate(self, operator: StatefulOperator) -> Self:
        """A user-defined stateful operator, over blocks of ``operator.size`` samples; see `hydrophone.StatefulOperator`.

        Blocks lie on the absolute grid. Start, gap and end: a block that is not complete gives nothing, and after one that
        is missing the operator starts afresh. Where `step` gives another number of values than it gets samples, they are samples of
        another rate: spread evenly over the block, the first at its first sample, with an exact period.
        """
        size = operator.size if isinstance(operator, StatefulOperator) else 1
        if size < 1:
            raise ParameterError(f"iterate: size must be at least 1 sample, got {size}")
        blocks: Query = self._then(Window, size=size, hop=size)
        found: Query = blocks._then(Iterate, operator=operator)
        if not found.node.type.length:
            raise ParameterError(
                f"iterate: {type(operator).__qualname__}.step gives no values",
                hint="give at least one per block and key",
            )
        return found._then(OverlapAdd if found.node.type.length == size else Blocks)


class UserDefinedIterations(Query):
    """Methods of `Windowed`."""

    def iterate(self, operator: StatefulOperator) -> Self:
        """A user-defined stateful operator over windows: a row per key in, one out; see `hydrophone.StatefulOperator`."""
        return self._then(Iterate, operator=operator)
