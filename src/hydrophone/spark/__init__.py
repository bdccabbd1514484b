"""Hydrophone on Spark: the only part of the package that knows Spark's types.

Importing this package does not import PySpark; its modules do.
"""
