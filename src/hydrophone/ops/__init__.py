"""The operators: one file per family, node and kernel side by side."""
