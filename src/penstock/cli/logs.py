"""Where the log messages of long-running commands go: stderr, for people or as JSON lines."""

from __future__ import annotations

import logging
import sys

from penstock.cli.output import json_line


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        words = {
            "at": record.created,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            words["exception"] = self.formatException(record.exc_info)
        return json_line(words).rstrip("\n")


def start_logging(*, json: bool, level: str = "info") -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        JsonFormatter()
        if json
        else logging.Formatter("%(asctime)s %(levelname)-7s %(message)s", "%H:%M:%S")
    )
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
