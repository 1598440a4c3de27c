"""`penstock pipeline report`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from penstock.cli.options import Json
from penstock.cli.output import err, print_json
from penstock.cli.output_file import open_output
from penstock.cli.pipeline.options import DEFAULT_MASTER, Master
from penstock.cli.reading import moment


def command(
    warehouse: Annotated[
        str, typer.Argument(metavar="WAREHOUSE", help="Where the tables are: a folder or a bucket.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The page to write.")
    ] = Path("report.html"),
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="Only from then on: 2026-11-15T10:00 (UTC)."),
    ] = None,
    master: Master = DEFAULT_MASTER,
    json: Json = False,
) -> None:
    """Writes one HTML file that needs nothing else, and says the most important on the terminal.
    With --json, the figures are printed and no page is written.
    """
    start = None if since is None else datetime.fromtimestamp(moment(since), UTC)

    from penstock.cli.pipeline.report_summary import show
    from penstock.pipeline.report.figures import Figures
    from penstock.pipeline.report.page import page
    from penstock.pipeline.report.reading import read_figures
    from penstock.pipeline.session import session

    def figures_there() -> Figures:
        spark = session(master)
        try:
            return read_figures(spark, warehouse, start)
        finally:
            spark.stop()

    if json:
        print_json(msgspec.to_builtins(figures_there()))
        return
    # Opened first, since what can't be written is better known before Spark has read for minutes.
    with open_output(output) as file:
        figures = figures_there()
        file.write(page(figures, warehouse))
    show(figures)
    err().print(f"the report is in {output}")
