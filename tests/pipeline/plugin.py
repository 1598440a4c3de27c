"""One Spark session for many tests.

A JVM takes seconds to start and half a gigabyte to run, so the tests that use the fixture `spark`
share two worker processes of a run: those of the tables have one, all others the other. Tests that
start programs with JVMs of their own go to a third. Each of these rows waits for Spark's own pauses
more than for a core, and is long: they begin first, and all else runs beside them. No JVM runs for
long enough to be worth what its second compiler costs, or threads that collect garbage.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.servers.seaweed import ACCESS_KEY, SECRET_KEY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


HERE: Final = Path(__file__).parent
SHORT_LIVED: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def pytest_configure() -> None:
    # Every JVM that a test starts reads it, whoever starts it; what somebody else says wins.
    os.environ.setdefault("JDK_JAVA_OPTIONS", SHORT_LIVED)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            is_of_tables = item.path.name.startswith("test_tables")
            item.add_marker(pytest.mark.xdist_group("spark tables" if is_of_tables else "spark"))
        elif item.get_closest_marker("xdist_group") is None and _starts_a_program(item):
            item.add_marker(pytest.mark.xdist_group("spark programs"))
    items.sort(key=lambda item: not _is_long(item))


def _is_long(item: pytest.Item) -> bool:
    group = item.get_closest_marker("xdist_group")
    return group is not None and str(group.args[0]).startswith("spark")


def _starts_a_program(item: pytest.Item) -> bool:
    return item.path.parent == HERE and item.get_closest_marker("slow") is not None


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from penstock.spark import session

    folder = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as environment:
        # Spark's processes have what is set when the first of them is started.
        environment.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
        environment.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
        spark = session(
            "local[2]",
            app_name="penstock tests",
            **{
                "spark.local.dir": str(folder / "local"),
                "spark.sql.warehouse.dir": str(folder / "warehouse"),
            },
        )
    yield spark
    spark.stop()
