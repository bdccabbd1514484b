"""WindowChannel: one channel of windows."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hydrophone.errors import ParameterError
from hydrophone.model.batch import Batch, Windows
from hydrophone.model.kernel import Kernel, Stateless
from hydrophone.plan.node import Node
from hydrophone.plan.types import WindowedType


@dataclass(frozen=True, kw_only=True, eq=False)
class WindowChannel(Node):
    """One channel of windows; reference: ``windows[:, number]``."""

    stable_name = "window_channel"

    number: int

    gives = None

    @classmethod
    def name(cls) -> str:
        """As the user writes it."""
        return "channel"

    def output_type(self, x: WindowedType) -> WindowedType:
        """Without channels."""
        if not 0 <= self.number < max(x.channels, 1):
            raise ParameterError(f"channel: no channel {self.number}; these windows have {max(x.channels, 1)}")
        return replace(x, channels=0)

    def kernel(self, x: WindowedType) -> Kernel:
        """A view."""
        return WindowChannelKernel(self.number)


class WindowChannelKernel(Stateless):
    """Picks an array."""

    def __init__(self, number: int) -> None:
        self.number = number

    def map(self, batch: Batch) -> Batch:
        """A view of one batch."""
        assert isinstance(batch, Windows)
        return batch.with_values(batch.values[:, self.number]) if batch.values.ndim == 3 else batch
