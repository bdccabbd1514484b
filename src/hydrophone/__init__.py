"""Listen to signals in streams and lakes: one query for Spark batch, Spark streaming and in-process."""

__version__ = "0.1.0"
