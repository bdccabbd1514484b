"""The table of cases: every operator, with nasty data and an answer from an oracle. Every engine runs the whole table."""

from tests.cases import designs, filters, functions, lookup, moving, sampling, segments, signals, streams, windows
from tests.cases.table import Case, Row, Source, assert_same, rows

ALL_CASES: list[Case] = [
    *streams.CASES,
    *lookup.CASES,
    *sampling.CASES,
    *signals.CASES,
    *functions.CASES,
    *filters.CASES,
    *windows.CASES,
    *segments.CASES,
    *moving.CASES,
    *designs.CASES,
]

__all__ = ["ALL_CASES", "Case", "Row", "Source", "assert_same", "rows"]
