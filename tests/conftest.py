"""What all tests share: one Spark session, the golden answers, and how many examples Hypothesis draws."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from tests.golden.answers import Golden

# No deadline: the first call of a compiled kernel takes seconds.
settings.register_profile("here", deadline=None, max_examples=50)
settings.register_profile("ci", settings.get_profile("here"), derandomize=True)
# Hypothesis itself derandomizes wherever CI is set; a long run is there to draw new examples.
settings.register_profile("soak", settings.get_profile("here"), max_examples=2000, derandomize=False)
# --hypothesis-profile on the command line comes later and wins.
settings.load_profile("ci" if os.environ.get("CI") else "here")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Whatever uses the Spark session says so; the examples in the docstrings of hydrophone.spark can't say it themselves."""
    for item in items:
        documented = isinstance(item, pytest.DoctestItem) and item.name.startswith("hydrophone.spark.")
        if documented or "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
    if hasattr(config, "workerinput"):
        items.sort(key=_share)


def _share(item: pytest.Item) -> float:
    """Where two processes share the tests (``--dist=worksteal``), each begins with other cases, and so compiles other kernels.

    All tests of a case lie together: the first half of the table at the start, the second half at the end.
    """
    from tests.cases import ALL_CASES

    if not _places:
        _places.update({c.name: n / len(ALL_CASES) for n, c in enumerate(ALL_CASES)})
    case = getattr(item, "callspec", None) and item.callspec.params.get("case")  # type: ignore[attr-defined]
    return _places.get(getattr(case, "name", ""), 0.5)


_places: dict[str, float] = {}
"""Of cases in the table: 0 is its start, 1 its end."""


# For every Java of Spark that a test starts: little is run often enough there to be worth the second compiler.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The one Spark session of the run, with two tasks at a time."""
    from hydrophone.spark.session import session

    with pytest.MonkeyPatch.context() as patch:
        # Workers import the test module of a function that a test sends them.
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[1]), prepend=os.pathsep)
        running = session("hydrophone-tests", cores=2)
        yield running
        running.stop()


@pytest.fixture(scope="session")
def golden_answers(request: pytest.FixtureRequest) -> Golden:
    """The files of golden answers, or who takes them down."""
    from tests.golden.answers import Golden, Recorder

    recorders = [p for p in request.config.pluginmanager.get_plugins() if isinstance(p, Recorder)]
    return recorders[0] if recorders else Golden()


@pytest.fixture
def golden(golden_answers: Golden, record_property: Callable[[str, object], None]) -> Callable[..., None]:
    """Compare the answer of an engine to a case with the golden one: ``golden("local", case, answer)``."""
    return lambda *answer: record_property("golden", golden_answers.check(*answer))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say how golden answers were compared."""
    reports = [r for held in terminalreporter.stats.values() for r in held if getattr(r, "when", "") == "call"]
    for how, count in Counter(v for r in reports for n, v in r.user_properties if n == "golden").items():
        terminalreporter.write_line(f"golden answers: {count} of {how}")
