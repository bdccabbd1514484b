"""A table in Markdown of what ``bench run catalogue --json`` printed: an operator in each row, ratios below 1 in bold."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from hydrophone.bench.harness import Result
from hydrophone.errors import DataError

FORMS = (
    ("1 key", "float64", "1 thread"),
    ("1 key", "float32", "1 thread"),
    ("1000 keys", "float64", "1 thread"),
    ("1000 keys", "float32", "1 thread"),
    ("1000 keys", "float64", "2 threads"),
    ("1000 keys", "float32", "2 threads"),
)
ROWS = "rows"
"""In place of the type of samples: the operator takes the rows of a table."""


@dataclass
class Line:
    """An operator, and by form the result against the fastest peer."""

    name: str
    found: dict[tuple[str, str, str], Result] = field(default_factory=dict)


def read_results(lines: Iterable[str]) -> list[Result]:
    """What ``run --json`` printed, line by line."""
    found = []
    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        try:
            found.append(Result(**json.loads(text)))
        except (ValueError, TypeError):
            raise DataError(f"bench table: line {number} is no result: {text.strip()!r}") from None
    if not found:
        raise DataError("bench table: no results", hint="hydrophone bench run catalogue --json > results.jsonl")
    return found


def table(results: Sequence[Result]) -> str:
    """The table; then how many forms are below 1 and below 0.8, and the median with one and with two threads.

    Examples
    --------
    >>> one = Result("catalogue", "abs, 1 key, float64, 1 thread", 0.002, "NumPy abs", 0.001, 0.5, "a", "a", 8.0, 8.0)
    >>> print(table([one]).splitlines()[2])
    | abs | NumPy abs 1.0 ms | **0.50** |  |  |  |  |  | 2.0 ms | 8 / 8 MB |
    """
    rows = _lines(results)
    head = ["operator", "fastest peer, its time", *(", ".join(f) for f in FORMS), "ours", "memory: ours / peer"]
    text = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    text += [_row(line) for line in rows]
    return "\n".join([*text, "", *_summary(rows)]) + "\n"


def _lines(results: Sequence[Result]) -> list[Line]:
    rows: dict[str, Line] = {}
    for result in results:
        name, keys, kind, threads = result.case.rsplit(", ", 3)
        line = rows.setdefault(name, Line(name))
        form = keys, "float64" if kind == ROWS else kind, threads
        known = line.found.get(form)
        if known is None or result.peer_s < known.peer_s:
            line.found[form] = result
    return list(rows.values())


def _row(line: Line) -> str:
    """Times and memory are those of one key and double precision, or of the first form that was run."""
    first = line.found.get(FORMS[0], next(iter(line.found.values())))
    cells = [line.name, f"{first.peer} {1e3 * first.peer_s:.1f} ms"]
    cells += [_ratio(line.found[form]) if form in line.found else "" for form in FORMS]
    cells += [f"{1e3 * first.ours_s:.1f} ms", f"{first.ours_peak_mb:.0f} / {first.peer_peak_mb:.0f} MB"]
    return f"| {' | '.join(cells)} |"


def _ratio(result: Result) -> str:
    text = f"{result.ratio:.2f}"
    text = text if result.ratio >= 1 else f"**{text}**"
    return text if result.agrees else f"{text} ANSWERS DIFFER"


def _summary(rows: Sequence[Line]) -> list[str]:
    text = []
    for threads in ("1 thread", "2 threads"):
        found = sorted(
            (r.ratio, f"{line.name} ({f[0]}, {f[1]})")
            for line in rows
            for f, r in line.found.items()
            if f[2] == threads
        )
        if not found:
            continue
        ratios = [ratio for ratio, _ in found]
        text.append(
            f"{threads}: {len(ratios)} measured, median {ratios[len(ratios) // 2]:.2f}, {sum(r < 1 for r in ratios)} below 1, "
            f"{sum(r < 0.8 for r in ratios)} below 0.8."
        )
        text.append("")
        low = [f"{name} {ratio:.2f}" for ratio, name in found if ratio < 0.8]
        text += [f"Below 0.8 with {threads}: {', '.join(low)}.", ""] if low else []
    return text
