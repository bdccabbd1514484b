"""Cases of Feedback: bodies against their recurrence, in a loop over the samples of a key."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from tests import oracles
from tests.cases import data
from tests.cases.sampling import _cd_audio, _vectors
from tests.cases.table import Case, Source
from tests.cases.uniform import uniform

from hydrophone.ops.user.feedback import Feedback

TAPS = [0.5, 0.25, -0.125]


def looped(
    name: str,
    source: Source,
    body: Callable[[Any, Any], Any],
    delay: Any,
    steps: int,
    step: Callable[[Any, Any], Any],
    **options: Any,
) -> Case:
    """A body that looks at one sample of each signal at a time: `step` gives the output from both."""

    def answer(x: oracles.Samples) -> oracles.Samples:
        out: oracles.Samples = {}
        for k in sorted(x):
            out[k] = step(x[k], out.get(k - steps, x[k] * 0.0 if np.isfinite(x[k]).all() else 0.0))
        return out

    return uniform(name, Feedback, source, lambda x: x.feedback(body, delay=delay), answer, **options)


def _clean(x: Any, y: Any) -> Any:
    return np.where(np.isfinite(x) & (np.abs(x) < 1e100), x, 0.0) - 0.5 * y


def _threshold(x: Any, y: Any) -> Any:
    """What a sample adds to the threshold is at most twice the threshold of before, and a bit."""
    return 0.75 * y + 0.25 * np.minimum(np.abs(x), 2 * y + 0.5)


def _with_state() -> Case:
    """Filters before and behind the sum, which remember samples of their own."""

    def answer(x: oracles.Samples) -> oracles.Samples:
        out: oracles.Samples = {}
        mixed: oracles.Samples = {}
        for k in sorted(x):
            back = {i: out.get(i - 3, 0.0) for i in (k, k - 1) if i in x}
            mixed[k] = x[k] + 0.5 * back[k] - 0.25 * back.get(k - 1, 0.0)
            out[k] = sum(t * mixed.get(k - i, 0.0) for i, t in enumerate(TAPS))
        return out

    return uniform(
        "feedback-filtered",
        Feedback,
        data.beats(931),
        lambda x: x.feedback(lambda x, y: (x + y.fir([0.5, -0.25])).fir(TAPS), delay="30ns"),
        answer,
    )


def _ahead() -> Case:
    """A body that looks ahead, by less than the delay: its output waits for a sample, and is none before a hole."""

    def answer(x: oracles.Samples) -> oracles.Samples:
        out: oracles.Samples = {}
        for k in sorted(x):
            if k + 2 in x:
                out[k] = x[k] + 0.5 * out.get(k - 1, 0.0)
        return out

    return uniform(
        "feedback-ahead",
        Feedback,
        data.beats(932),
        lambda x: x.feedback(lambda x, y: x + y.shift(-2) * 0.5, delay=3),
        answer,
    )


def _inner() -> Case:
    """A body with feedback of its own."""

    def answer(x: oracles.Samples) -> oracles.Samples:
        out: oracles.Samples = {}
        inner: oracles.Samples = {}
        for k in sorted(x):
            inner[k] = out.get(k - 4, 0.0) - 0.5 * inner.get(k - 1, 0.0)
            out[k] = x[k] + 0.25 * inner[k]
        return out

    return uniform(
        "feedback-inner",
        Feedback,
        data.beats(933),
        lambda x: x.feedback(lambda x, y: x + y.feedback(lambda y, z: y - z * 0.5, delay=1) * 0.25, delay=4),
        answer,
    )


CASES = [
    looped("feedback", data.beats(930), lambda x, y: x - y * 0.5, 2, 2, lambda x, y: x - 0.5 * y, tolerance=0),
    looped("feedback-threshold", data.beats(935), lambda x, y: x.combine(y, _threshold), 1, 1, _threshold),
    looped("feedback-rough", data.beats(936, value=data.rough), lambda x, y: x.combine(y, _clean), 2, 2, _clean),
    looped(
        "feedback-complex",
        data.beats(938, value=data.complicated),
        lambda x, y: x + y * 0.5j,
        2,
        2,
        lambda x, y: x + 0.5j * y,
    ),
    looped(
        "feedback-vectors",
        _vectors(),
        lambda x, y: x - y * 0.5,
        2,
        2,
        lambda x, y: x - 0.5 * np.asarray(y),
        period=1,
        columns=("v", "w"),
    ),
    looped(
        "feedback-44k",
        _cd_audio(),
        lambda x, y: x - y * 0.5,
        2,
        2,
        lambda x, y: x - 0.5 * y,
        period=Fraction(10**9, 44_100),
        spacing="44.1kHz",
    ),
    looped("feedback-empty", data.empty(data.beats(930)), lambda x, y: x - y * 0.5, 2, 2, lambda x, y: x - 0.5 * y),
    _with_state(),
    _ahead(),
    _inner(),
]
