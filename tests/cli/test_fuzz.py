"""Whatever is typed, nobody sees a traceback: it works, or one `error:` line says what to do.

Commands run in this process, and `PENSTOCK_TRACEBACK` lets what nobody has foreseen through, so
that the net in `cli/root.py` hides nothing from this test.
"""

from __future__ import annotations

import os
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.main import get_command
from typer.testing import CliRunner

from penstock.address import Address, parse
from penstock.cli.pipeline import COMMANDS as PIPELINE_COMMANDS
from penstock.cli.root import COMMANDS, app
from penstock.errors import PenstockError
from penstock.runtime.services import Services
from penstock.wiring import open_records, open_store
from tests.cli.running import Penstock

UNHURRIED: dict[str, Any] = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.function_scoped_fixture],
}

ENDLESS = {"worker", "monitor", "top", "events", "demo"}
"""They run until they are stopped, or for minutes."""

COMMAND_NAMES = [
    *([name] for name in COMMANDS if name != "pipeline"),
    *(["pipeline", name] for name in PIPELINE_COMMANDS),
]

ENDING = [
    name
    for name in COMMAND_NAMES
    if name[0] not in {*ENDLESS, "pipeline", "bench", "doctor", "probe", "migrate", "init"}
]

STARTING = [name for name in COMMAND_NAMES if name[0] in {*ENDLESS, "pipeline"}]

UGLY = st.text(
    # Without slashes: queues are made here, and a path may lead to anywhere.
    st.characters(exclude_categories=["Cs"], exclude_characters="\0/"), max_size=12
) | st.sampled_from(
    ["", " ", "-", "--", "..", "/", "%", "%00", "%zz", "?", "#", "[", "]", "[::1", ":", "@", "é",
     "\udcff", "\x1b[31m", "nan", "inf", "-1", "1e999", "{", '{"a":', "[" * 2000, "0x10", "🐟"]
)  # fmt: skip

SCHEMES = ["file", "s3", "gs", "az", "redis", "rediss", "postgresql", "sqlite", "memory", "ftp", ""]
OPTIONS = [
    "layout", "tenant", "endpoint", "region", "fsync", "group_commit", "payload_bytes_max",
    "outcome_seconds_max", "index", "shards", "schema", "prefix", "result_ttl_seconds", "nonsense",
]  # fmt: skip

PLACES = UGLY | st.sampled_from(
    ["", "bucket", "host", "host:port", "host:99999", "host:-1", "h:1,i:x", "u:p@host", "buc ket"]
)
PATHS = UGLY | st.sampled_from(["", "/a", "/a b", "/../a", "/a//b", "/./a", "/a/%2e%2e/b", "/0"])
QUERIES = st.dictionaries(
    st.sampled_from(OPTIONS), UGLY | st.sampled_from(["notaurl", "tasks", "single", "on"]),
    max_size=3,
)  # fmt: skip


@st.composite
def urls(draw: st.DrawFn) -> str:
    scheme, place, path = draw(st.sampled_from(SCHEMES)), draw(PLACES), draw(PATHS)
    query = "&".join(f"{name}={value}" for name, value in draw(QUERIES).items())
    return f"{scheme}://{place}{path}" + (f"?{query}" if query else "")


