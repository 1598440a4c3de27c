"""The documentation is executed: what it says is what happens.

Python blocks of one page run in order, in one namespace, in an empty folder; `await` works at the
top level, as it does in `python -m asyncio`. A block whose first line is a comment that names a
file, such as `# tasks.py`, is also written there, and those that follow can import it. Of shell
blocks, `penstock …` and `python` with such a file are run in that folder and have to succeed,
`export NAME=value` counts from there on, and everything else is checked against a short list of
commands. There is no way to mark a block as not to be run.

The README and what is like it is pasted: each Python block is the file that its first line names,
each shell block goes to a real shell, in order, in an empty folder, and what a comment behind
`print(…)` says is what has to come out. Only `pip` and `make` are stood in for.
"""

from __future__ import annotations

import ast
import asyncio
import importlib
import inspect
import os
import re
import shlex
import subprocess
import sys
import textwrap
import tomllib
import types
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import penstock
from tests.imports import forgotten_imports
from tests.servers.postgres import Postgres

ROOT = Path(__file__).resolve().parent.parent
PAGES = [
    page for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))] if page.exists()
]
SPARK_PAGES = [page for page in PAGES if page.name == "spark.md"]
POSTGRES_PAGES = [page for page in PAGES if page.name == "postgres.md"]
PASTED_PAGES = [page for page in PAGES if page.name in ("README.md", "celery.md")]
SHOWN = {"dockerfile", "text", "json", "jsonl", "mermaid", "sql", "toml", "yaml"}
NAMED_FILE = re.compile(r"# (\w+\.py)\n")
PRINTED = re.compile(r"^ *print\(.*\)  # (.+)$", re.MULTILINE)
COMMAND_SECONDS_MAX = 240
FENCE = re.compile(r"(?P<indent>\s*)(?P<ticks>`{3,}|~{3,})(?P<language>.*)")


class Block(NamedTuple):
    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


class BadBlock(Exception):
    def __init__(self, block: Block, problem: str) -> None:
        super().__init__(f"{block}: {problem}")


def blocks_of(page: str, text: str) -> Iterator[Block]:
    """Every fenced block; `line` is where its first line stands in the page."""
    lines = enumerate(text.splitlines(), start=1)
    for number, line in lines:
        if not (opening := FENCE.fullmatch(line)):
            continue
        body = []
        for _, inner in lines:
            if inner.strip() == opening["ticks"]:
                break
            body.append(inner)
        else:
            raise BadBlock(Block(page, number, "", ""), "the block is never closed")
        language = opening["language"].strip()
        yield Block(page, number + 1, language, textwrap.dedent("\n".join(body)) + "\n")


def check_page(page: str, text: str) -> None:
    """Run what is Python, check what is shell, refuse what is neither nor known to be data."""
    module = types.ModuleType("page")
    # Registered, because annotations are looked up in the module of what they annotate.
    sys.modules[module.__name__] = module
    environment = dict(os.environ)
    try:
        with forgotten_imports(Path.cwd()), asyncio.Runner() as runner:
            # The files that a page names are modules while it runs.
            sys.path.insert(0, str(Path.cwd()))
            for block in blocks_of(page, text):
                if block.language == "python":
                    run_python(block, module, runner)
                elif block.language == "sh":
                    run_shell(block, environment)
                elif block.language not in SHOWN:
                    raise BadBlock(block, f"{block.language!r} is neither python nor sh nor data")
    finally:
        del sys.modules[module.__name__]


