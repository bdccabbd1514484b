"""The ring buffer: rows for other processes of this machine, in memory that they share."""
