"""Where a shard keeps its state between micro-batches: the one place that knows Spark's state API."""

from __future__ import annotations

import uuid
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from pyspark.sql.types import BinaryType, StringType, StructType

from hydrophone.errors import StateVersionError
from hydrophone.model.key_table import HASH_VERSION

T = TypeVar("T")

BLOCKS = "blocks", StructType().add("path", StringType()), StructType().add("data", BinaryType())
"""The name and types of a shard's state. One variable for all: every further one costs a round trip in every task.
And types, not their text, which would have to be sent to the JVM to be understood."""

_LIVE: OrderedDict[tuple[str, int], tuple[bytes, Any]] = OrderedDict()
"""Shards that this Python worker ran lately, with the version of their state; checked against Spark's state, never trusted."""

_VERSION = "version"
_RANDOM = 16
"""Bytes of a version that tell it from others; whose state it is stands before them."""

MOST_LIVE = 64
"""Shards that a worker keeps; the one that has not run for longest goes first."""


class ShardState(Generic[T]):
    """Blocks of bytes per shard, written only where they changed, and the live object that was made of them.

    A worker process may run any shard in any micro-batch, a micro-batch may be run again, and a worker may be killed at any
    point. So the state carries a random version: a live object is used only if it was saved as the very version that Spark
    now gives. A counter would not do, because an abandoned attempt and its repetition count alike.

    Parameters
    ----------
    blocks : Spark's map of them, made with `BLOCKS`
    owner : names the query and the operator
    shards : how many there are
    """

    def __init__(self, blocks: Any, owner: str, shards: int) -> None:
        self.blocks, self.owner, self.shards = blocks, owner, shards

    def load(self, shard: int, make: Callable[[Mapping[str, bytes]], T]) -> T:
        """The live object of a shard: as this worker left it, or made from its blocks (none in the first micro-batch)."""
        # Taken out before anything changes it: an attempt that fails half-way leaves nothing behind.
        version, live = _LIVE.pop((self.owner, shard), (b"", None))
        found = self.blocks.getValue((_VERSION,))
        if found is None:
            return make({})
        self._check(shard, bytes(found[0]))
        if live is not None and bytes(found[0]) == version:
            return live
        # Block by block: as pairs, Spark would send them all in one message, which for a million keys Java has no memory for.
        paths = [path for (path,) in self.blocks.keys() if path != _VERSION]  # noqa: SIM118 (no dict)
        return make({path: bytes(self.blocks.getValue((path,))[0]) for path in paths})

    def save(self, shard: int, live: T, changed: Mapping[str, bytes | None]) -> None:
        """Write the blocks that changed (None: gone) and keep the live object for the next micro-batch."""
        for path, data in changed.items():
            if data is not None:
                self.blocks.updateValue((path,), (data,))
            elif self.blocks.containsKey((path,)):
                self.blocks.removeKey((path,))
        version = self._identity(shard) + uuid.uuid4().bytes
        self.blocks.updateValue((_VERSION,), (version,))
        _LIVE[self.owner, shard] = version, live
        while len(_LIVE) > MOST_LIVE:
            _LIVE.popitem(last=False)

    def _identity(self, shard: int) -> bytes:
        """Whose state it is: a manifest that was changed must not lead to the state of others."""
        return f"{self.owner} shard {shard} of {self.shards}, keys spread by way {HASH_VERSION}\n".encode()

    def _check(self, shard: int, version: bytes) -> None:
        found, wanted = version[:-_RANDOM], self._identity(shard)
        if found != wanted:
            raise StateVersionError(
                f"start: the state is that of {found.decode(errors='replace').strip() or 'an earlier release'}, "
                f"and the checkpoint's hydrophone.json says {wanted.decode().strip()}",
                hint="put back the hydrophone.json that was written with this checkpoint, or start with a new checkpoint",
            )
