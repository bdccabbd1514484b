"""Bands, wavelets, and transforms that follow a signal."""
