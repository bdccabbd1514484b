"""Readers, as the user writes them: ``hp.read.parquet(...)``."""

from typing import TYPE_CHECKING, Any

from hydrophone.api.foreign import FORMATS
from hydrophone.api.medical import read_edf as edf
from hydrophone.api.medical import read_wfdb as wfdb
from hydrophone.api.medical import read_wfdb_annotations as wfdb_annotations
from hydrophone.api.recordings import read_binary as binary
from hydrophone.api.recordings import read_hdf5 as hdf5
from hydrophone.api.recordings import read_wav as wav
from hydrophone.api.rings import read_ring as ring
from hydrophone.api.seismic import read_miniseed as miniseed
from hydrophone.api.seismic import read_sac as sac
from hydrophone.api.sources import read_csv as csv
from hydrophone.api.sources import read_data as data
from hydrophone.api.sources import read_parquet as parquet
from hydrophone.api.sources import read_segments as segments
from hydrophone.api.sources import read_synthetic as synthetic

__all__ = [
    "binary",
    "csv",
    "data",
    "edf",
    "hdf5",
    "miniseed",
    "parquet",
    "ring",
    "sac",
    "segments",
    "synthetic",
    "wav",
    "wfdb",
    "wfdb_annotations",
]

if not TYPE_CHECKING:  # a type checker must go on to refuse what is not there

    def __getattr__(name: str) -> Any:
        """What other libraries call so: say what to write here."""
        instead = f": write {FORMATS[name]}" if name in FORMATS else f"; it has: {', '.join(__all__)}"
        raise AttributeError(f"hydrophone.read has no {name!r}{instead}")
