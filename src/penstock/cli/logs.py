"""Where the log messages of long-running commands go: stderr, for people or as JSON lines.

What a line says beside its words, the job that it is about and whatever was passed as `extra`, is
shown in both. Nothing that a job or its error says can begin a line of its own or command the
terminal: JSON escapes it, and text has spaces in place of control characters.
"""

from __future__ import annotations

import json
import logging
import sys
from enum import StrEnum
from textwrap import indent
from typing import Any, Final

from penstock.cli.output import clean, clean_lines


class Level(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"


_OWN: Final = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}
"""What every record has; the rest is what somebody passed with it."""


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        words = {
            **_facts(record),
            "at": record.created,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            words["exception"] = self.formatException(record.exc_info)
        # Whatever somebody has logged, as text that can be written: escaped where it has to be.
        return json.dumps(words, default=str)


class TextFormatter(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(message)s", "%H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        record.message = record.getMessage()
        record.asctime = self.formatTime(record, self.datefmt)
        facts = " ".join(f"{name}={value}" for name, value in _facts(record).items())
        line = clean(self.formatMessage(record) + (f" [{facts}]" if facts else ""))
        # Not what another formatter may have left in the record: that is not cleaned.
        where = self.formatException(record.exc_info) if record.exc_info else record.exc_text
        # Set in, so that none of their lines can be taken for a message.
        below = (indent(clean_lines(words), "  ") for words in (where, record.stack_info) if words)
        return "\n".join([line, *below])


def start_logging(*, as_json: bool, level: str = "info") -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if as_json else TextFormatter())
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)


def _facts(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in _OWN}
