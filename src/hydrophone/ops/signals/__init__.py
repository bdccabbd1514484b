"""Signals and their samples: sampling, fills, functions of time, arithmetic, single samples."""
