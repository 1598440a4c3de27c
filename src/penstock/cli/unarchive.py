"""`penstock unarchive`."""

from __future__ import annotations

from penstock.cli.acting import act, error_or, is_no_error
from penstock.cli.opening import opened, run
from penstock.cli.options import Ids, Json, Tenant, Url
from penstock.cli.reading import ids_of


def command(ids: Ids, url: Url = None, tenant: Tenant = None, json: Json = False) -> None:
    run(_unarchive(ids_of(ids), url, tenant, json))


async def _unarchive(ids: list[str], url: str | None, tenant: str | None, json: bool) -> None:
    async with opened(url, tenant) as queue:
        await act(
            ids,
            "unarchiving",
            queue.unarchive,
            is_fine=is_no_error,
            words=error_or("unarchived"),
            json=json,
        )
