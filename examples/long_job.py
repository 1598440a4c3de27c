"""A job that outlives its lease: heartbeats keep it, and carry its progress to whoever looks.

python examples/long_job.py
"""

import asyncio

import penstock

STEPS = 4

app = penstock.App("memory://")


@app.task(timeout_seconds=3_600)
async def train(context: penstock.JobContext, model: str) -> str:
    for step in range(1, STEPS + 1):
        await asyncio.sleep(0.3)
        context.progress(step / STEPS)
        context.logger.info("step %d of %d", step, STEPS)
    await asyncio.sleep(0.3)
    return f"{model} is trained"


async def watch(id: str) -> None:
    queue = await app.queue()
    async for event in queue.events("beginning"):
        if event.event == "progressed":
            job = await queue.get(id)
            assert job is not None
            print(f"{job.progress or 0:.0%}")
        elif event.event == "completed":
            return


async def main() -> None:
    # Short leases, so that the example is short. The job runs longer than one of them lasts.
    options = penstock.WorkerOptions(lease_seconds=0.6)
    async with app, penstock.Worker(app, options):
        receipt = await train.enqueue("perceptron")
        await watch(receipt.id)
        job = await (await app.queue()).get(receipt.id)
        assert job is not None
        print(f"{job.result}, in attempt {job.attempt}")


if __name__ == "__main__":
    asyncio.run(main())
