"""The end of the tour: its queue as tables, and the report of them."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from penstock.cli.output import err, out
from penstock.cli.output_file import open_output
from penstock.cli.pipeline.report_summary import show
from penstock.pipeline.report.page import page
from penstock.pipeline.report.reading import read_figures
from penstock.pipeline.run import Plan, opened_pipeline
from penstock.pipeline.session import session


def tour_report(url: str, warehouse: Path, output: Path | None, *, quiet: bool) -> None:
    err().print("Spark reads the queue into tables")
    spark = session()
    try:
        with opened_pipeline(spark, Plan(url, str(warehouse))) as pipeline:
            pipeline.run_once()
        figures = read_figures(spark, str(warehouse))
    finally:
        spark.stop()
    kept = output or _new_file()
    with open_output(kept, "--report") as file:
        file.write(page(figures, "penstock demo"))
    if not quiet:
        out().print()
        show(figures)
    err().print(f"the report is in {kept}", soft_wrap=True)


def _new_file() -> Path:
    """Outlives the demo, since somebody has to look at it."""
    descriptor, name = tempfile.mkstemp(prefix="penstock-report-", suffix=".html")
    os.close(descriptor)
    return Path(name)
