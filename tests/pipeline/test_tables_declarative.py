"""The flow as a Spark Declarative Pipelines definition."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline.backends import log_of
from tests.pipeline.histories import History
from tests.pipeline.recount import Recount

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "declarative"
RUN_SECONDS_MAX = 300

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_the_declarative_example_makes_the_tables(tmp_path: Path) -> None:
    import pyarrow.dataset as ds

    history, folder = History(tmp_path / "queue", seed=31), tmp_path / "declarative"
    history.grow(50)
    shutil.copytree(EXAMPLE, folder)
    specification = folder / "spark-pipeline.yml"
    storage = (tmp_path / "storage").as_uri()
    specification.write_text(specification.read_text().replace("STORAGE", storage))
    done = subprocess.run(
        [Path(sys.executable).with_name("spark-pipelines"), "run"],
        cwd=folder,
        env={
            **os.environ,
            "QUEUE_URL": history.url,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        },
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-2_000:]
    expected = Recount(log_of(history.folder)).tables()
    for name in ("events", "attempts", "jobs", "throughput", "errors", "slo"):
        rows = ds.dataset(folder / "spark-warehouse" / name, format="parquet").count_rows()
        assert rows == len(expected[name]), name
