"""The table of cases: every operator, with nasty data and an answer from an oracle. Every engine runs the whole table."""

import importlib
import pkgutil

from tests.cases.table import Case, Row, Source, assert_same, rows


def _all_cases() -> list[Case]:
    """The `CASES` of every file here."""
    names = sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("test_"))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    return [case for module in modules for case in getattr(module, "CASES", [])]


ALL_CASES: list[Case] = _all_cases()

__all__ = ["ALL_CASES", "Case", "Row", "Source", "assert_same", "rows"]
