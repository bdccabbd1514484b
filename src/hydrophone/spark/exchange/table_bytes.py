"""Tables as bytes, for the way between tasks: whole numbers and times travel in as few bytes as their range needs.

Every byte is copied about six times between two Python workers (pipe, JVM, shuffle and back), so that taking an offset off
a column and halving its width costs much less than it saves.
"""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.compute as pc

_SCHEMA, _OFFSETS = b"hydrophone.schema", b"hydrophone.offsets"
_DOWNCASTS = (pa.uint8(), pa.uint16(), pa.uint32())


def table_to_bytes(table: pa.Table) -> bytes:
    """A table as one Arrow stream; undone by `table_from_bytes`.

    Examples
    --------
    >>> table = pa.table({"time": range(1_700_000_000_000_000_000, 1_700_000_000_000_010_000)})
    >>> len(table_to_bytes(table)) < 30_000
    True
    >>> table_from_bytes(table_to_bytes(table)).equals(table)
    True
    """
    return bytes(table_to_buffer(table))


def table_to_buffer(table: pa.Table) -> pa.Buffer:
    """As `table_to_bytes`, in memory that Arrow owns."""
    table = _downcast(table)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def table_from_bytes(data: bytes | pa.Buffer) -> pa.Table:
    """Undo `table_to_bytes`."""
    return _upcast(pa.ipc.open_stream(data).read_all())


def _downcast(table: pa.Table) -> pa.Table:
    """Columns of eight bytes without their smallest value, in fewer bytes; the schema says what it was and what was taken off."""
    schema, offsets = table.schema, {}
    for i, field in enumerate(schema):
        if not _is_wide(field.type) or table[i].null_count:
            continue
        column = _reinterpreted(table[i], pa.int64())
        low, high = pc.min_max(column).as_py().values()
        width = next((t for t in _DOWNCASTS if low is not None and high - low < 1 << t.bit_width), None)
        if width is not None:
            # The range is known, so the cast need not check it.
            table = table.set_column(i, field.with_type(width), pc.subtract(column, low).cast(width, safe=False))
            offsets[i] = low
    if not offsets:
        return table
    said = {_SCHEMA: schema.serialize().to_pybytes(), _OFFSETS: json.dumps(offsets).encode()}
    return table.replace_schema_metadata(said)


def _upcast(table: pa.Table) -> pa.Table:
    said = table.schema.metadata or {}
    if _OFFSETS not in said:
        return table
    schema = pa.ipc.read_schema(pa.py_buffer(said[_SCHEMA]))
    for i, low in json.loads(said[_OFFSETS]).items():
        field = schema.field(int(i))
        column = pc.add(table[int(i)].cast(pa.int64()), pa.scalar(low, pa.int64()))
        table = table.set_column(int(i), field, _reinterpreted(column, field.type))
    return table.replace_schema_metadata(schema.metadata)


def _is_wide(kind: pa.DataType) -> bool:
    return bool(pa.types.is_int64(kind) or pa.types.is_timestamp(kind) or pa.types.is_duration(kind))


def _reinterpreted(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    return column if column.type == kind else pa.chunked_array([c.view(kind) for c in column.chunks], kind)
