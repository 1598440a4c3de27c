"""Rivals, in an environment of their own: `.venv-rivals`, made when it is first needed.

jqueue says that it needs Python 3.12, and newer Pythons suit the others too. The oldest such Python
that this machine has is taken, since it is the nearest to the one that penstock runs on. Where
there is none, they are installed for this Python all the same: jqueue's code has nothing that 3.11
lacks, only its metadata says so.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf, isinf
from pathlib import Path
from typing import Final

from bench.load import Timing

ROOT: Final = Path(__file__).resolve().parent.parent
ENVIRONMENT: Final = ROOT / ".venv-rivals"
LOCK: Final = ROOT / "requirements" / "rivals.txt"
PLATFORMATIC: Final = ROOT / "bench" / "contestants" / "platformatic"
STAMP: Final = ENVIRONMENT / ".installed"

MINOR_VERSIONS: Final = range(12, 20)
"""Of the Pythons 3.n that are looked for."""
INSTALL_SECONDS_MAX: Final = 300
_INTERPRETER: Final = ENVIRONMENT / "bin" / "python"


class NoRival(Exception):
    """It can't be had here; says why."""


@dataclass(frozen=True, slots=True)
class Rival:
    name: str
    python: Path
    python_version: str

    def run(self, jobs: int, folder: str | None, seconds_max: float) -> Timing:
        """One run of the load in the rival's own process; a bound if it takes too long."""
        command = [str(self.python), "-m", "bench.contestants.jqueue", "--jobs", str(jobs)]
        command += ["--seconds-max", str(seconds_max)]
        command += ["--folder", folder] if folder else []
        return Timing(**json.loads(ran(command)))


def ran(
    command: list[str], environment: Mapping[str, str] | None = None, seconds_max: float = inf
) -> str:
    """What a contestant has printed."""
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
            capture_output=True,
            text=True,
            check=False,
            timeout=None if isinf(seconds_max) else seconds_max,
        )
    except subprocess.TimeoutExpired:
        raise NoRival(f"it took longer than {seconds_max:g} s") from None
    if done.returncode or not done.stdout.strip():
        raise NoRival(f"it failed: {_last_line(done.stderr)}")
    return done.stdout


def jqueue() -> Rival:
    """jqueue 1.0, installed if it is not yet."""
    python = installed()
    version = _output([str(python), "-c", "import jqueue, sys; print(sys.version.split()[0])"])
    return Rival("jqueue 1.0", python, version)


def installed() -> Path:
    """The Python of the rivals' environment, which is made if it is not there or out of date."""
    wanted = hashlib.sha256(LOCK.read_bytes()).hexdigest()
    if not STAMP.exists() or STAMP.read_text() != wanted:
        _install()
        STAMP.write_text(wanted)
    return _INTERPRETER


def platformatic() -> list[str]:
    """The command of @platformatic/job-queue's contestant, installed from npm if it is not yet."""
    scripts = Path(sys.executable).parent
    if not (PLATFORMATIC / "node_modules").exists():
        _output([str(scripts / "npm"), "ci", "--prefix", str(PLATFORMATIC)])
    return [str(scripts / "node"), str(PLATFORMATIC / "contest.js")]


def _install() -> None:
    problem = ""
    for python, ignoring in _interpreters():
        try:
            _output([python, "-m", "venv", "--clear", str(ENVIRONMENT)])
            (ENVIRONMENT / ".gitignore").write_text("*\n")
            install = [str(_INTERPRETER), "-m", "pip", "install", "--require-hashes"]
            _output([*install, *ignoring, "-r", str(LOCK)])
        except NoRival as error:
            problem = str(error)
        else:
            return
    raise NoRival(f"it could not be installed: {problem}")


def _interpreters() -> Iterator[tuple[str, list[str]]]:
    """Pythons to try, with the options that pip needs there."""
    for minor in MINOR_VERSIONS:
        for python in (f"python3.{minor}", *_of_pyenv(minor)):
            if shutil.which(python) and _is_usable(python):
                yield python, []
    yield sys.executable, ["--ignore-requires-python"]


def _of_pyenv(minor: int) -> list[str]:
    """pyenv puts only the chosen versions on the path; the others are in its own folder."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    return [str(path) for path in sorted(root.glob(f"versions/3.{minor}.*/bin/python"))]


def _is_usable(python: str) -> bool:
    try:
        _output([python, "-c", "import venv, ensurepip"])
    except NoRival:
        return False
    return True


def _output(command: list[str]) -> str:
    try:
        ran = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=True,
            timeout=INSTALL_SECONDS_MAX,
        )
    except subprocess.CalledProcessError as error:
        raise NoRival(_last_line(error.stderr)) from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoRival(str(error)) from None
    return ran.stdout.strip()


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it said nothing"])[-1]
