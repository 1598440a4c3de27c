"""The tour ends with accounts that add up."""

from __future__ import annotations

import pytest

from penstock.client.blocking import BlockingQueue
from tests.cli.running import Penstock


@pytest.mark.slow
def test_the_demo_accounts_for_every_job(run: Penstock) -> None:
    told = run("demo", "--jobs", "1000", "--json")
    assert told.code == 0
    accounts = told.object
    assert accounts["complete"] is True
    assert sum(account["ended"] for account in accounts["accounts"]) == accounts["jobs"] == 1000
    assert accounts["duplicates"] == 10
    assert "was killed with SIGKILL" in told.stderr


@pytest.mark.slow
def test_the_demo_shows_what_happened(run: Penstock) -> None:
    shown = run("demo", "--jobs", "100").stdout
    for words in ("hopeless", "fail until given up", "every job is accounted for"):
        assert words in shown


def test_the_demo_leaves_a_queue_in_use_alone(run: Penstock, queue: BlockingQueue) -> None:
    queue.enqueue("add", 1)
    assert run("demo", "--url", run.url).code == 2
