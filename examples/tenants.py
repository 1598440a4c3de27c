"""Several tenants on one queue: the same ids and keys, and nobody sees another's jobs.

python examples/tenants.py
"""

import asyncio

import penstock


def billing(tenant: str) -> penstock.App:
    """An app for each tenant, all of them at the same address."""
    app = penstock.App("memory://billing", tenant=tenant)

    @app.task(key=lambda customer: customer)
    async def invoice(context: penstock.JobContext, customer: str) -> str:
        return f"{context.tenant} bills {customer}"

    return app


async def main() -> None:
    acme, globex = billing("acme"), billing("globex")
    async with acme, globex:
        for app in (acme, globex):
            receipt = await app.tasks["invoice"].options(id="2026-01").enqueue("Ada")
            print(receipt.status)  # queued, twice: identity is (tenant, id)

        # A worker serves one tenant; here one after the other.
        for app in (acme, globex):
            await penstock.Worker(app, penstock.WorkerOptions(burst=True)).run()

        for app in (acme, globex):
            queue = await app.queue()
            job = await queue.get("2026-01")
            assert job is not None
            totals = (await queue.stats()).totals
            print(f"{job.result}; completed: {totals['completed']}")


if __name__ == "__main__":
    asyncio.run(main())
