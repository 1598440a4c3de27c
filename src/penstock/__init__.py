"""penstock: a durable job queue for people who already have a bucket.

    async with penstock.open("file:///var/lib/queue") as queue:
        await queue.enqueue("resize", {"id": 7})

Names are loaded when they are first used, so that importing penstock costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.app.app import App as App
    from penstock.app.context import JobContext as JobContext
    from penstock.app.context import current_job as current_job
    from penstock.app.control import Permanent as Permanent
    from penstock.app.control import Retry as Retry
    from penstock.app.control import Snooze as Snooze
    from penstock.app.task import Task as Task
    from penstock.app.task import TaskOptions as TaskOptions
    from penstock.client.blocking import BlockingQueue as BlockingQueue
    from penstock.client.envelopes import JobOf as JobOf
    from penstock.client.import_writer import ImportWriter as ImportWriter
    from penstock.client.newjob import NewJob as NewJob
    from penstock.client.queue import Queue as Queue
    from penstock.errors import *  # noqa: F403  # all of them, those of tomorrow too
    from penstock.kernel.commands import ImportReceipt as ImportReceipt
    from penstock.kernel.commands import Receipt as Receipt
    from penstock.kernel.job import Job as Job
    from penstock.kernel.job import State as State
    from penstock.kernel.retry import RetryPolicy as RetryPolicy
    from penstock.wire.codecs import Beside as Beside
    from penstock.wire.codecs import Undecodable as Undecodable
    from penstock.wiring import import_writer as import_writer
    from penstock.wiring import open as open  # noqa: A004  # `penstock.open` is the public name
    from penstock.wiring import open_sync as open_sync
    from penstock.worker.options import WorkerOptions as WorkerOptions
    from penstock.worker.worker import Worker as Worker

__version__ = "0.1.0"

_HOMES = {
    "App": "penstock.app.app",
    "BlockingQueue": "penstock.client.blocking",
    "ImportReceipt": "penstock.kernel.commands",
    "ImportWriter": "penstock.client.import_writer",
    "Job": "penstock.kernel.job",
    "JobContext": "penstock.app.context",
    "NewJob": "penstock.client.newjob",
    "Permanent": "penstock.app.control",
    "Queue": "penstock.client.queue",
    "Receipt": "penstock.kernel.commands",
    "Retry": "penstock.app.control",
    "RetryPolicy": "penstock.kernel.retry",
    "Snooze": "penstock.app.control",
    "State": "penstock.kernel.job",
    "Task": "penstock.app.task",
    "TaskOptions": "penstock.app.task",
    "JobOf": "penstock.client.envelopes",
    "Beside": "penstock.wire.codecs",
    "Undecodable": "penstock.wire.codecs",
    "Worker": "penstock.worker.worker",
    "WorkerOptions": "penstock.worker.options",
    "current_job": "penstock.app.context",
    "import_writer": "penstock.wiring",
    "open": "penstock.wiring",
    "open_sync": "penstock.wiring",
}

__all__ = [
    "App",
    "BlockingQueue",
    "ImportReceipt",
    "ImportWriter",
    "Job",
    "JobContext",
    "NewJob",
    "Permanent",
    "Queue",
    "Receipt",
    "Retry",
    "RetryPolicy",
    "Snooze",
    "State",
    "Task",
    "TaskOptions",
    "JobOf",
    "Beside",
    "Undecodable",
    "Worker",
    "WorkerOptions",
    "current_job",
    "import_writer",
    "open",
    "open_sync",
]


def __dir__() -> list[str]:
    from penstock import errors

    return sorted([*__all__, *errors.__all__, "__version__"])


if not TYPE_CHECKING:
    # Out of a type checker's sight: to it, every name would be there.
    def __getattr__(name):
        from importlib import import_module

        home = _HOMES.get(name)
        if home is not None:
            return getattr(import_module(home), name)
        errors = import_module("penstock.errors")
        if name in errors.__all__:
            return getattr(errors, name)
        raise AttributeError(f"module 'penstock' has no attribute {name!r}")
