"""House rules that no linter knows.

Each rule is a function from text to problems, so that every rule can also be shown to bite.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
CODE = ("src", "tests", "bench", "examples")
MADE = {"node_modules", "__pycache__"}
PURE = ("src/penstock/kernel", "src/penstock/wire")

# Written so that this file does not trip over itself.
UNFINISHED = re.compile(r"\b(?:TO[D]O|FIX[M]E|XX[X])\b")
MACHINE_PATH = re.compile(r"(?<![\w.~])/(?:home|root|opt|work|Users)/[\w.]|[A-Z]:\\Users\\")
REGISTRY = re.compile(r"pypi\.[o]rg|python[h]osted|registry\.[n]pmjs|registry\.[y]arnpkg")
ADR = re.compile(r"(\d{4})-[a-z0-9-]+\.md")

Function = ast.FunctionDef | ast.AsyncFunctionDef
Rule = Callable[[str], Iterator[str]]


def project_files() -> list[Path]:
    """What is tracked or could be: everything that git does not ignore."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True)
    except (OSError, subprocess.CalledProcessError):  # an unpacked archive has no git
        tops = (*CODE, "docs", "requirements")
        paths = [path for top in tops for path in (ROOT / top).rglob("*")]
        return sorted(path for path in paths if path.is_file() and MADE.isdisjoint(path.parts))
    paths = [ROOT / name for name in set(listed.stdout.split("\0")) if name]
    return sorted(path for path in paths if path.is_file())


def files(*tops: str, suffix: str = "") -> list[Path]:
    folders = [ROOT / top for top in tops]
    return [
        path
        for path in project_files()
        if path.name.endswith(suffix) and any(path.is_relative_to(folder) for folder in folders)
    ]


def long_files(text: str) -> Iterator[str]:
    lines = len(text.splitlines())
    if lines > FILE_LINES_MAX:
        yield f"{lines} lines, over {FILE_LINES_MAX}: a noun is missing"


def long_functions(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, Function) and node.end_lineno is not None:
            lines = node.end_lineno - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                yield f"{node.lineno}: {node.name} has {lines} lines, over {FUNCTION_LINES_MAX}"


def swallowed_errors(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ExceptHandler) and _catches_all(node) and _does_nothing(node):
            yield f"{node.lineno}: an error of any kind is swallowed"


def foreign_imports(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [node.module or "."]
        for name in names:
            if name.split(".")[0] not in {"penstock", "msgspec", *sys.stdlib_module_names}:
                yield f"{name} is neither msgspec nor of the standard library"


def matches(pattern: re.Pattern[str]) -> Rule:
    def rule(text: str) -> Iterator[str]:
        for number, line in enumerate(text.splitlines(), start=1):
            if found := pattern.search(line):
                yield f"{number}: {found[0]}"

    return rule


def gaps_in_numbering(names: list[str]) -> Iterator[str]:
    for expected, name in enumerate(sorted(names), start=1):
        found = ADR.fullmatch(name)
        if found is None or int(found[1]) != expected:
            yield f"{name} should be called {expected:04}-its-title.md"
            return


def problems(rule: Rule, paths: list[Path]) -> list[str]:
    found = []
    for path in paths:
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # not text
        found += [f"{path.relative_to(ROOT)}: {problem}" for problem in rule(text)]
    return found


def test_no_source_file_is_too_long() -> None:
    assert not problems(long_files, files("src", suffix=".py"))


def test_no_function_is_too_long() -> None:
    assert not problems(long_functions, files(*CODE, suffix=".py"))


def test_no_error_of_any_kind_is_swallowed() -> None:
    assert not problems(swallowed_errors, files(*CODE, suffix=".py"))


def test_the_pure_packages_import_nothing_but_msgspec_and_the_standard_library() -> None:
    assert not problems(foreign_imports, files(*PURE, suffix=".py"))


def test_nothing_is_left_to_be_done() -> None:
    assert not problems(matches(UNFINISHED), project_files())


def test_no_file_names_a_path_of_one_machine() -> None:
    assert not problems(matches(MACHINE_PATH), project_files())


def test_no_file_names_a_package_registry() -> None:
    assert not problems(matches(REGISTRY), project_files())


def test_the_locks_say_what_to_install_and_not_from_where() -> None:
    from_where = re.compile(r"://|--(?:extra-)?index|--find-links|--trusted-host")
    resolved = re.compile(r'"resolved":')
    assert not problems(matches(from_where), files("requirements", suffix=".txt"))
    assert not problems(matches(resolved), files("tests", suffix="package-lock.json"))


def test_design_records_are_numbered_without_a_gap() -> None:
    names = [path.name for path in files("docs/adr", suffix=".md") if path.name != "README.md"]
    assert not list(gaps_in_numbering(names))


BITES: dict[str, tuple[Rule, str, str]] = {
    "file": (long_files, "\n" * (FILE_LINES_MAX + 1), "\n" * FILE_LINES_MAX),
    "function": (long_functions, "def f():\n" + " 0\n" * 60, "def f():\n" + " 0\n" * 59),
    "coroutine": (long_functions, "async def f():\n" + " 0\n" * 60, "async def f():\n 0"),
    "pass": (swallowed_errors, "try: 0\nexcept Exception: pass", "try: 0\nexcept KeyError: pass"),
    "dots": (swallowed_errors, "try: 0\nexcept (A, BaseException): ...", "try: 0\nexcept A: ..."),
    "bare": (swallowed_errors, "try: 0\nexcept: pass", "try: 0\nexcept: raise"),
    "import": (foreign_imports, "import obstore.store", "import json, msgspec.json"),
    "from": (foreign_imports, "from obstore import put", "from penstock.kernel import job"),
    "unfinished": (matches(UNFINISHED), "# TO" + "DO: later", "todos = []"),
    "path": (matches(MACHINE_PATH), "cd /ho" + "me/me", "file:///srv/queue and work/home/here"),
    "registry": (matches(REGISTRY), "https://pypi" + ".org/simple", "pip install penstock"),
}


@pytest.mark.parametrize(("rule", "bad", "good"), BITES.values(), ids=BITES)
def test_each_rule_bites_what_is_bad_and_spares_what_is_good(
    rule: Rule, bad: str, good: str
) -> None:
    assert list(rule(bad))
    assert not list(rule(good))


@pytest.mark.parametrize(
    "names", [["0001-a.md", "0003-c.md"], ["0001-a.md", "0001-b.md"], ["a.md"]]
)
def test_a_gap_in_the_numbering_is_seen(names: list[str]) -> None:
    assert list(gaps_in_numbering(names))


def _catches_all(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(isinstance(e, ast.Name) and e.id in {"Exception", "BaseException"} for e in caught)


def _does_nothing(handler: ast.ExceptHandler) -> bool:
    return all(
        isinstance(statement, ast.Pass)
        or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
        for statement in handler.body
    )