@pytest.fixture(autouse=True)
def _nowhere_to_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder, and no cloud: credentials of nobody, so that none are looked for.

    It lies deep enough for what a `..` leads to.
    """
    (tmp_path / "deep" / "down").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "deep" / "down")
    for name in list(os.environ):
        if name.startswith(("AZURE_", "AWS_", "GOOGLE_", "PENSTOCK_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "nothing")


def check(*arguments: str, url: str | None = None) -> None:
    """It worked, or it said one line that begins with `error:` and no more than points."""
    environment = {"PENSTOCK_URL": url, "COLUMNS": "120", "PENSTOCK_TRACEBACK": "1"}
    ran = CliRunner().invoke(app, list(arguments), env=environment, prog_name="penstock")
    if ran.exception is not None and not isinstance(ran.exception, SystemExit):
        raise AssertionError(f"penstock {arguments} let this through") from ran.exception
    assert "Traceback" not in ran.output
    assert ran.exit_code in (0, 1, 2)
    if ran.exit_code == 2:
        assert ran.stderr.startswith("error: "), ran.stderr


@given(url=urls() | UGLY)
@settings(max_examples=400, **UNHURRIED)
def test_any_url_is_an_address_or_is_refused_with_words(url: str) -> None:
    """Down to the client of its store, which is made here and asked for nothing."""
    with suppress(PenstockError):
        make(parse(url, {}))


def make(address: Address) -> None:
    if address.scheme in ("s3", "gs", "az", "file"):
        open_store(address)
    elif address.scheme in ("redis", "rediss", "postgresql", "postgres"):
        open_records(address, Services())


@pytest.mark.parametrize("name", COMMAND_NAMES, ids=" ".join)
@given(
    arguments=st.lists(UGLY, max_size=4), url=st.none() | UGLY.filter(lambda url: "://" not in url)
)
@settings(max_examples=25, **UNHURRIED)
def test_any_arguments_of_any_command_end_in_words(
    name: list[str], arguments: list[str], url: str | None
) -> None:
    if name[-1] in ENDLESS or name[0] == "pipeline":
        # An option that is not there ends what would not end by itself, after all else was read;
        # behind two dashes it would be a name.
        arguments = [*(word for word in arguments if word != "--"), "--no-such-option"]
    check(*name, *arguments, url=url)


@pytest.mark.parametrize("name", ENDING, ids=" ".join)
@given(data=st.data())
@settings(max_examples=25, **UNHURRIED)
def test_any_option_of_any_command_ends_in_words(name: list[str], data: st.DataObject) -> None:
    """On a queue that is there, so that what is read is also used."""
    if not Path("queue").exists():
        check("enqueue", "resize", "{}", "--id", "a", url="queue")
    options = data.draw(st.lists(st.sampled_from(options_of(*name)), max_size=3))
    words = [word for option in options for word in (option, data.draw(UGLY | VALUES))]
    arguments = data.draw(st.sampled_from([[], ["a"], ["resize", "7"], ["-"]]))
    check(*name, *arguments, *words, url="queue")


@pytest.mark.parametrize("name", STARTING, ids=" ".join)
@given(data=st.data())
@settings(max_examples=12, **UNHURRIED)
def test_any_option_of_what_runs_for_ever_is_refused_before_it_starts_or_starts(
    name: list[str], data: st.DataObject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to where it would begin: a coroutine that is run, or a session of Spark."""
    for module in ENDLESS:
        monkeypatch.setattr(f"penstock.cli.{module}.run", begin)
    monkeypatch.setattr("penstock.pipeline.session.session", begin)
    Path("tasks.py").write_text(TASKS)
    options = data.draw(st.lists(st.sampled_from(options_of(*name)), max_size=4))
    words = [word for option in options for word in (option, data.draw(UGLY | VALUES))]
    arguments = data.draw(st.sampled_from([[], ["tasks:app"], ["tasks"], ["queue", "tables"]]))
    check(*name, *arguments, *words, url="queue")


def begin(work: Any = None, *_: Any, **__: Any) -> None:
    if isinstance(work, Coroutine):
        work.close()
    raise typer.Exit(0)


TASKS = """
import penstock

app = penstock.App()

@app.task
async def add(a: int, b: int) -> int:
    return a + b
"""


def options_of(*name: str) -> list[str]:
    loaded = get_command(app)
    for part in name:
        loaded = loaded._loaded(part)  # type: ignore[attr-defined]  # as the root loads it
    long = [option for parameter in loaded.params for option in parameter.opts]
    return [option for option in long if option.startswith("--") and option not in UNSAFE]


