"""`penstock cancel`."""

from __future__ import annotations

from penstock.cli.acting import act
from penstock.cli.opening import opened, run
from penstock.cli.options import Ids, Json, Tenant, Url
from penstock.cli.reading import ids_of
from penstock.errors import JobNotFound, WrongState


def command(ids: Ids, url: Url = None, tenant: Tenant = None, json: Json = False) -> None:
    """A running job's lease dies at once. Exit code 1 if one was not found or had ended."""
    run(_cancel(ids_of(ids), url, tenant, json))


async def _cancel(ids: list[str], url: str | None, tenant: str | None, json: bool) -> None:
    async with opened(url, tenant) as queue:
        await act(
            ids,
            "cancelling",
            queue.cancel,
            is_fine=lambda outcome: outcome == "cancelled",
            words=str,
            sentence=_sentence,
            json=json,
        )


def _sentence(id: str, outcome: str) -> str:
    match outcome:
        case "cancelled":
            return outcome
        case "not_found":
            return str(JobNotFound(id))
        case ended:
            return str(WrongState(id, ended, "cancel"))
