"""The tour ends with accounts that add up."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import penstock
from penstock.cli import demo
from penstock.cli.tour_costs import FOLDER_VARIABLE, Meter, Notes, Spent, noted
from penstock.client.blocking import BlockingQueue
from penstock.errors import MissingExtra
from penstock.testing.clock import turns
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
    requests = accounts["requests"]
    # Every commit is a PUT, and each of the three processes has looked and listed at its start.
    assert requests["puts"] >= accounts["commits"]
    assert requests["gets"] >= 3
    assert requests["lists"] >= 3
    assert accounts["dollars_on_s3"] > requests["puts"] / 1_000 * 0.005


@pytest.mark.slow
def test_the_demo_shows_what_happened(run: Penstock) -> None:
    shown = run("demo", "--jobs", "100", "--no-report").stdout
    for words in ("hopeless", "fail until given up", " GETs, ", "every job is accounted for"):
        assert words in shown


def test_each_kind_of_request_has_its_price() -> None:
    spent = Spent(puts=1_000, gets=10_000).plus(Spent(lists=1_000, deletes=5_000))
    assert spent == Spent(1_000, 10_000, 1_000, 5_000)
    assert spent.dollars == pytest.approx(0.005 + 0.004 + 0.005)


async def test_a_worker_that_is_killed_leaves_its_last_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    meter = Meter()
    app = penstock.App(str(tmp_path / "queue"), layer=meter.layer)
    Notes(meter).keep_for(app)
    app.task(name="work")(lambda: None)
    async with app, penstock.Worker(app):
        await turns()
        killed_now = noted(tmp_path)
        assert killed_now.puts > 0
    assert noted(tmp_path) != killed_now
    assert noted(tmp_path) == meter.spent


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
