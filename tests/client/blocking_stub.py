"""What a type checker sees of the blocking queue, written from the queue itself.

`python -m tests.client.blocking_stub` writes it anew; a test says when that is due. The methods
of `BlockingQueue` are made when they are called, so that there is no second implementation; this
is their shape: `async` goes, iterators and contexts become those of plain code.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from penstock.client import handle, importing, leasing, queue

STUB = Path(queue.__file__).with_name("blocking_methods.pyi")
SOURCES = (
    (handle, "Handle"), (queue, "Queue"), (leasing, "Leasing"), (importing, "Importing"),
)  # fmt: skip
ITS_OWN = {"start", "close"}
HEADING = '''"""What a type checker sees of the blocking queue: written from `Queue`, do not edit.

`python -m tests.client.blocking_stub` writes it anew.
"""
'''

Function = ast.FunctionDef | ast.AsyncFunctionDef


def stub() -> str:
    methods = [method for module, name in SOURCES for method in methods_of(module, name)]
    body: list[ast.stmt] = [ast.parse("tenant: str").body[0], *methods]
    made = ast.ClassDef("BlockingMethods", [], [], body, [])
    ast.fix_missing_locations(made)
    text = f"{HEADING}\n{imports_of(made)}\n\n{ast.unparse(made)}\n"
    return tidied(tidied(text, "check", "--select", "I", "--fix", "--quiet"), "format")


def tidied(text: str, *how: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "ruff", *how, "--stdin-filename", str(STUB), "-"],
        input=text, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    return done.stdout


def methods_of(module: ModuleType, name: str) -> Iterator[ast.stmt]:
    tree = ast.parse(inspect.getsource(module))
    [found] = [one for one in tree.body if isinstance(one, ast.ClassDef) and one.name == name]
    functions = [one for one in found.body if isinstance(one, Function)]
    overloaded = {one.name for one in functions if is_overload(one)}
    documents = {one.name: ast.get_docstring(one) for one in functions if not is_overload(one)}
    for function in functions:
        wanted = not function.name.startswith("_") and function.name not in ITS_OWN
        if wanted and (is_overload(function) or function.name not in overloaded):
            # Of several, an editor shows the text of the first.
            yield plain(function, documents.pop(function.name, None))


def is_overload(function: Function) -> bool:
    marks = function.decorator_list
    return any(isinstance(one, ast.Name) and one.id == "overload" for one in marks)


def plain(function: Function, document: str | None) -> ast.stmt:
    returns = None if function.returns is None else ast.unparse(function.returns)
    if returns is not None:
        returns = re.sub(r"^AsyncIterator\[(.*)\]$", r"Generator[\1]", returns)
        returns = returns.replace("AbstractAsyncContextManager", "AbstractContextManager")
    end = "\n" if document and "\n" in document else ""
    written = f'"""{document}{end}"""' if document else "..."
    body = ast.parse(written).body
    kind = None if returns is None else ast.parse(returns, mode="eval").body
    return ast.FunctionDef(function.name, function.args, body, function.decorator_list, kind)


def imports_of(made: ast.ClassDef) -> str:
    """Of every name that the signatures use, from where the queue's own modules have it."""
    used = {part.id for part in ast.walk(made) if isinstance(part, ast.Name)} - set(dir(builtins))
    lines = {
        "Generator": "from collections.abc import Generator",
        "AbstractContextManager": "from contextlib import AbstractContextManager",
    }
    for module, _ in SOURCES:
        tree = ast.parse(inspect.getsource(module))
        for one in tree.body:
            if isinstance(one, ast.ImportFrom) and one.module != "__future__":
                for alias in one.names:
                    lines.setdefault(alias.name, f"from {one.module} import {alias.name}")
            elif isinstance(one, ast.Assign | ast.AnnAssign):
                for target in one.targets if isinstance(one, ast.Assign) else [one.target]:
                    if isinstance(target, ast.Name):
                        lines.setdefault(target.id, f"from {module.__name__} import {target.id}")
    return "\n".join(sorted(lines[name] for name in used if name in lines))


if __name__ == "__main__":
    STUB.write_text(stub(), encoding="utf-8")
