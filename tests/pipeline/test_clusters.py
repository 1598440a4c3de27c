"""What a cluster does that one machine's threads do not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.pipeline.failures import sentence
from tests.pipeline.backends import log_of
from tests.pipeline.cluster_runs import PARTITIONS, ROWS
from tests.pipeline.clusters import ROOT, environment, standalone

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

DAY_SECONDS = 86_400.0


def on_a_cluster(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tests.pipeline.cluster_runs", *arguments],
        env=environment(), cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_two_attempts_at_one_task_add_its_rows_once_and_leave_nothing(tmp_path: Path) -> None:
    queue = tmp_path / "queue"
    with standalone(tmp_path) as master:
        on_a_cluster("speculate", master, queue.as_uri(), str(tmp_path))
    assert (tmp_path / "begun").exists()
    with penstock.open_sync(queue.as_uri()) as opened:
        numbers = sorted(job.payload["n"] for job in opened.jobs())
        assert numbers == list(range(ROWS))
    # Whoever lost may have left objects; they go when they are too old to be published.
    for path in queue.glob("import/*/*"):
        aged = path.stat().st_mtime - 30 * DAY_SECONDS
        os.utime(path, (aged, aged))
    with penstock.open_sync(queue.as_uri()) as opened:
        opened.vacuum()
        assert len(opened.claim(ROWS)) == ROWS
    [published] = [event for event in events_of(queue) if event["event"] == "imported"]
    kept = {str(path.relative_to(queue)) for path in queue.glob("import/*/*")}
    assert kept == {part["key"] for part in published["objects"]}
    assert len(kept) == PARTITIONS


def events_of(queue: Path) -> list[dict[str, Any]]:
    return [event for _, events, _ in log_of(queue) for event in events]


def test_executors_without_the_package_are_told_of_in_one_sentence(tmp_path: Path) -> None:
    queue = tmp_path / "queue"
    with penstock.open_sync(queue.as_uri()) as opened:
        opened.enqueue("work")
    said = on_a_cluster("bare", queue.as_uri(), str(tmp_path))
    assert "Python on Spark's executors has no 'penstock': install penstock[spark] there" in said
    assert len(said.splitlines()) == 1


def test_a_module_of_the_app_that_is_missing_is_named() -> None:
    error = RuntimeError("Traceback …\nModuleNotFoundError: No module named 'handlers.images'\n")
    assert "has no 'handlers': install handlers there" in sentence(error)
