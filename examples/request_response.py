"""Request and response over a queue: call a task that runs elsewhere, get its typed result.

python examples/request_response.py
"""

import asyncio

import msgspec

import penstock

app = penstock.App("memory://")


class Quote(msgspec.Struct):
    product: str
    cents: int


@app.task(wait_seconds=10)
async def price(product: str, quantity: int = 1) -> Quote:
    prices = {"tea": 450, "coffee": 690}
    if product not in prices:
        raise penstock.Permanent(f"we have no {product}")
    return Quote(product, prices[product] * quantity)


@app.task(queue="nobody-serves-this")
async def ponder() -> None: ...


async def main() -> None:
    options = penstock.WorkerOptions(queues=("default",))
    async with app, penstock.Worker(app, options):
        quote = await price.call("tea", quantity=2)
        print(f"2 × {quote.product}: {quote.cents} cents")

        try:
            await price.call("cocoa")
        except penstock.JobFailed as error:
            print("failed:", error.error)

        try:
            await ponder.options(wait_seconds=0.1).call()
        except penstock.CallTimeout as error:
            print(f"no answer within {error.timeout_seconds} s; the job goes on without us")

        # With an id of its own a question is asked once, however often it is repeated.
        for _ in range(2):
            print((await price.options(id="coffee-today").call("coffee")).cents)


if __name__ == "__main__":
    asyncio.run(main())
