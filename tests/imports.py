"""Modules that tests write and import: many are called `tasks`, and none must be another's."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def forgotten_imports(folder: Path) -> Iterator[None]:
    """What is imported from below a folder meanwhile is forgotten, and so are ways to it."""
    path, known = list(sys.path), set(sys.modules)
    try:
        yield
    finally:
        sys.path[:] = path
        for name in set(sys.modules) - known:
            if Path(getattr(sys.modules[name], "__file__", None) or "/").is_relative_to(folder):
                del sys.modules[name]
