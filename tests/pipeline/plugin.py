"""One Spark session for all tests that ask for it.

A JVM takes seconds to start and half a gigabyte to run, so every test that uses the fixture `spark`
goes to the same worker process of a run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from penstock.spark import session

    folder = tmp_path_factory.mktemp("spark")
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
