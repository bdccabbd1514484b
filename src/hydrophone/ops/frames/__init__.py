"""Frames: episodes that the data makes by itself, and sliding windows over them."""
