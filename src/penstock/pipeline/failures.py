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
_MISSING: Final = re.compile(r"ModuleNotFoundError: No module named '(?P<module>[\w.]+)'")
"""How the traceback of a task ends whose Python has not what the driver's has."""
_NUMBERED: Final = re.compile(r"\s*SQLSTATE: \w+.*")
_NAMED: Final = re.compile(r"^\[[A-Z_.]+\]\s*")


def sentence(error: Exception) -> str:
    """The one line of it that says what is wrong."""
    text = str(error).strip()
    if ours := _OURS.findall(text):
        return str(ours[-1])
    if missing := _MISSING.search(text):
        return missing_on_executors(missing["module"])
    first = next((line for line in text.splitlines() if line.strip()), type(error).__name__)
    return _NAMED.sub("", _NUMBERED.sub("", first)).strip().rstrip(".")


def missing_on_executors(module: str) -> str:
    package = module.partition(".")[0]
    install = "penstock[spark]" if package in ("penstock", "pyspark_penstock") else package
    return (
        f"Python on Spark's executors has no {package!r}: install {install} there, point "
        "PYSPARK_PYTHON (or spark.pyspark.python) to a Python that has it, or pass it as --py-files"
    )


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
