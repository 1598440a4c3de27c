"""The command line on a queue in PostgreSQL."""

from __future__ import annotations

import psycopg
import pytest

import penstock
from tests.cli.running import Penstock
from tests.servers.postgres import Postgres

pytestmark = pytest.mark.xdist_group("postgres")


@pytest.fixture
def run(postgres_server: Postgres) -> Penstock:
    return Penstock(postgres_server.new_database())


def schemas(run: Penstock) -> list[str]:
    with psycopg.connect(run.url) as connection:
        found = connection.execute(
            "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'penstock%'"
        )
        return [name for (name,) in found]


def test_looking_at_a_queue_that_is_not_there_makes_none(run: Penstock) -> None:
    ran = run("stats")
    assert ran.code != 0
    assert "there is no queue" in ran.stderr
    assert "postgres@" not in ran.stderr
    assert schemas(run) == []


def test_jobs_go_in_and_are_seen(run: Penstock) -> None:
    id = run("enqueue", "resize", '{"n": 1}').stdout.strip()
    assert run("status", id, "--json").object["payload"] == {"n": 1}
    assert run("stats", "--json").object["totals"]["pending"] == 1
    assert run("cancel", id).code == 0
    assert [line["event"] for line in run("history", id, "--json").lines] == [
        "enqueued",
        "cancelled",
    ]


def test_doctor_finds_a_sound_queue_sound(run: Penstock) -> None:
    with penstock.open_sync(run.url) as queue:
        queue.enqueue_many([penstock.NewJob("work") for _ in range(5)])
        queue.ack(queue.claim(2), "done")
    checks = {line["check"]: line["verdict"] for line in run("doctor", "--json").lines}
    assert set(checks.values()) == {"ok"}
    assert "records follow from events" in checks


def test_a_benchmark_leaves_nothing_behind(run: Penstock) -> None:
    phases = run("bench", "--jobs", "20", "--json").lines
    assert [phase["phase"] for phase in phases] == ["enqueue", "claim", "ack"]
    assert schemas(run) == []


@pytest.mark.slow
def test_the_demo_accounts_for_every_job(run: Penstock) -> None:
    ran = run("demo", "--jobs", "200", "--json")
    assert ran.code == 0, ran.stderr
    assert ran.object["complete"] is True
    assert ran.object["taken_back"] >= 0