VALUES = st.sampled_from(
    ["0", "-1", "1", "nan", "1e999", "2026-11-16", "failed", "a", "null", "[]"]
)
UNSAFE = {
    "--jobs", "--callers", "--batch",  # of `bench`: minutes
    "--url", "--follow", "--since", "--wait", "--rates", "--help",
    "--output", "--file",  # files of this machine
}  # fmt: skip


@pytest.mark.parametrize("name", COMMAND_NAMES, ids=" ".join)
@given(url=urls().filter(lambda url: url.startswith(("ftp", "az:", "://"))))
@settings(max_examples=8, **UNHURRIED)
def test_any_address_of_any_command_ends_in_words(name: list[str], url: str) -> None:
    if name[0] in ENDLESS or name[0] == "pipeline":
        check(*name, "--no-such-option", url=url)
    elif name[0] not in ("bench", "init"):
        check(*name, url=url)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("az://container/x", "AZURE_STORAGE_ACCOUNT_NAME"),
        ("s3://bucket/x?endpoint=notaurl", "http://host:port"),
        ("s3://buc ket/x", "letters, digits"),
        ("s3://bucket/a b", "blank"),
        ("s3://bucket/../x", "'..'"),
        ("s3://bucket/a//b", "''"),
        ("redis://host:port/0", "no number"),
        ("redis://host:99999/0", "65535"),
        ("postgresql://host:port/database", "no number"),
        ("queue?layot=single", "layot"),
        ("file:///queue#1", "%23"),
    ],
)
def test_a_bad_address_is_one_line_that_says_what_to_do(url: str, words: str) -> None:
    ran = Penstock(url)("stats")
    assert ran.code == 2
    assert ran.stderr.startswith("error: ")
    assert ran.stderr.count("\n") == 1
    assert words in ran.stderr


def test_a_bare_path_takes_options_as_the_readme_shows() -> None:
    Penstock("queue?layout=single")("enqueue", "resize", "1")
    assert Path("queue/queue.json").is_file()


@pytest.mark.parametrize(
    "arguments", [["worker"], ["list", "--limit", "x"], ["list", "--state", "odd"], ["stats", "a"]]
)
def test_wrong_usage_is_one_line_that_names_the_help(arguments: list[str]) -> None:
    ran = Penstock("memory://")(*arguments)
    assert ran.code == 2
    assert ran.stderr.startswith("error: ")
    assert ran.stderr.count("\n") == 1
    assert f"see `penstock {arguments[0]} -h`" in ran.stderr


@pytest.mark.parametrize(
    ("name", "statement", "words"),
    [
        ("hooked", r'raise RuntimeError("the database\nis away")', "the database is away"),
        ("leaving", "raise SystemExit(7)", "SystemExit: 7"),
    ],
)
def test_a_start_hook_that_fails_is_one_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, statement: str, words: str
) -> None:
    (folder / f"{name}.py").write_text(f"{HOOKED}    {statement}\n")
    monkeypatch.syspath_prepend(str(folder))
    ran = Penstock("queue")("worker", f"{name}:app", "--burst", "--no-log-config")
    assert ran.code == 1
    [line] = ran.stderr.splitlines()
    assert line.startswith("error: ")
    assert "wake_up" in line
    assert words in line
    assert f"{name}.py:12" in line


HOOKED = """
import penstock

app = penstock.App()

@app.task
async def add(a: int, b: int) -> int:
    return a + b

@app.on_start
async def wake_up(app: penstock.App) -> None:
"""


def test_what_nobody_has_foreseen_is_one_line_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("never thought of")

    monkeypatch.setattr("penstock.cli.stats.opened", fail)
    ran = CliRunner().invoke(app, ["stats", "-u", "queue"], prog_name="penstock")
    assert ran.exit_code == 1
    assert ran.stderr.startswith("error: penstock did not foresee this: ZeroDivisionError")
    assert "PENSTOCK_TRACEBACK=1" in ran.stderr
