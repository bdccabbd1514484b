"""Snapshots of a pipeline: its state as blocks of bytes, by path.

``marks`` holds the marks of all operators, ``keys/SCOPE/BLOCK`` keys, ``OPERATOR/STATE/BLOCK`` what operators keep. Scopes and operators
are named by their digests, so that shared operators have one path, and a subset of a snapshot can be restored.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

import pyarrow as pa

from hydrophone.engine.stations import Station
from hydrophone.errors import StateVersionError
from hydrophone.model.batch import Progress
from hydrophone.model.key_table import KeyTable
from hydrophone.plan.node import locating

SNAPSHOT_FORMAT = 2
"""Version of the snapshot format; each kernel has its own version."""
KEY_BLOCK_VERSION = 1
"""Version of blocks of keys."""


class StoredBlocks:
    """The blocks of this pipeline in the store. Blocks of dropped operators are deleted by the next snapshot."""

    def __init__(self) -> None:
        self._paths: dict[str, set[str]] = {}
        self._gone: set[str] = set()

    def see(self, blocks: Mapping[str, bytes | None]) -> None:
        """Blocks were written or read (None: deleted)."""
        for path, data in blocks.items():
            paths = self._paths.setdefault(block_owner(path), set())
            (paths.discard if data is None else paths.add)(path)
            self._gone.discard(path)

    def drop(self, owner: str) -> None:
        """An operator or a scope was dropped."""
        self._gone |= self._paths.pop(owner, set())

    def take_gone(self) -> dict[str, bytes | None]:
        """The blocks that the next snapshot deletes."""
        gone, self._gone = self._gone, set()
        return dict.fromkeys(sorted(gone))


def block_owner(path: str) -> str:
    """The digest of the operator or the scope that a block belongs to.

    Examples
    --------
    >>> block_owner("3a/history/0"), block_owner("keys/7f/0"), block_owner("marks")
    ('3a', '7f', 'marks')
    """
    first, *rest = path.split("/")
    return rest[0] if first == "keys" else first


def snapshot(stations: Iterable[Station], scopes: Mapping[str, KeyTable], changed: bool) -> dict[str, bytes | None]:
    """All state, or what changed since the last snapshot, by path; None deletes a block."""
    stations = list(stations)
    shed = {path: count for s in stations for path, count in s.shed.items()}
    header = {"format": SNAPSHOT_FORMAT, "marks": {s.digest: s.progress.mark for s in stations}, "shed": shed}
    blocks: dict[str, bytes | None] = {"marks": json.dumps(header).encode()}
    for scope, table in scopes.items():
        for block, rows in table.blocks(changed):
            blocks[f"keys/{scope}/{block}"] = _to_bytes(rows, KEY_BLOCK_VERSION)
    for station in stations:
        if station.kernel is not None:
            station.take_back()
            with locating(station.node):
                station.kernel.compact()
            for name, state in station.states.items():
                for block, rows in state.blocks(changed):
                    blocks[f"{station.digest}/{name}/{block}"] = _to_bytes(rows, station.kernel.VERSION)
    return blocks


def restore(
    stations: Iterable[Station], scopes: Mapping[str, KeyTable], blocks: Mapping[str, bytes], forget: bool
) -> dict[str, bytes]:
    """Restore state into new stations; return the blocks of unknown operators, which are an error unless `forget` is set."""
    known = {s.digest: s for s in stations}
    scopes = {digest: scopes[digest] for s in known.values() for digest in s.scopes}
    header = json.loads(blocks["marks"])
    if header["format"] != SNAPSHOT_FORMAT:
        raise StateVersionError(
            f"the state has format {header['format']}, this release reads format {SNAPSHOT_FORMAT}",
            hint="go on with the release that wrote it, or start with a new checkpoint",
        )
    strange = {path: data for path, data in blocks.items() if block_owner(path) not in {*known, *scopes, "marks"}}
    others = header["marks"].keys() - known.keys()
    if not known.keys() <= header["marks"].keys() or ((strange or others) and not forget):
        raise StateVersionError(
            "this state belongs to another query",
            hint="start with a new checkpoint, or run the query that made this one",
        )
    for digest, station in known.items():
        station.take_back()
        station.progress = Progress(header["marks"][digest])
        for name, state in station.kept.items():
            state.shed = header["shed"].get(f"{digest}/{name}", 0)
    keys: dict[str, list[pa.Table]] = {}
    for path, data in sorted(blocks.items()):
        owner = block_owner(path)
        if owner in known:
            station, name = known[owner], path.split("/")[1]
            assert station.kernel is not None
            station.states[name].load(_from_bytes(data, station.kernel.VERSION, station.node.name()))
        elif owner in scopes:
            keys.setdefault(owner, []).append(_from_bytes(data, KEY_BLOCK_VERSION, path))
    for scope, parts in keys.items():  # all at once: each call is linear in all slots
        scopes[scope].load(pa.concat_tables(parts))
    return strange


def _to_bytes(table: pa.Table | None, version: int) -> bytes | None:
    if table is None:
        return None
    table = table.replace_schema_metadata({**(table.schema.metadata or {}), b"version": str(version).encode()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def _from_bytes(data: bytes, version: int, what: str) -> pa.Table:
    table = pa.ipc.open_stream(data).read_all()
    found = int(table.schema.metadata[b"version"])
    if found != version:
        raise StateVersionError(
            f"{what}: the state has version {found}, this release reads version {version}",
            hint="go on with the release that wrote it, or start with a new checkpoint",
        )
    return table
