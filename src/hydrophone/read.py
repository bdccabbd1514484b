"""Readers, as the user writes them: ``hp.read.parquet(...)``."""

from hydrophone.sources import read_parquet as parquet

__all__ = ["parquet"]
