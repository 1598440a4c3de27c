"""The same tasks, run by workers inside the tasks of a Spark job.

python examples/on_spark.py [URL that all executors reach]
"""

import sys
import tempfile
from pathlib import Path

import penstock
import penstock.spark

app = penstock.App("file:///var/lib/queue")


@app.task(max_attempts=5, timeout_seconds=60)
async def shout(word: str) -> str:
    return f"{word.upper()}!"


def main(url: str) -> None:
    words = ("spark", "lake", "turbine")
    with penstock.open_sync(url) as queue:
        queue.enqueue_many([penstock.NewJob("shout", {"word": word}) for word in words])

        # On a cluster: session("spark://…"), and without a burst it goes on until it is stopped.
        spark = penstock.spark.session("local[2]")
        report = penstock.spark.run(
            "on_spark:app", url, spark=spark, tasks=2, burst=True, py_files=[__file__]
        )
        spark.stop()

        print(f"{report.total.completed} completed by {len(report.workers)} workers")
        print(*sorted(job.result for job in queue.jobs()))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(Path(folder).as_uri())
