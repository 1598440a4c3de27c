"""Running an app's workers inside the tasks of a Spark job, until they end or are stopped."""

from __future__ import annotations

import logging
import signal
from types import FrameType
from typing import Any

from msgspec.structs import asdict

from penstock.cli.output import add_row, clean, out, print_json, say, table
from penstock.insights.wording import counted
from penstock.worker.options import Counters


def work_on_spark(
    place: str,
    url: str | None,
    tenant: str | None,
    master: str,
    tasks: int | None,
    py_files: list[str],
    options: dict[str, Any],
    *,
    json: bool,
) -> None:
    from penstock.pipeline.execution.running import run
    from penstock.pipeline.failures import plainly
    from penstock.pipeline.session import session

    # It says when it closes its connections, which is of no interest here.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    spark = session(master)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with plainly("running workers"):
            report = run(
                place,
                url,
                spark=spark,
                tasks=tasks,
                tenant=tenant,
                py_files=py_files,
                **options,
            )
    except KeyboardInterrupt:
        print_json({"event": "stopped"}) if json else say("stopped: the workers have drained")
        return
    finally:
        spark.stop()
    names = Counters.__struct_fields__
    if json:
        for each in report.workers:
            print_json({"worker": each.worker, "host": each.host, **asdict(each.counters)})
        print_json({"event": "stopped", **asdict(report.total), "left": report.left})
        return
    rows = table("worker", "host", *names, right=names)
    for each in report.workers:
        add_row(rows, each.worker, each.host, *(getattr(each.counters, name) for name in names))
    out().print(rows)
    for type, count in report.left.items():
        say(f"left waiting: {counted(count, 'job')} of type {clean(type)}", "yellow")
    said = (f"{n:,} {name.replace('_', ' ')}" for name, n in asdict(report.total).items())
    say("stopped: " + ", ".join(said))


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
