"""`penstock import`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from penstock.cli.opening import opened, run
from penstock.cli.options import Json, Tenant, Url
from penstock.cli.output import complain, print_json, say
from penstock.cli.progress import progress
from penstock.cli.reading import JobLines, Refusal, new_job
from penstock.client.newjob import NewJob
from penstock.errors import InvalidInput, PenstockError
from penstock.insights.records import unpacked_payload
from penstock.insights.wording import counted
from penstock.wire.codecs import Undecodable

JOBS_PER_COMMIT: Final = 1_000
COMPLAINTS_MAX: Final = 10
_ENDED: Final = ("failed", "cancelled")


def command(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="What `export` wrote; - is stdin.")
    ] = Path("-"),
    dead_letters: Annotated[
        bool, typer.Option("--dead-letters", help="Failed and cancelled jobs too.")
    ] = False,
    url: Url = None,
    tenant: Tenant = None,
    json: Json = False,
) -> None:
    """They begin anew, waiting, with the ids they had: what is there already is left alone, so an
    import that was interrupted can be run again. Jobs that had completed, and lines that are
    events, are skipped. A payload that could not be decoded comes with its raw bytes and is put
    back as it was; where these were gone, that line alone is refused, and the exit code says so.
    """

    def convert(record: Any) -> NewJob | Refusal | None:
        return _new_job(record, dead_letters)

    run(_import(JobLines(file, convert), url, tenant, json))


async def _import(lines: JobLines, url: str | None, tenant: str | None, json: bool) -> None:
    counts = {"imported": 0, "present": 0, "skipped": lines.skipped, "failed": 0}
    _refuse(lines.refused, counts)
    async with opened(url, tenant, make=True) as queue:
        with progress("importing", lines.count) as done:
            for batch in lines.batches(JOBS_PER_COMMIT):
                for outcome in await queue.enqueue_many(batch):
                    if isinstance(outcome, PenstockError):
                        _refuse([str(outcome)], counts)
                    else:
                        counts["imported" if outcome.status == "queued" else "present"] += 1
                done(len(batch))
    if json:
        print_json(counts)
    else:
        say(
            f"imported {counted(counts['imported'], 'job')}; "
            f"{counts['present']:,} {'was' if counts['present'] == 1 else 'were'} there already, "
            f"{counted(counts['skipped'], 'line')} skipped"
            + (f", {counts['failed']:,} refused" if counts["failed"] else "")
        )
    if counts["failed"]:
        raise typer.Exit(1)


def _refuse(reasons: list[str], counts: dict[str, int]) -> None:
    for reason in reasons:
        counts["failed"] += 1
        if counts["failed"] <= COMPLAINTS_MAX:
            complain(reason)


def _new_job(record: Any, dead_letters: bool) -> NewJob | Refusal | None:
    if isinstance(record, dict):
        state = record.get("state", "pending")
        if "event" in record or state == "completed" or (state in _ENDED and not dead_letters):
            return None
        if not record.get("id"):
            raise InvalidInput(
                "there is no id, by which a second import would know it; "
                "`penstock enqueue --file` takes such lines"
            )
        payload = unpacked_payload(record)
        if isinstance(payload, Undecodable) and payload.raw is None:
            return Refusal(
                f"the payload of {record['id']} was not there to be exported: {payload.reason}"
            )
        record = {**record, "payload": payload}
    return new_job(record, ignore_unknown=True)
