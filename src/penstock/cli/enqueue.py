"""`penstock enqueue`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import msgspec
import typer
from msgspec.structs import asdict, replace

from penstock.cli.opening import opened, run
from penstock.cli.options import Json, Tenant, Url, refuse_unused
from penstock.cli.output import complain, print_json, say
from penstock.cli.progress import progress
from penstock.cli.reading import JobLines, json_value, moment, new_job, payload_value
from penstock.client.newjob import NewJob
from penstock.client.operations import id_of
from penstock.errors import InvalidInput, PenstockError
from penstock.insights.records import told
from penstock.kernel.commands import Receipt
from penstock.kernel.job import (
    DEFAULT_PRIORITY,
    DEFAULT_QUEUE,
)
from penstock.kernel.retry import RetryPolicy

JOBS_PER_COMMIT: Final = 1_000
COMPLAINTS_MAX: Final = 10
File: TypeAlias = Annotated[
    Path | None,
    typer.Option("--file", "-f", metavar="FILE", help="JSON lines, one job each; - is stdin."),
]
Operation: TypeAlias = Annotated[
    str | None, typer.Option(metavar="NAME", help="Of this call: said twice, it is done once.")
]


def command(
    context: typer.Context,
    type: Annotated[str | None, typer.Argument(metavar="TYPE", help="The job's type.")] = None,
    payload: Annotated[
        str | None, typer.Argument(metavar="JSON", help="The payload; - or none reads stdin.")
    ] = None,
    file: File = None,
    queue: Annotated[str, typer.Option("--queue", "-q", help="Where it waits.")] = DEFAULT_QUEUE,
    id: Annotated[str | None, typer.Option(help="Your own id: enqueued twice, it is once.")] = None,
    operation: Operation = None,
    key: Annotated[str | None, typer.Option(help="At most one live job has it.")] = None,
    unique_seconds: Annotated[float, typer.Option(help="Hold the key at least so long.")] = 0.0,
    priority: Annotated[int, typer.Option("--priority", "-p", help="Lower first.")] = (
        DEFAULT_PRIORITY
    ),
    delay_seconds: Annotated[
        float, typer.Option("--delay-seconds", "-d", help="Due after so long.")
    ] = 0.0,
    run_at: Annotated[
        str | None, typer.Option(metavar="TIME", help="ISO 8601 (UTC) or epoch seconds.")
    ] = None,
    max_attempts: Annotated[
        int | None, typer.Option(help="Without, as the queue's settings say; so the next two.")
    ] = None,
    retry: Annotated[
        str | None, typer.Option(metavar="JSON", help='Such as {"initial_seconds": 5}.')
    ] = None,
    timeout_seconds: Annotated[float | None, typer.Option(help="Of one attempt.")] = None,
    meta: Annotated[str | None, typer.Option(metavar="JSON", help="An object of yours.")] = None,
    trace: Annotated[str | None, typer.Option(help="A traceparent to carry along.")] = None,
    codec: Annotated[str | None, typer.Option(help="json or msgpack.")] = None,
    wait: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Wait for the end, show the result.")
    ] = None,
    url: Url = None,
    tenant: Tenant = None,
    json: Json = False,
) -> None:
    """Prints the job's id. With --file, each line is an object with the parameters of a job
    ({"type": "resize", "payload": {"id": 7}}) or, if TYPE is given, a payload of that type.
    --operation is for calls whose outcome is not known: the same one again adds nothing twice,
    whatever became of the jobs; with --file, of the same file.
    """
    _refuse_unused(context, file, type, key)
    options: dict[str, Any] = {
        "queue": queue, "id": id, "key": key, "unique_seconds": unique_seconds,
        "priority": priority, "delay_seconds": delay_seconds, "max_attempts": max_attempts,
        "timeout_seconds": timeout_seconds, "trace": trace, "codec": codec,
        "run_at": None if run_at is None else moment(run_at),
        "retry": None if retry is None else _retry_policy(retry),
        "meta": None if meta is None else _object(meta),
    }  # fmt: skip
    if file is not None:
        run(_enqueue_file(_lines(file, type, options), operation, url, tenant, json))
    elif type is None:
        raise InvalidInput("name the job's TYPE, or pass --file with JSON lines")
    else:
        new = NewJob(type, payload_value(payload), **options, operation=operation)
        run(_enqueue(new, wait, url, tenant, json))


def _refuse_unused(
    context: typer.Context, file: Path | None, type: str | None, key: str | None
) -> None:
    if file is not None:
        refuse_unused(context, "with --file", "payload", "wait")
        refuse_unused(context, "with --file: it is of one job and stands in its line", "id", "key")
    if file is not None and type is None:
        why = "with --file and no TYPE: the lines say everything"
        refuse_unused(context, why, *NewJob.__struct_fields__[2:-1])
    elif key is None:
        refuse_unused(context, "without --key", "unique_seconds")


async def _enqueue(
    new: NewJob, wait: float | None, url: str | None, tenant: str | None, json: bool
) -> None:
    if wait is not None:
        await _call(new, wait, url, tenant, json)
        return
    async with opened(url, tenant, make=True) as queue:
        receipt = await queue.enqueue(**asdict(new))
    if json:
        print_json(_record(receipt))
    elif receipt.status == "queued":
        say(receipt.id)
    else:
        was = "has been and left" if receipt.state is None else f"is {receipt.state.value}"
        say(f"{receipt.id} {was} already; nothing was enqueued")


async def _call(
    new: NewJob, seconds: float, url: str | None, tenant: str | None, json: bool
) -> None:
    # As `queue.call` does, where `timeout_seconds` is how long to wait; here it is an attempt's.
    async with opened(url, tenant, make=True) as queue:
        id = new.id
        if id is None:
            id = queue.new_id() if new.operation is None else id_of(new.operation)
            new = replace(new, id=id, operation=id)
        result = await queue.answer(id, lambda: queue.enqueue(**asdict(new)), seconds)
    print_json({"result": result} if json else result)


async def _enqueue_file(
    lines: JobLines, operation: str | None, url: str | None, tenant: str | None, json: bool
) -> None:
    counts = {"queued": 0, "duplicate": 0, "completed": 0, "failed": 0}
    async with opened(url, tenant, make=True) as queue:
        with progress("enqueuing", lines.count) as done:
            for number, batch in enumerate(lines.batches(JOBS_PER_COMMIT)):
                # Each is a call of its own, and of the same file the same.
                name = None if operation is None else f"{operation}/{number}"
                for outcome in await queue.enqueue_many(batch, operation=name):
                    _count(outcome, counts)
                    if json:
                        print_json(_record(outcome))
                done(len(batch))
    if not json:
        more = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
        say(more or "nothing to enqueue")
    if counts["failed"]:
        raise typer.Exit(1)


def _count(outcome: Receipt | PenstockError, counts: dict[str, int]) -> None:
    if isinstance(outcome, Receipt):
        counts[outcome.status] += 1
        return
    counts["failed"] += 1
    if counts["failed"] <= COMPLAINTS_MAX:
        complain(str(outcome))


def _lines(file: Path, type: str | None, options: dict[str, Any]) -> JobLines:
    if type is None:
        return JobLines(file, new_job)
    return JobLines(file, lambda value: NewJob(type, value, **options))


def _record(outcome: Receipt | PenstockError) -> dict[str, Any]:
    if isinstance(outcome, PenstockError):
        return {"error": str(outcome)}
    return {
        "id": outcome.id,
        "status": outcome.status,
        "state": outcome.state,
        "result": told(outcome.result),
    }


def _retry_policy(words: str) -> RetryPolicy:
    value = json_value(words, "--retry")
    known = RetryPolicy.__struct_fields__
    if not isinstance(value, dict) or set(value) - set(known):
        raise InvalidInput(f"--retry takes an object of {', '.join(known)}")
    try:
        return msgspec.convert(value, RetryPolicy)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"--retry: {error}") from None


def _object(words: str) -> dict[str, Any]:
    value = json_value(words, "--meta")
    if not isinstance(value, dict):
        raise InvalidInput('--meta takes an object, such as {"team": "mail"}')
    return value
