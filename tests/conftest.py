"""What all tests share: one Spark session, and how many examples Hypothesis draws."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# No deadline: the first call of a compiled kernel takes seconds.
settings.register_profile("here", deadline=None, max_examples=50)
settings.register_profile("ci", settings.get_profile("here"), derandomize=True)
# Hypothesis itself derandomizes wherever CI is set; a long run is there to draw new examples.
settings.register_profile("soak", settings.get_profile("here"), max_examples=2000, derandomize=False)
# --hypothesis-profile on the command line comes later and wins.
settings.load_profile("ci" if os.environ.get("CI") else "here")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever uses the Spark session says so; the examples in the docstrings of hydrophone.spark can't say it themselves."""
    for item in items:
        documented = isinstance(item, pytest.DoctestItem) and item.name.startswith("hydrophone.spark.")
        if documented or "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)


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
