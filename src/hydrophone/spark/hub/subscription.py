"""A query of a hub, as its users see it: everything is read from pins, and asked for by requests."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from hydrophone import errors
from hydrophone.errors import DataError, HydrophoneError, ParameterError
from hydrophone.model.time import MAX_TIME, MIN_TIME, Instant, format_instant, instant
from hydrophone.spark.hub.folders import HubFolder
from hydrophone.spark.hub.pins import Pin

_POLL = 0.05


class Running(Protocol):
    """What a subscription asks of its hub."""

    @property
    def active(self) -> bool:
        """Whether the stream runs."""


@dataclass(frozen=True)
class HubQuery:
    """A query of a hub, from the moment at which it was asked for; `Hub.subscribe` and `Hub.queries` make it.

    Attributes
    ----------
    name : what the user calls it
    token : what tells it from others that had the name before
    request : the number of the request by which it joins
    """

    hub: Running
    folder: HubFolder
    name: str
    token: str
    request: int | None = None

    def __repr__(self) -> str:
        return f"<query {self.name!r} of a hub, {self.state}>"

    # --- what it is -----------------------------------------------------------------------------------------------------

    def _found(self) -> tuple[str, dict[str, Any]]:
        """Its state, and what the latest pin says of it."""
        pin = self.folder.pins.latest()
        if pin is None:
            return "waiting", {}
        for query in pin.queries:
            if query.token == self.token:
                return "paused" if query.paused is not None else "running", asdict(query)
        for ended in reversed(pin.ended):
            if ended["token"] == self.token:
                return ended["state"], ended
        return self._not_there(pin)

    def _not_there(self, pin: Pin) -> tuple[str, dict[str, Any]]:
        refused = pin.refused.get(str(self.request))
        if refused is not None:
            return "refused", {"error": refused}
        return ("waiting" if self.request is not None and pin.request < self.request else "done"), {}

    @property
    def state(self) -> str:
        """One of "waiting" (for the next micro-batch), "running", "paused", "done", "failed" and "refused"."""
        return self._found()[0]

    @property
    def interval(self) -> tuple[int | None, int | None]:
        """First instant and end in nanoseconds; None where there is no bound, or none is known yet."""
        found = self._found()[1]
        start, end = found.get("start", MIN_TIME), found.get("end", MAX_TIME)
        return (None if start == MIN_TIME else start, None if end == MAX_TIME else end)

    @property
    def mark(self) -> int | None:
        """No later result belongs to an instant before it, in nanoseconds; None before the first."""
        mark = self._found()[1].get("mark", MIN_TIME)
        return None if mark == MIN_TIME else mark

    @property
    def rows(self) -> int:
        """How many rows it has given."""
        return int(self._found()[1].get("rows", 0))

    @property
    def error(self) -> HydrophoneError | None:
        """Why it failed, or was refused; None while all is well."""
        said = self._found()[1].get("error")
        return None if said is None else raised(said)

    @property
    def done(self) -> bool:
        """Whether nothing more will come."""
        return self.state in ("done", "failed", "refused")

    def wait_until_runs(self, timeout: float | None = None) -> bool:
        """Wait until a micro-batch has it (or for so many seconds), and say whether one has; a refusal is raised."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while (state := self.state) == "waiting" and self.hub.active:
            if deadline is not None and time.monotonic() > deadline:
                return False
            time.sleep(_POLL)
        if state == "refused":
            error = self.error
            assert error is not None
            raise error
        return state != "waiting"

    # --- what the user does ---------------------------------------------------------------------------------------------

    def unsubscribe(self, at: Instant | None = None, now: bool = False) -> None:
        """End the interval: at an instant, `now`, or at the largest end of all rows that have come by the next micro-batch.

        Results before the end are given when they are final; with `now` those that are not made yet are not waited for.
        """
        end = None if at is None else instant(at)
        if end is not None and now:
            raise ParameterError("unsubscribe: give either at or now")
        frontier = self._found()[1].get("frontier", MIN_TIME)
        if end is not None and end < frontier:
            raise ParameterError(
                f"unsubscribe: results up to {format_instant(frontier)} have been made, and at is {format_instant(end)}",
                hint="an end that lies before them would take results back; now=True stops at once",
            )
        self.folder.requests.add("unsubscribe", name=self.name, token=self.token, at=end, now=now)

    def pause(self) -> None:
        """From the next micro-batch on, results are not given; they never will be. State is kept."""
        self.folder.requests.add("pause", name=self.name, token=self.token)

    def resume(self) -> None:
        """End a pause with the next micro-batch: what belongs to later instants than all that was made is given again."""
        self.folder.requests.add("resume", name=self.name, token=self.token)


def raised(said: dict[str, Any]) -> HydrophoneError:
    """An error that a pin tells of; what was no error of Hydrophone's is a `DataError` that names its kind."""
    kind = getattr(errors, said["type"], None)
    if isinstance(kind, type) and issubclass(kind, HydrophoneError):
        return kind(said["message"], hint=said["hint"], where=said["where"])
    return DataError(f"{said['type']}: {said['message']}")


def known_queries(hub: Running, folder: HubFolder) -> list[HubQuery]:
    """The queries that have ended lately, those that run, and those that wait."""
    pin = folder.pins.latest()
    found = []
    if pin is not None:
        found += [HubQuery(hub, folder, q["name"], q["token"]) for q in pin.ended]
        found += [HubQuery(hub, folder, q.name, q.token) for q in pin.queries]
    for number, request in folder.requests.after(-1 if pin is None else pin.request):
        if isinstance(request, dict) and request["ask"] == "subscribe":
            found.append(HubQuery(hub, folder, request["name"], request["token"], number))
    return found
