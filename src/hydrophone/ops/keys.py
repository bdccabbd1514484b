"""Change of key: the only operator whose output belongs to another scope."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from hydrophone.batch import Batch, Events
from hydrophone.errors import ParameterError
from hydrophone.kernel import Kernel, Stateless
from hydrophone.plan.node import Node, Order
from hydrophone.plan.source import check_key
from hydrophone.plan.types import StreamType


@dataclass(frozen=True, kw_only=True, eq=False)
class KeyBy(Node):
    """Group by other columns: pairs of (new name, column). The old key columns become payload. No columns: everything together."""

    columns: tuple[tuple[str, str], ...]

    gives = Order.ANY
    rowwise = True

    def output_type(self, x: StreamType) -> StreamType:
        """Columns move between key and payload."""
        fields = {f.name: f for f in (*x.key, *x.columns)}
        for _, old in self.columns:
            if old not in fields:
                raise ParameterError(f"key_by: no column {old!r}; this stream has: {', '.join(fields)}")
        for _, old in self.columns:
            check_key(fields[old], "key_by")
        key = pa.schema([fields[old].with_name(new) for new, old in self.columns])
        taken = {old for _, old in self.columns}
        payload = pa.schema([f for name, f in fields.items() if name not in taken])
        clash = {x.time, x.end, *payload.names} & set(key.names)
        if clash or len(set(key.names)) < len(key.names):
            raise ParameterError(f"key_by: the names {', '.join(key.names)} clash with other columns of this stream")
        return StreamType(key, x.time, x.clock, payload, x.end)

    def kernel(self, x: StreamType) -> Kernel:
        """Hand out slots of the new scope."""
        return KeyByKernel(self.columns, x, self.type.columns)


class KeyByKernel(Stateless):
    """Looks the new keys up in the table of the new scope."""

    def __init__(self, columns: tuple[tuple[str, str], ...], kind: StreamType, payload: pa.Schema) -> None:
        self.columns, self.kind, self.payload = columns, kind, payload

    def map(self, batch: Batch) -> Batch:
        """Re-key one batch."""
        assert isinstance(batch, Events)
        old_key = dict(zip(self.kind.key.names, self.keys.columns(batch.slot), strict=True))
        fields = old_key | {n: batch.columns[n] for n in self.kind.columns.names}
        chosen = [fields[old] for _, old in self.columns]
        slot = self.out_keys.slots(chosen) if chosen else self.out_keys.zeros(len(batch))
        payload = (
            batch.columns.select([])
            if not self.payload.names
            else pa.table([fields[n] for n in self.payload.names], schema=self.payload)
        )
        return Events(slot, batch.start, batch.end, payload)
