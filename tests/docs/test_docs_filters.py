"""The Python on the page about filters runs, and hears what it says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.docs.test_docs import blocks


def test_the_page_on_filters_runs(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"__name__": "docs"}
    for line, code in blocks("docs/filters.md"):
        exec(compile("\n" * line + code, "docs/filters.md", "exec"), names)
    found = names["heard"].to_pandas()
    assert len(found) == 1 and 1.99e9 < found["t"][0] < 2.05e9
    assert np.allclose(names["cleaned"].to_arrow()["value"].to_numpy(), names["said"], rtol=0, atol=1e-12)
    assert names["found_clicks"].to_pandas()["time"].tolist() == [click * 1_000_000 for click in names["clicks"]]
