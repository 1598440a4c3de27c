"""`penstock pipeline report` writes its page as every command writes a file."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from penstock.cli.root import app
from penstock.pipeline.report.buckets import Bucket
from penstock.pipeline.report.figures import figures
from tests.pipeline.report_sample import sample


@pytest.fixture(autouse=True)
def read(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Gathers what was read; the figures are there without Spark."""
    asked: list[Any] = []

    def read_figures(spark: Any, *given: Any) -> Any:
        asked.append(given)
        return figures(sample(Bucket.HOUR, 3), Bucket.HOUR)

    spark = SimpleNamespace(stop=lambda: None)
    monkeypatch.setattr("penstock.pipeline.session.session", lambda *_: spark)
    monkeypatch.setattr("penstock.pipeline.report.reading.read_figures", read_figures)
    return asked


def test_a_report_replaces_the_file_that_a_symlink_points_to(tmp_path: Path) -> None:
    real, link = tmp_path / "real.html", tmp_path / "link.html"
    real.write_text("yesterday's")
    link.symlink_to(real)
    ran = CliRunner().invoke(app, ["pipeline", "report", "warehouse", "-o", str(link)])
    assert (ran.exit_code, link.readlink()) == (0, real)
    assert "</html>" in real.read_text("utf-8")
    assert sorted(tmp_path.iterdir()) == [link, real]


def test_a_report_that_cannot_be_written_is_refused_before_anything_is_read(
    tmp_path: Path, read: list[Any]
) -> None:
    ran = CliRunner().invoke(app, ["pipeline", "report", "warehouse", "-o", str(tmp_path)])
    assert ran.exit_code == 2
    assert "it is a folder; name a file in it" in ran.stderr
    assert read == []
