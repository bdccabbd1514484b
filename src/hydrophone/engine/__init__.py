"""Engines: the pipeline that runs kernels, and the local host around it."""
