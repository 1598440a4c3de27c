"""A run of the pipeline that is killed with `kill -9` at its n-th step; a process of its own."""

from __future__ import annotations

import os
import signal
import sys

from penstock.pipeline.run import Plan, opened_pipeline
from penstock.pipeline.session import session


def main(url: str, warehouse: str, step: str, commits_max: str) -> None:
    left = int(step)

    def on_step(name: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    spark = session("local[2]")
    plan = Plan(url, warehouse, commits_max=int(commits_max))
    with opened_pipeline(spark, plan, on_step=on_step) as pipeline:
        pipeline.run_once()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
