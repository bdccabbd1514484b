"""Readers, as the user writes them: ``hp.read.parquet(...)``."""

from typing import TYPE_CHECKING, Any

from hydrophone.api.foreign import FORMATS
from hydrophone.api.recordings import read_wav as wav
from hydrophone.api.sources import read_csv as csv
from hydrophone.api.sources import read_data as data
from hydrophone.api.sources import read_parquet as parquet
from hydrophone.api.sources import read_segments as segments
from hydrophone.api.sources import read_synthetic as synthetic

__all__ = ["csv", "data", "parquet", "segments", "synthetic", "wav"]

if not TYPE_CHECKING:  # a type checker must go on to refuse what is not there

    def __getattr__(name: str) -> Any:
        """What other libraries call so: say what to write here."""
        instead = f": write {FORMATS[name]}" if name in FORMATS else f"; it has: {', '.join(__all__)}"
        raise AttributeError(f"hydrophone.read has no {name!r}{instead}")
