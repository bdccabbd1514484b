"""`hydrophone warm`: its queries run, and what they compile is found."""

from __future__ import annotations

from collections import Counter

import pytest

from hydrophone.cli import warm
from hydrophone.cli.commands import main
from hydrophone.model import compiled


def test_all_queries_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm, "ROWS", 200)
    rows = Counter({name: len(query.to_arrow()) for name, query in warm.tour()})
    assert len(rows) > 50 and sum(count > 0 for count in rows.values()) > 50


def test_it_compiles_whatever_the_size(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    small = compiled.SMALL
    sizes = []

    class Query:
        def to_arrow(self) -> None:
            sizes.append(compiled.SMALL)

    monkeypatch.setattr(warm, "tour", lambda: iter([("one query", Query())]))
    assert main(["warm"]) == 0
    assert sizes == [-1] and small == compiled.SMALL
    said = capsys.readouterr()
    assert "compiled loops are in" in said.out and said.err.startswith("one query: ")
