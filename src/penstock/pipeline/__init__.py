"""Spark: the log as tables, jobs from data frames, handlers on executors."""

from importlib.util import find_spec

from penstock.errors import MissingExtra

if find_spec("pyspark") is None:
    raise MissingExtra("spark", "the data pipeline")
