"""What most likely was not meant when readings meet a grid: a word in the log."""

from __future__ import annotations

import logging

_log = logging.getLogger("hydrophone")


class StrayReadings:
    """Counts the readings that meet no beat, and says so once: when there are at least ten readings, and more than a tenth are strays.

    The counts are not state: they decide about a line in the log alone, and begin anew after a restart.
    """

    def __init__(self) -> None:
        self.readings = self.strays = 0
        self.said = False

    def count(self, readings: int, strays: int) -> None:
        """Some more readings, and how many of them met no beat."""
        self.readings, self.strays = self.readings + readings, self.strays + strays
        if not self.said and self.readings >= 10 and self.strays * 10 > self.readings:
            self.said = True
            _log.warning(
                "sample: %d of the first %d readings lie between the beats and are left out; "
                'to keep them: sample(..., fill=hp.linear(max_gap="1s")), offset=... or snap(...)',
                self.strays,
                self.readings,
            )
