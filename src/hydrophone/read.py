"""Readers, as the user writes them: ``hp.read.parquet(...)``."""

from hydrophone.sources import read_csv as csv
from hydrophone.sources import read_parquet as parquet
from hydrophone.sources import read_segments as segments

__all__ = ["csv", "parquet", "segments"]
