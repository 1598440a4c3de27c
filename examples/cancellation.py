"""Cancelling work under way: an async handler is interrupted, one in a thread is told.

python examples/cancellation.py
"""

import asyncio
import time

import penstock

app = penstock.App("memory://")


@app.task
async def download(url: str) -> None:
    try:
        await asyncio.sleep(3_600)
    except asyncio.CancelledError:
        print("download: interrupted, cleaning up")
        raise


@app.task
def compress(context: penstock.JobContext, file: str) -> None:
    while not context.is_cancelled:  # a thread can't be interrupted, so it looks now and then
        time.sleep(0.01)
    print("compress: told to stop, cleaning up")


async def both_run(queue: penstock.Queue) -> None:
    claimed = 0
    async for event in queue.events("beginning"):
        claimed += event.event == "claimed"
        if claimed == 2:
            return


async def main() -> None:
    # In memory and in a folder a cancellation reaches the handler at once; in a bucket with the
    # next heartbeat, a third of a lease away at most.
    options = penstock.WorkerOptions(lease_seconds=0.6)
    async with app:
        queue = await app.queue()
        async with penstock.Worker(app, options):
            receipts = [
                await download.enqueue("https://example.com/large"),
                await compress.enqueue("large"),
            ]
            await both_run(queue)
            print("cancel:", await queue.cancel([receipt.id for receipt in receipts]))
        jobs = [await queue.get(receipt.id) for receipt in receipts]
        print("jobs:", [str(job.state) for job in jobs if job is not None])


if __name__ == "__main__":
    asyncio.run(main())