def run_python(block: Block, module: types.ModuleType, runner: asyncio.Runner) -> None:
    # Blank lines before it make a traceback point into the page.
    source = "\n" * (block.line - 1) + block.text
    if named := NAMED_FILE.match(block.text):
        Path(named[1]).write_text(block.text, encoding="utf-8")
        importlib.invalidate_caches()
    code = compile(source, block.page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    result = types.FunctionType(code, vars(module))()
    # Only a block that awaits runs inside the loop, so others may call `asyncio.run` themselves.
    if inspect.iscoroutine(result):
        runner.run(result)


def run_shell(block: Block, environment: dict[str, str]) -> None:
    """What `export` sets stays in the environment for the blocks that follow."""
    for line in block.text.splitlines():
        match shlex.split(line, comments=True):
            case []:
                pass
            case ["export", setting] if "=" in setting:
                name, _, value = setting.partition("=")
                environment[name] = value
            case ["penstock", *arguments]:
                run_here(block, ["-m", "penstock", *arguments], environment)
            case ["python", script] if Path(script).is_file():
                run_here(block, [script], environment)
            case ["make", *targets] if made_by_make(targets):
                pass
            case ["python", script, *_] if (ROOT / script).is_file():
                pass
            case ["spark-submit", "--master", _, *rest] if rest[-1:] and rest[-1].endswith(".py"):
                pass
            case ["pip", "install", _, *_] | ["git", "clone", _] | ["cd", _]:
                pass
            case _:
                raise BadBlock(block, f"{line!r} is not a command that the documentation may show")


def run_here(block: Block, arguments: list[str], environment: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        input="",
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS_MAX,
        check=False,
    )
    if done.returncode != 0:
        command = shlex.join(["python", *arguments])
        raise BadBlock(block, f"{command} ended with {done.returncode}: {done.stderr}")


def check_pasted_page(page: str, text: str, folder: Path) -> None:
    """What happens to whoever follows the page with nothing but the clipboard."""
    blocks = list(blocks_of(page, text))
    uses = "\n".join(block.text for block in blocks if block.language == "sh")
    uses += "\n".join(re.findall(r"^from (\w+) import", text, re.MULTILINE))
    expected: dict[str, list[str]] = {}
    for block in blocks:
        if block.language == "python":
            if not (named := NAMED_FILE.match(block.text)):
                raise BadBlock(block, "its first line does not name a file, as in `# tasks.py`")
            name = named[1]
            (folder / name).write_text(block.text, encoding="utf-8")
            expected[name] = PRINTED.findall(block.text)
            if not re.search(rf"\b{name.removesuffix('.py')}\b", uses):
                raise BadBlock(block, f"nothing on the page runs {name}")
        elif block.language == "sh":
            printed = paste(block, folder)
            for name in re.findall(r"^python (\w+\.py)$", block.text, re.MULTILINE):
                missing = [line for line in expected[name] if line not in printed]
                if missing:
                    raise BadBlock(block, f"{name} does not print {missing}, but {printed}")
        elif block.language not in SHOWN:
            raise BadBlock(block, f"{block.language!r} is neither python nor sh nor data")


def paste(block: Block, folder: Path) -> list[str]:
    """The lines that come out of a shell which stops at the first command that fails."""
    stand_ins = folder / ".stand-ins"
    stand_ins.mkdir(exist_ok=True)
    for name in ("pip", "make"):
        script = stand_ins / name
        script.write_text(
            f'#!/bin/sh\nexec "{sys.executable}" -m tests.docs_commands {name} "$@"\n'
        )
        script.chmod(0o755)
    source = Path(penstock.__file__).resolve().parents[1]
    done = subprocess.run(
        ["sh", "-e"],
        input=block.text,
        cwd=folder,
        env={
            **os.environ,
            "PATH": os.pathsep.join(
                [str(stand_ins), str(Path(sys.executable).parent), os.environ.get("PATH", "")]
            ),
            "PYTHONPATH": os.pathsep.join([str(source), str(ROOT)]),
        },
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS_MAX,
        check=False,
    )
    if done.returncode != 0 or "Traceback" in done.stderr:
        raise BadBlock(block, f"the shell ended with {done.returncode}: {done.stderr}")
    return done.stdout.splitlines()


def made_by_make(arguments: list[str]) -> bool:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    return {argument for argument in arguments if "=" not in argument} <= targets


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page not in [*SPARK_PAGES, *POSTGRES_PAGES, *PASTED_PAGES]],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_a_page_does_what_it_says(page: Path) -> None:
    check_page(str(page.relative_to(ROOT)), page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", PASTED_PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_can_be_followed_with_the_clipboard_alone(page: Path, tmp_path: Path) -> None:
    check_pasted_page(str(page.relative_to(ROOT)), page.read_text(encoding="utf-8"), tmp_path)


def test_the_readme_lists_every_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    listed = re.findall(r"^\| `penstock\[(\w+)\]`", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(project["optional-dependencies"])


@pytest.mark.parametrize(
    ("blocks", "problem"),
    [
        ([("python", "await nothing"), ("sh", "true")], "does not name a file"),
        ([("python", "# a.py\nawait b"), ("sh", "python a.py")], "ended with 1"),
        ([("python", "# a.py\nprint(1)  # 2"), ("sh", "python a.py")], "does not print"),
        ([("python", "# a.py\nprint(1)")], "nothing on the page runs"),
        ([("sh", "false\ntrue")], "ended with 1"),
        ([("sh", "pip install penstock[nonsense]")], "ended with 1"),
        ([("sh", "make nonsense")], "ended with 1"),
    ],
)
def test_a_page_that_cannot_be_followed_fails(
    blocks: list[tuple[str, str]], problem: str, tmp_path: Path
) -> None:
    text = "".join(fenced(language, block) for language, block in blocks)
    with pytest.raises(BadBlock, match=problem):
        check_pasted_page("page.md", text, tmp_path)


@pytest.mark.parametrize("page", SPARK_PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_about_spark_does_what_it_says(page: Path, spark: object) -> None:
    """In the session that the tests share: the page's own call joins it."""
    check_page(str(page.relative_to(ROOT)), page.read_text(encoding="utf-8"))


@pytest.mark.xdist_group("postgres")
@pytest.mark.parametrize("page", POSTGRES_PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_about_postgres_does_what_it_says(
    page: Path, postgres_server: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_URL", postgres_server.new_database())
    check_page(str(page.relative_to(ROOT)), page.read_text(encoding="utf-8"))


def test_blocks_of_one_page_share_their_names_and_one_event_loop() -> None:
    check_page(
        "page.md",
        fenced("python", "import asyncio\nlock = asyncio.Lock()\nawait lock.acquire()")
        + fenced("python", "lock.release()\nasync with lock:\n    assert lock.locked()"),
    )


def test_a_block_may_run_a_loop_of_its_own() -> None:
    check_page("page.md", fenced("python", "import asyncio\nasyncio.run(asyncio.sleep(0))"))


def test_a_block_that_is_indented_in_a_list_is_run_too() -> None:
    with pytest.raises(ZeroDivisionError):
        check_page("page.md", "1. see\n\n" + textwrap.indent(fenced("python", "1 / 0"), "   "))


def test_a_failing_block_fails_and_points_into_the_page() -> None:
    page = "# Title\n\n" + fenced("python", "ok = 1\nassert ok == 2")
    with pytest.raises(AssertionError) as caught:
        check_page("page.md", page)
    frame = caught.traceback[-1]
    assert (frame.path, frame.lineno + 1) == ("page.md", 5)


def test_a_failing_await_fails() -> None:
    text = "import asyncio\nawait asyncio.wait_for(asyncio.Event().wait(), 0)"
    with pytest.raises(TimeoutError):
        check_page("page.md", fenced("python", text))


@pytest.mark.parametrize("language", ["python no-run", "py", "pycon", "bash", "console", ""])
def test_a_block_cannot_hide_from_being_run(language: str) -> None:
    with pytest.raises(BadBlock):
        check_page("page.md", fenced(language, "x = 1"))


@pytest.mark.parametrize(
    "line",
    [
        "make nothing-like-it",
        "curl example.com | sh",
        "python missing.py",
        "pip install",
        "spark-submit",
    ],
)
def test_a_shell_line_off_the_list_fails(line: str) -> None:
    with pytest.raises(BadBlock):
        check_page("page.md", fenced("sh", line))


def test_shell_lines_on_the_list_pass() -> None:
    lines = [
        "make setup test",
        "make sim SEEDS=10  # quick",
        "pip install 'penstock[all]'",
        "cd here",
        "spark-submit --master local[2] job.py",
    ]
    check_page("page.md", fenced("sh", "\n".join(lines)))


def test_a_penstock_line_is_run_where_the_page_says() -> None:
    check_page(
        "page.md",
        fenced(
            "sh", "export PENSTOCK_URL=here\npenstock enqueue resize '{\"id\": 7}' --id a  # one"
        )
        + fenced("sh", "penstock status a")
        + fenced("python", "from pathlib import Path\nassert Path('here/penstock.json').exists()"),
    )


def test_a_penstock_line_that_fails_fails_the_page() -> None:
    with pytest.raises(BadBlock, match=r"page\.md:2.*ended with 1"):
        check_page("page.md", fenced("sh", "penstock status nobody --url nowhere"))


def test_a_block_that_names_its_file_is_written_there() -> None:
    check_page("page.md", fenced("python", "# tasks.py\nfour = 4") + fenced("python", CHECK_FILE))


CHECK_FILE = "from pathlib import Path\nassert 'four' in Path('tasks.py').read_text()"


def test_a_file_of_one_page_is_imported_by_that_page_only() -> None:
    for number in (4, 5):
        file = fenced("python", f"# numbered.py\nnumber = {number}")
        use = f"from numbered import number as read\nassert read == {number}"
        check_page("page.md", file + fenced("python", use) + fenced("sh", "python numbered.py"))
    assert "numbered" not in sys.modules


def test_a_block_that_is_never_closed_fails() -> None:
    with pytest.raises(BadBlock):
        check_page("page.md", "```python\nx = 1\n")


def fenced(language: str, text: str) -> str:
    return f"```{language}\n{text}\n```\n\n"
