"""Soccer: the DEBS 2013 challenge, with a simulator of matches whose truth is known exactly."""

from __future__ import annotations


def main(arguments: list[str] | None = None) -> int:
    """Run the demo, see `hydrophone.apps.soccer.demo`; imported then, because who runs a query needs none of it."""
    from hydrophone.apps.soccer import demo

    return demo.main(arguments)
