"""Errors of tasks: Spark brings home only their text; this gives them their class again."""

from __future__ import annotations

import re

from hydrophone import errors
from hydrophone.errors import HydrophoneError

_TEXT = re.compile(r"hydrophone\.errors\.(?P<name>\w+): (?P<message>.*?)(?=\n\s*\n|\n\S|\Z)", re.DOTALL)


def cause(error: BaseException) -> HydrophoneError | None:
    r"""The error that a task raised, found in what Spark raises for it; None where it was not one of ours.

    Examples
    --------
    >>> cause(RuntimeError("...\nhydrophone.errors.DataError: source: 3 rows have no time\n  Hint: drop them first\n"))
    DataError('source: 3 rows have no time')
    """
    found = list(_TEXT.finditer(str(error)))
    if not found:
        return None
    kind = getattr(errors, found[-1]["name"], HydrophoneError)
    lines = found[-1]["message"].rstrip().split("\n")
    hint = next((line.strip()[6:] for line in lines if line.strip().startswith("Hint: ")), None)
    where = next((line.strip()[3:] for line in lines[1:] if line.startswith("  at ")), None)
    made: HydrophoneError = kind(lines[0], hint=hint, where=where)
    return made
