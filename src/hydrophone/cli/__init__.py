"""The command line."""

from hydrophone.cli.commands import main

__all__ = ["main"]
