"""The Python on the page about filters runs, and hears what it says."""

from __future__ import annotations

from typing import Any

import pytest
from tests.docs.test_docs import blocks


def test_the_page_on_filters_runs(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"__name__": "docs"}
    for line, code in blocks("docs/filters.md"):
        exec(compile("\n" * line + code, "docs/filters.md", "exec"), names)
    found = names["heard"].to_pandas()
    assert len(found) == 1 and 1.99e9 < found["t"][0] < 2.05e9
