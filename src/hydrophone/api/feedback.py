"""Feedback: a signal and its own output some time later."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import numpy as np

from hydrophone.api.quantities import sample_count
from hydrophone.api.query import Query, handle
from hydrophone.compiler.reach import reach_of_sources
from hydrophone.errors import ParameterError, SignalTypeError, user_line
from hydrophone.ops.user.feedback import Feedback, Inlet
from hydrophone.plan.node import Node, build
from hydrophone.plan.types import UniformType


class Feedbacks(Query):
    """Methods of `UniformSignal`."""

    def feedback(self, body: Callable[[Self, Self], Self], *, delay: int | str) -> Self:
        """A cycle: ``body(x, y)`` is computed from this signal `x` and from its own output `y`, which comes back `delay` later.

        The body is a query over both, with operators of any kind that keep the key and end on the same grid. `delay` is a duration or a
        number of samples, at least one. `y` has a sample wherever `x` has one: the output `delay` before, and zero where there was
        none, so at the start of a key and after a hole. The body is called here, once or twice, to build its plan.

        Examples
        --------
        An echo, half as loud 20 ms later, is taken out of a recording:

        >>> import hydrophone as hp, numpy as np
        >>> heard = hp.from_numpy(np.array([8.0, 0, 4, 0, 0, 0]), rate="100Hz")
        >>> heard.feedback(lambda x, y: x - y * 0.5, delay="20ms").to_arrow()["value"].to_pylist()
        [8.0, 0.0, 0.0, 0.0, 0.0, 0.0]
        """
        kind = self.node.type
        try:
            steps = sample_count(delay, kind, "feedback: delay")
            found = _body(self.node, body)
            query: Self = self._then(Feedback, body=found, delay=steps)
            _check_lookahead(found, steps, kind)
        except (ParameterError, SignalTypeError) as error:
            error.locate("feedback", user_line())
            raise
        return query


def _body(x: Node, body: Callable[[Any, Any], Any]) -> Node:
    """The plan of a body, over inlets; what comes back has the type of what the body gives."""
    if not callable(body):
        raise ParameterError(
            f"feedback: expected a function of two signals, got {body!r}", hint="lambda x, y: x - y * 0.5"
        )
    y: Any = x.type
    if y.dtype.kind in "iub":
        y = replace(y, dtype=np.dtype(np.float64))
    for _ in range(3):
        found = body(*(handle(build(inlet)) for inlet in Inlet.pair(x, y)))
        if not isinstance(found, Query):
            raise SignalTypeError(f"feedback: the body must give a signal, and gives {type(found).__name__}")
        if found.node.type == y or not isinstance(found.node.type, UniformType):
            return found.node
        y = replace(y, dtype=found.node.type.dtype, channels=found.node.type.channels)
        if found.node.type != y:
            return found.node  # the key or the grid is another: the node says so
    raise SignalTypeError(
        f"feedback: the body gives {found.node.type.describe()} for {y.describe()}, so that it cannot come back as what it is",
        hint="the type of the output must not depend on its own: y.map(lambda v: v.astype(float))",
    )


def _check_lookahead(body: Node, steps: int, kind: UniformType) -> None:
    """Refuse a body that needs what comes after the delay; what has no bound is found when it runs."""
    if kind.timebase is None or steps < 1:
        return  # the node refuses that
    most = math.ceil(steps * kind.timebase.period)
    for reach in reach_of_sources(body).values():
        if reach.after is not None and reach.after > most:
            raise ParameterError(
                f"feedback: the body looks {reach.after:,} ns ahead, which is not before its output comes back",
                hint="use a longer delay, or operators that look ahead less",
            )
