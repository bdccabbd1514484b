"""What Java and Spark say while they start: held back, and shown only if they do not start."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

# What Spark's Python worker says on its way into every stateful stream, each line with an empty one behind it.
_CHATTER = re.compile(rb"(Starting )?Streaming TransformWithStateIn\w+ Python worker")
_STARTED, _FAILED = b"\0hydrophone: started\n", b"\0hydrophone: failed\n"


@contextmanager
def quiet_start(*, loud: bool = False) -> Iterator[None]:
    """Hold back what the block, and processes that it starts, write to standard error; if it fails, all of it is shown.

    A setting for Spark's log would not do: Java itself complains before there is a log, and Spark tells which settings it chose. What
    such a process writes after the block is passed on, line by line, but for what Spark's worker says whenever a stream starts.

    Parameters
    ----------
    loud : bool
        Hold nothing back.

    Examples
    --------
    >>> import subprocess
    >>> with quiet_start():
    ...     subprocess.run(["sh", "-c", "echo nobody needs to know >&2"]).returncode
    0
    """
    if loud:
        yield
        return
    read, write = os.pipe()
    ours = os.dup(2)
    relay = threading.Thread(target=_relay, args=(read, os.dup(ours)), daemon=True)
    relay.start()
    os.dup2(write, 2)
    os.close(write)
    outcome = _STARTED
    try:
        yield
    except BaseException:
        outcome = _FAILED
        raise
    finally:
        os.write(2, outcome)  # behind all that was written before, so that the relay knows what was when
        os.dup2(ours, 2)
        os.close(ours)
        if outcome is _FAILED:
            relay.join(1)  # seconds; a process that was started and lives on keeps the relay going


def _relay(read: int, out: int) -> None:
    held: list[bytes] | None = []
    chatter = False
    with os.fdopen(read, "rb") as lines, os.fdopen(out, "wb", buffering=0) as shown:
        for line in lines:
            if line.endswith((_STARTED, _FAILED)):
                if line.endswith(_FAILED):
                    shown.write(b"".join(held or ()) + line.removesuffix(_FAILED))
                held = None
            elif held is None:
                chatter = bool(_CHATTER.match(line)) or (chatter and line == b"\n")
                if not chatter:
                    shown.write(line)
            else:
                held.append(line)
