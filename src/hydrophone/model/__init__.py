"""Data that flows and state that is kept: time, batches, keys, marks, and the kernel contract."""
