"""The command line: `penstock …`, one thin file per command."""

from __future__ import annotations


def main() -> None:
    """What the installed script and `python -m penstock` call."""
    import io
    import sys

    from penstock.cli.root import app

    for stream in (sys.stdout, sys.stderr):
        # A terminal that can't show a character gets a question mark and not a traceback.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    app(prog_name="penstock")
