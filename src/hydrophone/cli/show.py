"""Tables on the terminal: with Rich if it is installed, else in plain columns."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def show(header: Sequence[str] | None, rows: Sequence[Sequence[str]]) -> None:
    """Print rows in columns.

    Examples
    --------
    >>> show(["key", "n"], [["a", "1"], ["bcde", "22"]])
    key   n
    a     1
    bcde  22
    """
    if sys.stdout is not None and sys.stdout.isatty():
        try:
            return _rich(header, rows)
        except ImportError:
            pass
    lines = [*([list(header)] if header else []), *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))] if lines else []
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _rich(header: Sequence[str] | None, rows: Sequence[Sequence[str]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD if header else None, show_header=header is not None, pad_edge=False)
    for name in header or [""] * (len(rows[0]) if rows else 0):
        table.add_column(Text(name), overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)
