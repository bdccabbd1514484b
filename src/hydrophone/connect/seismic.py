"""What the formats of seismology share: the key, and times in UTC."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from hydrophone.connect.recording import RecordingData
from hydrophone.plan.types import Clock

KEY = ("network", "station", "location", "channel")


@dataclass(frozen=True, eq=False)
class SeismicData(RecordingData):
    """Channels of stations. The header tells the key and the start."""

    clock: Clock = "zoned"

    @property
    def key_schema(self) -> pa.Schema:
        """As stations are named."""
        return pa.schema([(n, pa.string()) for n in KEY])
