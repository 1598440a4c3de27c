"""The queue in Spark: `penstock.spark.session()` gives a session that reads and writes it.

spark = penstock.spark.session()
events = spark.read.format("penstock").option("url", url).option("table", "events").load()
"""

from __future__ import annotations

from penstock.pipeline.checking.check import check
from penstock.pipeline.execution.rows import map_jobs
from penstock.pipeline.execution.running import run
from penstock.pipeline.session import register, session
from penstock.pipeline.warehouse.reading import create_views, load_table

__all__ = ["register", "session", "load_table", "create_views", "run", "map_jobs", "check"]
