"""Applications, each readable from top to bottom."""
