"""The line that says what long work is doing."""

from __future__ import annotations

import io
import time

import pytest

from hydrophone.cli import progress_bar as ticker


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_sees_it_and_is_clean_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ticker, "_SOON", 0.01)
    monkeypatch.setattr(ticker, "_EVERY", 0.01)
    out = Terminal()
    with ticker.working("reading", out) as line:
        line.at(1, 2, "files")
        while "1 of 2 files 0 s" not in out.getvalue():
            time.sleep(0.01)
    assert out.getvalue().startswith("\rreading [##########..........] 1 of 2 files 0 s")
    shown = out.getvalue().rsplit("\r", 2)
    assert shown[1].strip() == "" and shown[2] == ""


def test_work_that_is_quick_and_other_files_see_nothing() -> None:
    quick, file = Terminal(), io.StringIO()
    with ticker.working("reading", quick), ticker.working("reading", file):
        pass
    assert quick.getvalue() == file.getvalue() == ""


def test_it_ends_with_the_work_when_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ticker, "_SOON", 0.0)
    out = Terminal()
    with pytest.raises(KeyError), ticker.working("reading", out):
        raise KeyError
    assert out.getvalue().endswith("\r") or out.getvalue() == ""
