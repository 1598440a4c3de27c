"""The same on one machine and on a cluster, with the queue on a folder and in a bucket."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from tests.pipeline.clusters import ROOT, connect_server, environment, standalone
from tests.pipeline.everywhere import JOBS
from tests.servers.seaweed import ACCESS_KEY, SECRET_KEY, Seaweed

RUN_SECONDS_MAX = 1_200

Cluster = Callable[[Path], AbstractContextManager[str]]


def on(master: str) -> Cluster:
    return lambda folder: nullcontext(master)


@pytest.mark.slow
@pytest.mark.timeout(RUN_SECONDS_MAX)
@pytest.mark.parametrize(
    ("cluster", "stumbles"),
    [
        (on("local[2]"), False),
        (on("local[2,3]"), True),
        (on("local-cluster[2,1,1024]"), False),
        (standalone, False),
        (connect_server, False),
    ],
    ids=["local", "local with failing tasks", "local-cluster", "standalone", "connect"],
)
def test_jobs_are_written_run_and_counted_the_same_everywhere(
    cluster: Cluster,
    stumbles: bool,
    tmp_path: Path,
    seaweed: Seaweed,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    bucket = f"s3://{seaweed.new_bucket()}?region=us-east-1&endpoint={seaweed.endpoint}"
    with cluster(tmp_path) as master:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "tests.pipeline.everywhere", master),
                *("stumbles" if stumbles else "steady", tmp_path.as_uri(), bucket),
            ],
            env=environment(), cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    for seen in json.loads(done.stdout.splitlines()[-1]):
        assert seen == {
            "completed by workers": JOBS,
            "read": {"completed": JOBS},
            "attempts": {"completed": JOBS},
            "jobs": {"completed": JOBS},
            "throughput": {"enqueued": JOBS, "started": JOBS, "completed": JOBS},
            "violations": [],
        }
