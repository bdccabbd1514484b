"""``python -m hydrophone``: the command line, where its script is not on the path."""

from hydrophone.cli.commands import main

if __name__ == "__main__":
    raise SystemExit(main())
