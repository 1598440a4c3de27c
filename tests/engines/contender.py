"""One of several processes that use one folder at once: puts its jobs in, works until all is done.

python -m tests.engines.contender URL NAME JOBS JOBS_OF_ALL
"""

from __future__ import annotations

import asyncio
import json
import sys

import penstock


async def contend(url: str, name: str, count: int, all_jobs: int) -> dict[str, object]:
    async with penstock.open(url) as queue:
        receipts = [await queue.enqueue("work", id=f"{name}-{n}") for n in range(count)]
        done: list[str] = []
        while (await queue.stats()).totals.get("completed", 0) < all_jobs:
            for job in await queue.claim(3, worker=name, wait_seconds=0.2):
                await queue.ack(job, name)
                done.append(job.id)
    return {"queued": [r.id for r in receipts if r.status == "queued"], "done": done}


if __name__ == "__main__":
    url, name, count, all_jobs = sys.argv[1:]
    sys.stdout.write(json.dumps(asyncio.run(contend(url, name, int(count), int(all_jobs)))))
