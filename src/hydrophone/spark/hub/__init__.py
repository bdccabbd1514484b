"""The hub: queries join and leave a running Spark stream."""
