"""What Spark says when something fails, in one sentence: its own pages of it help nobody."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.errors import AnalysisException, ParseException, PySparkException

from penstock.errors import InvalidInput, SparkFailed

_OURS: Final = re.compile(r"penstock\.errors\.\w+: (?P<message>.+)")
"""How an error of penstock's ends the traceback that a task sends."""
_NUMBERED: Final = re.compile(r"\s*SQLSTATE: \w+.*")
_NAMED: Final = re.compile(r"^\[[A-Z_.]+\]\s*")


def sentence(error: Exception) -> str:
    """The one line of it that says what is wrong."""
    text = str(error).strip()
    if ours := _OURS.findall(text):
        return str(ours[-1])
    first = next((line for line in text.splitlines() if line.strip()), type(error).__name__)
    return _NAMED.sub("", _NUMBERED.sub("", first)).strip().rstrip(".")


@contextmanager
def plainly(what: str) -> Iterator[None]:
    """Whatever Spark raises in the block becomes one clear error of penstock's."""
    try:
        with _hushed():
            yield
    except PySparkException as error:
        raise SparkFailed(what, sentence(error)) from error


@contextmanager
def predicate_checked(predicate: str, columns: list[str]) -> Iterator[None]:
    try:
        with _hushed():
            yield
    except (AnalysisException, ParseException) as error:
        raise InvalidInput(
            f"{predicate!r} can't be asked: {sentence(error)}. It is a condition in Spark SQL "
            f"over {', '.join(columns)}"
        ) from error


@contextmanager
def _hushed() -> Iterator[None]:
    """PySpark logs each error that it raises, with all of Java's stack."""
    logger = logging.getLogger("SQLQueryContextLogger")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)
