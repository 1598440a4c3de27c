"""From code without an event loop: Django and Flask views, scripts, notebooks.

A view calls `enqueue_sync`. The first call opens the queue in a background thread, later ones and
other threads share it; forks of the process open their own.

    python examples/sync_use.py [folder or URL]
"""

import sys

import penstock

app = penstock.App(sys.argv[1] if len(sys.argv) > 1 else "memory://")


@app.task
def resize(image: int) -> int:
    """A plain function: workers run it in a thread. It can enqueue further tasks from there."""
    notify.enqueue_sync(f"image {image} is done")
    return image


@app.task
def notify(text: str) -> None:
    print("notify:", text)


def upload(image: int) -> tuple[dict[str, str], int]:
    """What would be a Django or Flask view: it returns a body and a status."""
    receipt = resize.options(priority=-1).enqueue_sync(image)
    return {"status": receipt.status}, 202


def main() -> None:
    with app:
        print(*upload(image=7))

        # In production: `penstock worker sync_use:app`, in another process.
        app.wait(penstock.Worker(app, penstock.WorkerOptions(burst=True)).run())
        print("enqueued and done:", app.wait(totals())["completed"])


async def totals() -> dict[str, int]:
    return (await (await app.queue()).stats()).totals


if __name__ == "__main__":
    main()
