"""`penstock resume`."""

from __future__ import annotations

from penstock.cli.opening import opened, run
from penstock.cli.options import Json, QueueName, Tenant, Url
from penstock.cli.output import print_json, say


def command(
    queue: QueueName = "default", url: Url = None, tenant: Tenant = None, json: Json = False
) -> None:
    run(_resume(queue, url, tenant))
    print_json({"queue": queue, "paused": False}) if json else say(f"{queue} is resumed")


async def _resume(name: str, url: str | None, tenant: str | None) -> None:
    async with opened(url, tenant) as queue:
        await queue.resume(name)
