"""Stations that differ in a number and read the same input run as one (`hydrophone.model.family`)."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any

from hydrophone.engine.meter import size
from hydrophone.engine.stations import Station
from hydrophone.model.batch import Batch, Mask
from hydrophone.model.family import Given
from hydrophone.model.marks import Mark, Marks


class Onward(list[tuple[Any, int, Any]]):
    """What a family gives instead of batches: what is to be done next, as entries of the stack of deliveries."""


class FamilyStation:
    """Runs several stations as one kernel. Each keeps its roots, its readers, its progress and its state.

    Attributes
    ----------
    members : the stations
    kernel : what does their work
    keys : the keys of their input
    """

    def __init__(self, members: Sequence[Station]) -> None:
        self.members = tuple(members)
        kernels = [m.kernel for m in members]
        assert kernels[0] is not None
        self.kernel = kernels[0].together(kernels)
        self.keys = self.kernel.keys = members[0].keys
        self._joined = False
        # Who looks at a member takes back its state, maybe while another thread works.
        self._lock = threading.RLock()

    @property
    def live(self) -> bool:
        """Whether a member is."""
        return any(m.live for m in self.members)

    @property
    def first(self) -> Station | None:
        """The first member that is live: marks pass through the family when they come to it."""
        return next((m for m in self.members if m.live), None)

    def step(self, port: int, batch: Batch) -> Onward:
        """Do the work of all members for one batch.

        Where rows are left out for some of them, or the work fails, each member does its own: so that errors are those of each alone.
        """
        if any(m.gated for m in self.members):
            return self._apart(port, batch)
        begin = time.perf_counter()
        try:
            with self._lock:
                self.join()
                given = self.kernel.take(batch)
        except Exception:
            return self._apart(port, batch)
        seconds = (time.perf_counter() - begin) / len(self.members)
        rows = size(batch)
        for member in self.members:
            if member.meter is not None:
                member.meter.took(rows, seconds)
        return self.handed(given)

    def _apart(self, port: int, batch: Batch) -> Onward:
        self.part()
        return Onward([(member, port, batch) for member in reversed(self.members) if member.live])

    def handed(self, given: Given) -> Onward:
        """Results put where they are drained; those that somebody reads are to be delivered."""
        onward = Onward()
        for number, batch in given:
            member = self.members[number]
            if not member.live:
                continue
            if member.meter is not None:
                member.meter.rows_out += len(batch)
            if member.downstream:
                onward.append((member, NEXT_BATCH, iter((batch,))))
            elif member.out is not None:
                member.out.append(batch)
        onward.reverse()
        return onward

    def advance(self) -> tuple[Marks, Given, Sequence[Mark]]:
        """The marks of the input, what the members give at these, and their output marks."""
        begin = time.perf_counter()
        with self._lock:
            self.join()
            marks = self.members[0].marks()
            given, found = self.kernel.advance(marks)
        seconds = (time.perf_counter() - begin) / len(self.members)
        for member in self.members:
            if member.meter is not None:
                member.meter.seconds += seconds
        return marks, given, found

    # --- state ----------------------------------------------------------------------------------------------------------

    def join(self) -> None:
        """Take over the state of the members, unless it is here."""
        one = None if self.first is None else self.first.kernel
        self.kernel.keys = self.keys if one is None else one.keys  # a region puts views in the place of tables
        if not self._joined:
            self.kernel.join()
            self._joined = True

    def part(self) -> None:
        """Give the members their state, if it is here."""
        with self._lock:
            if self._joined:
                self.kernel.part()
                self._joined = False

    def retire(self) -> None:
        """Come to an end: members were added, dropped or failed."""
        self.part()
        for member in self.members:
            member.family = None

    def forgettable(self) -> Mask:
        """Slots that no member needs."""
        with self._lock:
            self.join()
            self.kernel.keys = self.keys  # all of them: nothing works now
            return self.kernel.forgettable()


NEXT_BATCH = -1
"""On the stack of deliveries, instead of a port: the iterator of batches that a station returned."""


def form_families(stations: Sequence[Station], families: Iterable[FamilyStation]) -> list[FamilyStation]:
    """Put together the live stations of a family that read the same input; those of `families` that stay as they are go on."""
    related: dict[Any, list[Station]] = {}
    for station in stations:
        if station.relatives is not None and station.live:
            related.setdefault((station.inputs, station.relatives), []).append(station)
    wanted = {tuple(members) for members in related.values() if len(members) > 1}
    found = []
    for family in families:
        if family.members in wanted:
            wanted.remove(family.members)
            found.append(family)
        else:
            family.retire()
    for members in wanted:
        family = FamilyStation(members)
        found.append(family)
        for member in members:
            member.family = family
    return found
