"""Where `--output` and its like are written: the one way in which commands write a file of yours.

A regular file is replaced when it is complete and not before, so what is written stands beside it
until then. Where the name is a symlink, that is the file it points to, and the link stays.
A pipe or a device can't be replaced without destroying it: what is written goes into it at once.
"""

from __future__ import annotations

import io
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

import typer

from penstock.errors import InvalidInput, PenstockError
from penstock.runtime.identity import random_id

STDOUT: Final = "-"


@contextmanager
def open_output(path: Path | None, option: str = "--output") -> Iterator[IO[str]]:
    """A text file to write to; without a path, or for `-`, stdout. `option` named the path."""
    if path is None or str(path) == STDOUT:
        yield sys.stdout
        return
    there = _status(path, option)
    if there is not None and stat.S_ISDIR(there.st_mode):
        raise InvalidInput(f"{option} {path}: it is a folder; name a file in it")
    if there is not None and (stream := _own_stream(there)) is not None:
        yield stream
        stream.flush()
    elif there is None or stat.S_ISREG(there.st_mode):
        with _replacing(path, there, option) as file:
            yield file
    else:
        try:
            with path.open("w", encoding="utf-8") as file:
                yield file
        except BrokenPipeError:
            raise PenstockError(f"{option} {path}: whoever read it has stopped reading") from None


def file_named(said: str) -> Path:
    """What a path option says, which names a file and no folder."""
    if said.endswith(os.sep):
        raise typer.BadParameter(f"{said!r} names a folder; name a file in it")
    return Path(said)


@contextmanager
def _replacing(path: Path, there: os.stat_result | None, option: str) -> Iterator[IO[str]]:
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise InvalidInput(f"{option} {path}: there is no folder {target.parent}; make it first")
    # A name that nobody else has: neither a file of yours nor what another command writes.
    partial = target.with_name(f".{random_id()}.partial")
    try:
        with _created(partial, f"{option} {path}") as file:
            if there is not None:
                # Who could not read the old one can't read the new one either.
                partial.chmod(stat.S_IMODE(there.st_mode))
            yield file
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def _created(partial: Path, said: str) -> IO[str]:
    try:
        return partial.open("x", encoding="utf-8")
    except OSError as error:
        # In the words of whoever asked, who knows nothing of the file beside theirs.
        raise PenstockError(f"{said}: its folder can't be written to: {error.strerror}") from None


def _status(path: Path, option: str) -> os.stat_result | None:
    """Of what the name leads to; None: of nothing that is there yet."""
    try:
        return path.stat()
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        raise InvalidInput(f"{option} {path}: {path.parent} is no folder") from None


def _own_stream(there: os.stat_result) -> IO[str] | None:
    """The stream of this process that goes to this file already, as `/dev/stdout` may.

    Whoever has opened the file for us goes on writing to it, and would write to one that is gone.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            if os.path.samestat(there, os.fstat(stream.fileno())):
                return stream
        except (io.UnsupportedOperation, AttributeError, ValueError):
            # Replaced by something that is no file, as tests do, or closed.
            continue
    return None
