"""`penstock replay`."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.acting import act, confirm, failed_ids, is_no_error
from penstock.cli.opening import opened, run
from penstock.cli.options import IdsOrNone, Json, OnlyQueue, OnlyType, Tenant, Url, Yes
from penstock.cli.output import print_json, say
from penstock.cli.reading import ids_of
from penstock.errors import InvalidInput, PenstockError
from penstock.insights.wording import counted
from penstock.kernel.job import State


def command(
    ids: IdsOrNone = None,
    type: OnlyType = None,
    queue: OnlyQueue = None,
    all_failed: Annotated[bool, typer.Option("--all-failed", help="Every failed job.")] = False,
    yes: Yes = False,
    url: Url = None,
    tenant: Tenant = None,
    json: Json = False,
) -> None:
    """By ids, or all failed jobs of a type or queue. They are due at once, failures forgotten.
    Jobs that wait or run are left as they are, which is no error.
    """
    by_filter = all_failed or type is not None or queue is not None
    if by_filter == bool(ids):
        raise InvalidInput("name ids, or choose failed jobs with --type, --queue or --all-failed")
    if ids:
        run(_replay(ids_of(ids), url, tenant, json))
    else:
        run(_replay_failed(queue, type, yes, url, tenant, json))


async def _replay(ids: list[str], url: str | None, tenant: str | None, json: bool) -> None:
    async with opened(url, tenant) as queue:

        async def send(batch: list[str]) -> list[State | PenstockError | None]:
            """None of one that was replayed; the state of one that was live before."""
            before = await queue.get(batch)
            live = {job.id for job in before if job is not None and not job.is_terminal}
            outcomes = await queue.replay(batch)
            return [
                None if outcome is State.PENDING and id not in live else outcome
                for id, outcome in zip(batch, outcomes, strict=True)
            ]

        await act(
            ids, "replaying", send, is_fine=is_no_error, words=_word, sentence=_sentence, json=json
        )


def _word(outcome: State | PenstockError | None) -> str:
    if isinstance(outcome, State):
        return outcome.value
    return "replayed" if outcome is None else str(outcome)


def _sentence(id: str, outcome: State | PenstockError | None) -> str:
    if isinstance(outcome, State):
        return f"is {outcome.value} already; nothing was replayed"
    return _word(outcome)


async def _replay_failed(
    name: str | None, type: str | None, yes: bool, url: str | None, tenant: str | None, json: bool
) -> None:
    async with opened(url, tenant) as queue:
        ids = await failed_ids(queue, name, type)
    if not ids:
        print_json({"replayed": 0}) if json else say("no failed jobs to replay")
        return
    confirm(f"replay {counted(len(ids), 'failed job')}?", yes)
    await _replay(ids, url, tenant, json)
