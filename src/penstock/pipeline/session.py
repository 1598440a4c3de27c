"""A Spark session as penstock wants it; one of the user's own does as well.

Whatever is passed as configuration wins over what is set here.
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from penstock.pipeline.datasource import PenstockDataSource
from penstock.pipeline.java import provide_java

LOOPBACK: Final = "127.0.0.1"
HEAP_GIBIBYTES_MAX: Final = 8
_LOG_SETTINGS: Final = Path(__file__).with_name("log4j2.properties")
_LOCAL: Final = re.compile(r"local(?:\[(?P<threads>\d+|\*)(?:,\d+)?\])?")
_LOCAL_CLUSTER: Final = re.compile(r"local-cluster\[(?P<workers>\d+),(?P<cores>\d+),\d+\]")


def session(master: str = "local[*]", *, app_name: str = "penstock", **conf: Any) -> SparkSession:
    """A session that knows `format("penstock")`, made or, if there is one already, joined.

    `master` is any of Spark's, or a Spark Connect address (`sc://…`). Names of settings may be
    written with `__` for the dots: `session(spark__executor__memory="2g")`, or passed as
    `**{"spark.executor.memory": "2g"}`.
    """
    builder = SparkSession.builder.appName(app_name)
    said = {name.replace("__", "."): str(value) for name, value in conf.items()}
    if master.startswith("sc://"):
        for name, value in said.items():
            builder = builder.config(name, value)
        return register(builder.remote(master).getOrCreate())
    provide_java()
    # Else the workers are whatever `python3` is on the PATH, which may not have penstock.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for name, value in {**_defaults(master), **said}.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")
        return register(builder.master(master).getOrCreate())


def joined(spark: SparkSession | None = None) -> SparkSession:
    """The session that was passed, else the one that is active, else a new one."""
    return spark or SparkSession.getActiveSession() or session()


def register(spark: SparkSession) -> SparkSession:
    """Teaches a session `format("penstock")`, where Spark did not find it by itself."""
    spark.dataSource.register(PenstockDataSource)
    return spark


def _defaults(master: str) -> dict[str, str]:
    settings = {
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower(),
    }
    cores = local_cores(master)
    if cores is not None:
        settings |= {
            "spark.driver.bindAddress": LOOPBACK,
            "spark.driver.host": LOOPBACK,
            "spark.sql.shuffle.partitions": str(cores),
        }
        # Before the JVM looks up the machine's name, and warns of what it finds.
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    if _LOCAL.fullmatch(master):
        settings["spark.driver.memory"] = f"{_heap_gibibytes()}g"
    if master.startswith("local-cluster") and "PYTHONPATH" in os.environ:
        settings["spark.executorEnv.PYTHONPATH"] = os.environ["PYTHONPATH"]
    return settings


def _heap_gibibytes() -> int:
    """A quarter of the machine: here the driver is also the executor, and Spark's own default of
    one gibibyte makes an increment of some million events spill to the disk."""
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(HEAP_GIBIBYTES_MAX, max(1, memory_bytes // 4 // 1024**3))


def local_cores(master: str) -> int | None:
    """How many tasks a master on this machine runs at once; None for a master elsewhere."""
    if local := _LOCAL.fullmatch(master):
        threads = local["threads"] or "1"
        return (os.cpu_count() or 1) if threads == "*" else int(threads)
    if cluster := _LOCAL_CLUSTER.fullmatch(master):
        return int(cluster["workers"]) * int(cluster["cores"])
    return None
