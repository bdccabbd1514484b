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


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the groups in the same hook
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Whatever uses the Spark session says so; the examples in the docstrings of hydrophone.spark can't say it themselves."""
    for item in items:
        documented = isinstance(item, pytest.DoctestItem) and item.name.startswith("hydrophone.spark.")
        if documented or "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: _group(item)[0])
        for item in items:
            item.add_marker(pytest.mark.xdist_group(_group(item)[1]))


def _group(item: pytest.Item) -> tuple[int, str]:
    """What one process of many runs (``--dist=loadgroup``), and how early it begins.

    Two groups need Spark, so that there are two sessions. They come first, and while they wait another process runs files without Spark.
    All tests of a case go last: they compile the same kernels, and are short, so that all processes end together.
    """
    file = item.nodeid.partition("::")[0]
    if item.get_closest_marker("spark"):
        session = 1 if Path(file).stem in _FIRST_SESSION else 2
        return 0, f"spark-{session}"
    case = getattr(getattr(item, "callspec", None), "params", {}).get("case")
    return (1, file) if case is None else (2, f"case-{case.name}")


_FIRST_SESSION = {
    "test_batch",
    "test_checkpoints",
    "test_csv_on_spark",
    "test_docs",
    "test_kill",
    "test_lakes",
    "test_streaming",
}
"""Files that take half of the time that all with Spark take."""


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
