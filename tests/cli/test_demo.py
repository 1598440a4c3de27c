"""The tour ends with accounts that add up."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from penstock.cli import demo
from penstock.client.blocking import BlockingQueue
from penstock.errors import MissingExtra
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
    shown = run("demo", "--jobs", "100", "--no-report").stdout
    for words in ("hopeless", "fail until given up", "every job is accounted for"):
        assert words in shown


@pytest.mark.slow
@pytest.mark.xdist_group("spark")
def test_the_demo_ends_with_the_report_of_its_queue(tmp_path: Path) -> None:
    kept = tmp_path / "report.html"
    url = str(tmp_path / "queue")
    # A process of its own: the session that the demo stops is not the one of other tests.
    shown = subprocess.run(
        [sys.executable, "-m", "penstock", "demo", "-n", "200", "-u", url, "--report", str(kept)],
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    assert "every job is accounted for" in shown
    assert "200 enqueued, 198 completed, 2 failed" in shown
    assert "RuntimeError: this never works" in kept.read_text("utf-8")


def test_without_the_extra_the_demo_says_how_to_get_its_report(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def missing(*arguments: object, **options: object) -> None:
        raise MissingExtra("spark", "the data pipeline")

    monkeypatch.setattr("penstock.cli.tour_report.tour_report", missing)
    demo.report_of("queue", tmp_path, None, quiet=False)
    assert "pip install 'penstock[spark]'" in capsys.readouterr().err


def test_the_demo_leaves_a_queue_in_use_alone(run: Penstock, queue: BlockingQueue) -> None:
    queue.enqueue("add", 1)
    assert run("demo", "--url", run.url).code == 2
