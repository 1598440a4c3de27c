"""The smallest whole: a task, some jobs, a worker. On a folder, without any server.

python examples/plain_script.py [folder or URL]
"""

import asyncio
import sys

import penstock

app = penstock.App(sys.argv[1] if len(sys.argv) > 1 else "memory://")


@app.task(max_attempts=5, timeout_seconds=60)
async def greet(name: str) -> str:
    return f"Hello, {name}!"


async def main() -> None:
    async with app:
        receipts = [await greet.enqueue(name) for name in ("Ada", "Grace", "Barbara")]

        # In production this is `penstock worker plain_script:app`. A burst ends when all is done.
        await penstock.Worker(app, penstock.WorkerOptions(burst=True)).run()

        queue = await app.queue()
        for receipt in receipts:
            job = await queue.get(receipt.id)
            assert job is not None
            print(job.state, job.result)


if __name__ == "__main__":
    asyncio.run(main())
