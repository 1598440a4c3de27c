"""`penstock pause`."""

from __future__ import annotations

from penstock.cli.opening import opened, run
from penstock.cli.options import Json, QueueName, Tenant, Url
from penstock.cli.output import print_json, say


def command(
    queue: QueueName = "default", url: Url = None, tenant: Tenant = None, json: Json = False
) -> None:
    """What runs goes on; what waits, waits until `penstock resume`."""
    run(_pause(queue, url, tenant))
    print_json({"queue": queue, "paused": True}) if json else say(f"{queue} is paused")


async def _pause(name: str, url: str | None, tenant: str | None) -> None:
    async with opened(url, tenant) as queue:
        await queue.pause(name)
