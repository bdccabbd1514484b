"""Readers, as the user writes them: ``hp.read.parquet(...)``."""

from hydrophone.sources import read_csv as csv
from hydrophone.sources import read_parquet as parquet

__all__ = ["csv", "parquet"]
