"""Group delay: by how much the filters of a chain delay a tone."""

from __future__ import annotations

from hydrophone.api.quantities import hertz
from hydrophone.api.query import Query


class Delays(Query):
    """Methods of `UniformSignal`."""

    def group_delay(self, frequency: float | str) -> float:
        """By how many seconds the filters that made this signal delay a tone: ``scipy.signal.group_delay``, added up along the chain.

        The chain goes back over `fir`, `iir`, `sos` and what is made of them, shifts, products with numbers and `resample_poly` (which has
        no delay) to the first other operator. NaN at a frequency that a filter takes away. ``shift(-n)`` makes up for a delay of n samples.

        Examples
        --------
        >>> import pyarrow as pa, hydrophone as hp
        >>> x = hp.from_arrow(pa.table({"t": [0], "v": [1.0]}), time="t").signal("v").sample("1ms")
        >>> x.lowpass(100, taps=51).group_delay(20), x.lowpass(100, taps=51).shift(-25).group_delay(20)
        (0.025, 0.0)
        """
        at, node, total = hertz(frequency, self.node.type, "group_delay: frequency"), self.node, 0.0
        while (own := node.group_delay(at)) is not None:
            total, node = total + own, node.inputs[0]
        return round(total, 12) + 0.0  # no minus zero
