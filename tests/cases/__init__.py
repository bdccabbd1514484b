"""The table of cases: every operator, with nasty data and an answer from an oracle. Every engine runs the whole table."""

from tests.cases import filters, lifetimes, sampling, segments, signals, streams, timewindows, windows
from tests.cases.table import Case, Row, Source, assert_same, rows

ALL_CASES: list[Case] = [
    *streams.CASES,
    *sampling.CASES,
    *signals.CASES,
    *filters.CASES,
    *windows.CASES,
    *segments.CASES,
    *timewindows.CASES,
    *lifetimes.CASES,
]

__all__ = ["ALL_CASES", "Case", "Row", "Source", "assert_same", "rows"]
