"""All Python in the README and the docs runs, block after block, on real data."""

import os
import re
from pathlib import Path

import pytest

from hydrophone import demo

ROOT = Path(__file__).parent.parent
PAGES = ["README.md", "docs/architecture.md", "docs/relations.md"]


def blocks(page: str) -> list[tuple[int, str]]:
    text = (ROOT / page).read_text()
    found = re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [(text[: m.start(1)].count("\n"), m.group(1)) for m in found]


@pytest.mark.spark
@pytest.mark.parametrize("page", PAGES)
def test_the_code_in_the_docs_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: object) -> None:
    lake = demo.make_lake(tmp_path / "made", sensors=12, seconds=90, files=3)
    os.rename(lake.ordered, tmp_path / "readings")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "docs"}
    for line, code in blocks(page):
        # The line numbers of a failure are those of the page.
        exec(compile("\n" * line + code, page, "exec"), names)
