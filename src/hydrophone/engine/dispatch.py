"""The dispatcher: it runs the regions of a graph as its scheduler says, in threads or where rows come in."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from hydrophone.engine.buffers import Buffer, Edge, Item, Region
from hydrophone.engine.changes import Stopped
from hydrophone.engine.orders import Crew
from hydrophone.engine.pipeline import Pipeline
from hydrophone.engine.regions import closed_cuts, regions_of, see_through_views
from hydrophone.engine.schedulers import Scheduler
from hydrophone.engine.stations import Station
from hydrophone.model.batch import Batch, Progress
from hydrophone.plan.node import Node

_log = logging.getLogger("hydrophone")

PATIENCE = 5.0
"""Seconds that a sink has to come back while somebody waits for the end of all work and nothing else is done."""


class Dispatcher:
    """Runs regions.

    One lock keeps the buffers and what is ready. It is not held while an operator works.

    Parameters
    ----------
    deliver : gives what has reached some roots to their subscriptions; regions that run in threads do it after each run

    Attributes
    ----------
    regions : of the pipeline; without buffers there is one or more, which run where rows come in
    weights : of roots, where the user has given them
    """

    def __init__(self, pipeline: Pipeline, scheduler: Scheduler, deliver: Callable[[Iterable[Node]], None]) -> None:
        self.pipeline, self.scheduler, self._deliver = pipeline, scheduler, deliver
        self.threaded = scheduler.threaded
        self.regions: list[Region] = []
        self.weights: dict[Node, float] = {}
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)  # there is room, or a region has come to an end
        self._limit = scheduler.limit
        self._shifts: list[_Shift] = []
        self._shift_of: dict[Region, _Shift] = {}
        self._workers: list[_Worker] = []
        self._threads: set[int] = set()
        self._doors: list[Buffer] = []  # the buffers that rows come into first
        self._heads: list[Region] = []
        self._number = self._served = self._waiting = self._running = self._ended = 0
        self._stopped = False

    # --- where buffers stand ------------------------------------------------------------------------------------------------

    def lay_out(self, cuts: Iterable[Edge] = ()) -> None:
        """Put buffers on the edges that the scheduler cuts, and on these; only while all is quiet."""
        pipeline = self.pipeline
        wanted = closed_cuts(pipeline.stations, {*self.scheduler.cuts(pipeline.stations), *cuts})
        if not wanted and not pipeline.buffers and not self.threaded:
            return
        pipeline.cut(wanted, self._limit)
        for buffer in pipeline.buffers.values():
            buffer.put = self._put if self.threaded else self._put_here
        before = {region.stations[0].node: region for region in self.regions}
        self.regions = regions_of(pipeline.stations, pipeline.buffers)
        for region in self.regions:
            old = before.get(region.stations[0].node)
            if old is not None:
                region.seconds, region.share, region.served = old.seconds, old.share, old.served
        self._heads = [r for r in self.regions if not r.stations[0].inputs]
        self._doors = [buffer for region in self._heads for buffer in region.outputs]
        for region in self._heads:
            for buffer in region.outputs:
                buffer.feeder = None
        if self.threaded:
            see_through_views(self.regions)
        self.weigh()
        with self._lock:
            self._shifts = [_Shift(c) for c in self.scheduler.crews([r for r in self.regions if r.buffers])]
            self._shift_of = {region: shift for shift in self._shifts for region in shift.crew.regions}
            self._hire()

    def weigh(self) -> None:
        """Give every region the largest weight of the roots that need it."""
        for region in self.regions:
            roots = {root for station in region.stations for root in station.roots}
            region.weight = max((self.weights.get(root, 1.0) for root in roots), default=1.0)

    def _hire(self) -> None:
        """Give every shift its workers; those who are there change over."""
        places = [shift for shift in self._shifts for _ in range(shift.crew.threads)]
        for worker, shift in zip(self._workers, places, strict=False):
            worker.shift = shift
            shift.idle.append(worker)
        for worker in self._workers[len(places) :]:
            worker.shift = None
            worker.wake.notify()
        del self._workers[len(places) :]
        for shift in places[len(self._workers) :]:
            worker = _Worker(self._lock, shift)
            self._workers.append(worker)
            threading.Thread(target=self._serve, args=(worker,), daemon=True, name="hydrophone region").start()

    def region_of(self, station: Station) -> int:
        """The number of the region of a station."""
        return next((r.number for r in self.regions if station in r.stations), 0)

    # --- buffers --------------------------------------------------------------------------------------------------------------

    def _put(self, buffer: Buffer, what: Batch | Progress, nbytes: int) -> None:
        with self._lock:
            self._put_here(buffer, what, nbytes)

    def _put_here(self, buffer: Buffer, what: Batch | Progress, nbytes: int) -> None:
        """As `_put`, where there is one thread, or the lock is held."""
        if buffer.reader.live:
            self._number += 1
            if buffer.add(Item(self._number, what, nbytes)):
                self._waiting += 1
                if not buffer.region.is_ready:
                    self._offer(buffer.region)

    def _take(self, buffer: Buffer) -> Batch | Progress:
        was_full = buffer.is_full
        what = buffer.take()
        self._waiting -= 1
        if was_full and not buffer.is_full:
            if buffer.feeder is not None:
                self._offer(buffer.feeder)
            elif self.threaded:
                self._changed.notify_all()
        return what

    def _offer(self, region: Region) -> None:
        """Let a region be run, if it can."""
        if region.is_ready or region.is_running or region.oldest() is None:
            return
        region.is_ready = True
        shift = self._shift_of[region]
        shift.crew.order.add(region)
        if shift.idle:
            shift.idle.pop().wake.notify()

    # --- running --------------------------------------------------------------------------------------------------------------

    def _serve(self, worker: _Worker) -> None:
        """What a thread does: run regions, or wait for one."""
        self._threads.add(threading.get_ident())
        with self._lock:
            while (shift := worker.shift) is not None and not self._stopped:
                region = shift.crew.order.next()
                if region is None:
                    if worker not in shift.idle:
                        shift.idle.append(worker)
                    worker.wake.wait()
                else:
                    self._run(region, shift.crew)
            self._threads.discard(threading.get_ident())

    def _run(self, region: Region, crew: Crew) -> None:
        """Run a region for as long as its crew allows; the lock is held before and after, and not while it works."""
        self._begin(region)
        self._running += 1
        begin = time.perf_counter()
        try:
            while (buffer := region.oldest()) is not None and not self._stopped:
                what = self._take(buffer)
                self._lock.release()
                try:
                    region.refresh()
                    self.pipeline.work(buffer, what)
                    if region.roots:
                        self._give(region)
                except BaseException as error:  # such as SystemExit: the thread goes on for the other regions
                    self.pipeline.fail(buffer.roots, _exception(error))
                finally:
                    self._lock.acquire()
                self._ended += 1
                if crew.budget is not None and time.perf_counter() - begin >= crew.budget:
                    break
        finally:
            took = time.perf_counter() - begin
            region.seconds += took
            region.share += took / region.weight
            self._running -= 1
            self._end(region)
            if not self._waiting and not self._running:
                self._changed.notify_all()

    def _begin(self, region: Region) -> None:
        region.is_ready, region.is_running = False, True
        self._served += 1
        region.served = self._served

    def _end(self, region: Region) -> None:
        region.is_running = False
        self._offer(region)

    def _give(self, region: Region) -> None:
        """Deliver what a region has made."""
        region.is_delivering = True
        try:
            self._deliver(region.roots)
        except BaseException as error:
            self.pipeline.fail(region.roots, _exception(error))
        finally:
            region.is_delivering = False

    def _run_here(self, until: Callable[[], bool]) -> None:
        """Run regions in this thread, which is the only one: without a lock."""
        for shift in self._shifts:
            budget = shift.crew.budget
            while not until() and (region := shift.crew.order.next()) is not None:
                self._begin(region)
                until_when = time.perf_counter() + budget if budget else 0.0
                try:
                    while (buffer := region.oldest()) is not None:
                        self.pipeline.work(buffer, self._take(buffer))
                        if budget is not None and (not budget or time.perf_counter() >= until_when):
                            break
                finally:
                    self._end(region)

    # --- for who brings rows, or changes the graph ----------------------------------------------------------------------------

    @property
    def is_quiet(self) -> bool:
        """Whether nothing waits and no region runs; to be asked with the lock, or in the only thread."""
        return not self._waiting and not self._running

    @property
    def is_worker(self) -> bool:
        """Whether this is a thread that runs regions."""
        return threading.get_ident() in self._threads

    @property
    def head_roots(self) -> Iterable[Node]:
        """The roots that whoever brings rows delivers: all, if nothing runs in threads."""
        return [root for region in self._heads for root in region.roots] if self.threaded else self.pipeline.roots

    def room(self) -> None:
        """Wait until rows may come in: until no buffer that they come into is full."""
        doors = self._doors
        if not doors:
            return
        if not self.threaded:
            self._run_here(lambda: not any(buffer.is_full for buffer in doors))
            return
        with self._lock:
            self._changed.wait_for(lambda: self._stopped or not any(buffer.is_full for buffer in doors))
        self.refresh()

    def refresh(self) -> None:
        """Let the operators that work where rows come in see all keys."""
        for region in self._heads:
            region.refresh()

    def work(self) -> bool:
        """After rows and marks have come in: run the regions, if nobody else does. Return whether all is quiet."""
        if not self.threaded:
            if self._shifts:
                self._run_here(lambda: False)
            return True
        with self._lock:
            found = self.is_quiet
        if found:
            self._refresh_all()
        return found

    def quiet(self, timeout: float | None = None) -> bool:
        """Wait until nothing waits and no region runs; return whether that is so. With a timeout of 0 it only looks.

        It gives up after the timeout, or raises `Stopped`, if the graph closes.
        """
        if not self.threaded:
            return True
        with self._lock:
            found = self._changed.wait_for(lambda: self._stopped or self.is_quiet, timeout)
            if self._stopped:
                raise Stopped
        if found:
            self._refresh_all()
        return found

    def _refresh_all(self) -> None:
        """Let all operators see all keys, also those that had no batch or mark since keys of another source came."""
        for region in self.regions:
            region.refresh()

    def finish(self, patience: float = PATIENCE) -> bool:
        """Wait until all is quiet, as long as anything goes on: False if sinks alone are waited for, and none comes back."""
        while not self.quiet(0):
            ended = self._ended
            if self.quiet(patience):
                break
            if ended == self._ended and any(region.is_delivering for region in self.regions):
                return False
        return True

    def stop(self) -> None:
        """End all threads; those that are at work end after it."""
        with self._lock:
            self._stopped = True
            for worker in self._workers:
                worker.wake.notify()
            self._changed.notify_all()


def _exception(error: BaseException) -> Exception:
    """What a subscription fails with."""
    return error if isinstance(error, Exception) else RuntimeError(f"{type(error).__name__}: {error}")


class _Shift:
    """A crew at work."""

    def __init__(self, crew: Crew) -> None:
        self.crew, self.idle = crew, list[_Worker]()


class _Worker:
    """A thread that runs the regions of a shift; None: it ends."""

    def __init__(self, lock: Any, shift: _Shift) -> None:
        self.wake = threading.Condition(lock)
        self.shift: _Shift | None = shift
