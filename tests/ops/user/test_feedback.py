"""What a body of feedback may not be, and what becomes of its state."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.cases import Case
from tests.cases.feedback import CASES

import hydrophone as hp
from hydrophone.compiler.compile import lower
from hydrophone.engine.pipeline import Pipeline
from hydrophone.errors import DataError, ParameterError, SignalTypeError
from hydrophone.model.batch import Progress


def signal(*values: float) -> hp.UniformSignal:
    return hp.from_numpy(np.array(values or (8.0, 0.0, 4.0, 0.0, 0.0)), rate="100Hz")


@pytest.mark.parametrize("delay", [0, -3, "0ms", "15ms", 1.5])
def test_a_delay_is_a_whole_number_of_samples(delay: Any) -> None:
    with pytest.raises(ParameterError, match="feedback: delay"):
        signal().feedback(lambda x, y: x + y, delay=delay)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (lambda x, y: x, "does not use its second argument"),
        (lambda x, y: signal() + y, "reads another signal"),
        (lambda x, y: x + y.feedback(lambda a, b: a + b + x, delay=1), "reads another signal"),
        (lambda x, y: x + y.shift(-3), "ahead"),
        (3, "a function of two signals"),
    ],
)
def test_what_a_body_may_not_be(body: Any, said: str) -> None:
    with pytest.raises(ParameterError, match=f"feedback: .*{said}"):
        signal().feedback(body, delay=3)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (lambda x, y: (x + y).decimate(2), "gives 50 Hz|gives every 20ms"),
        (lambda x, y: (x + y).above(2), "must give a uniform signal"),
        (lambda x, y: 3.0, "must give a signal"),
        (
            lambda x, y: y.map(lambda v: v.astype(np.float32 if v.dtype == np.float64 else np.float64)),
            "come back as what it is",
        ),
    ],
)
def test_what_cannot_come_back(body: Any, said: str) -> None:
    with pytest.raises(SignalTypeError, match=f"{said}"):
        signal().feedback(body, delay=30)


def test_a_body_changes_no_key() -> None:
    rows = pa.table({"k": ["a", "b"], "t": [0, 10], "v": [1.0, 2.0]})
    x = hp.from_arrow(rows, key="k", time="t").signal("v").sample(10)

    def merged(x: Any, y: Any) -> Any:
        return (x + y).events("v").key_by().tumble(10).agg(v=hp.sum("v")).signal("v").sample(10)

    with pytest.raises(SignalTypeError, match="changes the key"):
        x.feedback(merged, delay=3)


def test_every_key_has_one_period() -> None:
    schema = pa.schema([("k", pa.string()), ("t", pa.int64()), ("p", pa.int64()), ("v", pa.list_(pa.float64()))])
    x = hp.from_segments(schema.empty_table(), key="k", time="t", period="p", samples="v")
    with pytest.raises(SignalTypeError, match="a period of its own"):
        x.feedback(lambda x, y: x + y, delay=2)


def test_a_body_that_holds_its_results_back_is_refused_when_it_runs() -> None:
    """Its reach has no bound, so that nobody knows before."""

    def waiting(x: Any, y: Any) -> Any:
        sums = (x + y).events("v").tumble("40ms").agg(v=hp.sum("v"))
        return sums.signal("v").sample("10ms", fill=hp.hold())

    with pytest.raises(DataError, match=r"holds its results back for longer than the delay") as error:
        signal().feedback(waiting, delay=2).to_arrow()
    assert "feedback" in str(error.value)


def test_integers_come_back_as_floats() -> None:
    x = hp.from_numpy(np.array([100, 100, 100], np.int8), rate="100Hz")
    found = x.feedback(lambda x, y: x + y, delay=1).to_arrow()["value"]
    assert found.type == pa.float64() and found.to_pylist() == [100.0, 200.0, 300.0]


def test_state_does_not_grow_with_time() -> None:
    case: Case = next(c for c in CASES if c.name == "feedback-filtered")
    pipeline, sizes = Pipeline(lower([case.build().node]).roots), []
    for second in range(40):
        t = second * 500 + np.arange(50) * 10
        rows = pa.table({"k": np.repeat(["a", "b"], 50), "t": np.tile(t, 2), "v": np.ones(100)})
        pipeline.rows(0, rows)
        pipeline.advance([Progress(int(t[-1]) + 10)])
        assert sum(map(len, pipeline.drain())) > 0
        sizes.append(pipeline.state_bytes)
    assert max(sizes[20:]) <= max(sizes[:20])
    pipeline.advance([Progress(10**9)])
    assert pipeline.sweep() == 2
