"""What all commands share: help, exit codes, errors in one line, completion."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import penstock
from penstock.cli.pipeline import COMMANDS as PIPELINE_COMMANDS
from penstock.cli.root import COMMANDS, app
from penstock.errors import StoreUnavailable
from tests.cli.running import Penstock


def test_help_names_every_command_with_its_sentence() -> None:
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "120"}).stdout
    for name, entry in COMMANDS.items():
        assert name in shown
        assert entry.sentence in shown


ALL = {
    **{name: entry for name, entry in COMMANDS.items() if name != "pipeline"},
    **{f"pipeline {name}": entry for name, entry in PIPELINE_COMMANDS.items()},
}


@pytest.mark.parametrize("name", ALL)
def test_every_command_has_help_and_speaks_json(name: str) -> None:
    result = CliRunner().invoke(app, [*name.split(), "-h"], env={"COLUMNS": "120"})
    assert result.exit_code == 0
    assert ALL[name].sentence in result.stdout
    assert "--json" in result.stdout


def test_a_group_names_its_commands() -> None:
    shown = CliRunner().invoke(app, ["pipeline", "-h"], env={"COLUMNS": "120"}).stdout
    for name, entry in PIPELINE_COMMANDS.items():
        assert name in shown
        assert entry.sentence in shown


@pytest.mark.parametrize("name", [(), ("pipeline",)])
def test_without_a_command_the_help_is_shown_and_no_error(name: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, name, env={"COLUMNS": "120"})
    asked = CliRunner().invoke(app, [*name, "-h"], env={"COLUMNS": "120"})
    assert (result.exit_code, result.stdout, result.stderr) == (2, asked.stdout, "")


def test_what_a_server_says_in_several_lines_is_one_line(
    run: Penstock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*given: object) -> None:
        raise StoreUnavailable("server", "", "refused\n\tIs it running?\n")

    monkeypatch.setattr("penstock.cli.opening.open_store", refuse)
    ran = run("stats")
    assert ran.stderr == "error: server: unavailable for now: refused Is it running?\n"


def test_help_loads_neither_the_queue_nor_a_store() -> None:
    code = (
        "import sys\n"
        "from typer.testing import CliRunner\n"
        "from penstock.cli.root import app\n"
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0\n"
        "heavy = {'obstore', 'msgspec', 'asyncio', 'pydantic', 'penstock.wiring'}\n"
        "heavy |= {'penstock.cli.enqueue'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "[]\n"


def test_it_runs_as_a_module_and_says_its_version() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "penstock", "--version"],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert done.stdout == f"penstock {penstock.__version__}\n"


def test_a_terminal_without_unicode_gets_what_it_can_show(run: Penstock, folder: Path) -> None:
    run("enqueue", "größe", "1")
    done = subprocess.run(
        [sys.executable, "-m", "penstock", "list"],
        env={**os.environ, "PENSTOCK_URL": run.url, "PYTHONIOENCODING": "ascii"},
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert "gr??e" in done.stdout


def test_a_command_that_is_not_there_is_wrong_usage_with_a_hint(run: Penstock) -> None:
    ran = run("stat")
    assert ran.code == 2
    assert "stats" in ran.stderr


@pytest.mark.parametrize(
    ("arguments", "name", "value"),
    [
        (["worker", "tasks"], "PENSTOCK_WORKER_CONCURRENCY", "many"),
        (["worker", "tasks"], "PENSTOCK_WORKER_LEASE_SECONDS", "0"),
        (["worker", "tasks"], "PENSTOCK_WORKER_PROCESSES", "x"),
        (["monitor", "--once"], "PENSTOCK_MONITOR_ROUND", "-1"),
        (["worker", "tasks"], "PENSTOCK_WORKER_TYPES", "nosuch"),
        (["worker", "tasks"], "PENSTOCK_WORKER_QUEUE", "a/b"),
        (["worker", "tasks", "-c", "auto"], "PENSTOCK_WORKER_CONCURRENCY_MIN", "5000"),
        (["stats"], "PENSTOCK_URL", "ftp://somewhere"),
        (["enqueue", "add", "1"], "PENSTOCK_TENANT", "a/b"),
        (["enqueue", "add", '"abc"'], "PENSTOCK_PAYLOAD_BYTES_MAX", "3"),
        (["stats"], "PENSTOCK_LAYOUT", "tree"),
        (["stats"], "PENSTOCK_RESULT_TTL_SECONDS", "soon"),
    ],
)
def test_a_bad_value_from_the_environment_is_said_to_come_from_there(
    run: Penstock,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    name: str,
    value: str,
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv(name, value)
    ran = (Penstock(value) if name == "PENSTOCK_URL" else run)(*arguments)
    assert ran.code == 2
    assert name in ran.stderr
    assert value in ran.stderr
    assert ran.stderr.count("in the environment") == 1


@pytest.mark.parametrize("url", ["nowhere", "redis://me:swordfish@127.0.0.1:1/0"])
def test_where_nothing_is_the_variable_is_named_that_has_led_there(
    folder: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.chdir(folder)
    ran = Penstock(url)("stats")
    assert ran.code == 1
    assert "(the address comes from PENSTOCK_URL in the environment)" in ran.stderr
    assert "swordfish" not in ran.stderr
    for typed in (["--url", url], [f"--url={url}"]):
        assert "PENSTOCK" not in Penstock(url)("stats", *typed).stderr


def test_a_bad_value_that_was_typed_is_not_said_to_come_from_the_environment(
    run: Penstock,
) -> None:
    ran = run("worker", "tasks", "--processes", "x")
    assert ran.code == 2
    assert "PENSTOCK_" not in ran.stderr


@pytest.mark.parametrize("name", ["worker", "monitor", "list", "pipeline run"])
def test_the_help_fits_eighty_columns_and_cuts_nothing(name: str) -> None:
    shown = CliRunner().invoke(app, [*name.split(), "-h"], env={"COLUMNS": "80"}).stdout
    assert max(map(len, shown.splitlines())) <= 90, "only a list of choices is longer"
    assert "…]" not in shown
    for variable in {"worker": WORKERS_VARIABLES, "monitor": ["PENSTOCK_URL"]}.get(name, []):
        assert variable in shown


WORKERS_VARIABLES = ["PENSTOCK_WORKER_CONCURRENCY_MIN", "PENSTOCK_WORKER_HEALTH_HOST"]


def test_the_help_of_an_address_names_every_kind() -> None:
    shown = CliRunner().invoke(app, ["stats", "-h"], env={"COLUMNS": "80"}).stdout
    for scheme in ("file", "sqlite", "postgresql", "redis", "s3", "gs", "az"):
        assert f"{scheme}://" in shown


def test_no_address_is_wrong_usage() -> None:
    ran = Penstock("")("stats")
    assert ran.code == 2
    assert ran.stderr.startswith("error: no queue's address")
    assert "PENSTOCK_URL" in ran.stderr


@pytest.mark.parametrize("url", ["ftp://somewhere", "file://queue", "s3://", "s3://b?layoot=log"])
def test_an_address_that_cannot_be_is_wrong_usage(url: str) -> None:
    ran = Penstock(url)("stats")
    assert ran.code == 2
    assert ran.stderr.count("\n") == 1
    assert ran.stderr.startswith("error: ")


def test_a_store_that_says_no_is_a_failure_in_one_line(folder: Path) -> None:
    ran = Penstock(str(folder / "tasks.py"))("enqueue", "add", "1")
    assert ran.code == 1
    assert ran.stderr.count("\n") == 1
    assert "Traceback" not in ran.stderr


def test_a_reader_that_goes_away_ends_it_quietly(run: Penstock, folder: Path) -> None:
    lines = "\n".join(str(number) for number in range(5_000))
    run("enqueue", "add", "--file", "-", input=lines)
    shell = f"{sys.executable} -m penstock export | head -n 1"
    done = subprocess.run(
        shell, shell=True, capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "PENSTOCK_URL": run.url},
    )  # fmt: skip
    assert done.stdout.count("\n") == 1
    assert "Traceback" not in done.stderr


def test_the_shell_completes_commands_and_states() -> None:
    def completed(words: str) -> str:
        environment = {
            **os.environ,
            "_PENSTOCK_COMPLETE": "complete_zsh",
            "_TYPER_COMPLETE_ARGS": words,
        }
        done = subprocess.run(
            [sys.executable, "-m", "penstock"],
            env=environment, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        return done.stdout

    assert "unarchive" in completed("penstock una")
    assert "retrying" in completed("penstock list --state re")
