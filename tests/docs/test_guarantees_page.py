"""Every promise of docs/guarantees.md has a test."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_promise_names_tests_that_exist() -> None:
    tests = "\n".join(p.read_text() for p in (ROOT / "tests").rglob("test_*.py"))
    text = (ROOT / "docs/guarantees.md").read_text()
    assert re.findall(r"^## (.*)", text, re.MULTILINE)[:3] == ["Streams and files", "Numbers", "Clocks"]
    lines = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| what |")]
    assert len(lines) > 10
    for line in lines:
        named = re.findall(r"`(test_\w+)`", line.split(" | ")[-1])
        assert named, f"no test: {line}"
        for name in named:
            assert f"def {name}(" in tests, f"{name} is no test"
