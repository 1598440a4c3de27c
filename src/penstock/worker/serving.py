"""What a worker serves: the types of jobs that it claims, and what it leaves to others.

A worker asks only for jobs that its app has a task for. Jobs of other types wait for a worker that
knows them, so two apps can share a queue, and a new version of an app can enqueue what the workers
of the old one have never heard of.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from penstock.app.app import App
from penstock.errors import InvalidInput, UnknownType
from penstock.ports.backend import Stats
from penstock.worker.options import WorkerOptions


def served_types(app: App, options: WorkerOptions) -> tuple[str, ...] | None:
    """The types to claim; None: any, since what is unknown is to fail."""
    if not app.tasks:
        raise InvalidInput(
            f"the app has no tasks, so there is nothing that a worker could run; {_imported(app)}. "
            "Import the modules that declare them, or name another app"
        )
    if options.unknown == "fail":
        if options.types is not None and set(options.types) <= set(app.tasks):
            raise InvalidInput(
                "unknown='fail' has no effect beside types that all have a task: without types, "
                "jobs of any type are claimed, and those without a task fail; leave out one of the "
                "two"
            )
        return options.types
    check_types(app, options)
    return tuple(app.tasks) if options.types is None else options.types


def check_types(app: App, options: WorkerOptions) -> None:
    """A worker may be told to serve some of the app's types only, but none that it does not have.

    Unless what is unknown is to fail: then those are the types to claim for it.
    """
    for name in options.types or ():
        if name not in app.tasks and options.unknown == "wait":
            raise UnknownType(name, app.tasks)


def types_without_process(app: App, served: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Those that can start although no process is free. None: nothing has to be told apart."""
    known = [app.tasks[name] for name in served or app.tasks if name in app.tasks]
    if not any(task.cpu for task in known):
        return None
    return tuple(task.name for task in known if not task.cpu)


def waiting_by_type(stats: Stats, queues: Iterable[str] | None = None) -> dict[str, int]:
    """How many jobs of each type wait in these queues, or in all, due or not."""
    wanted = None if queues is None else set(queues)
    found: dict[str, int] = {}
    for queue in stats.queues:
        for one in queue.types if wanted is None or queue.queue in wanted else ():
            found[one.type] = found.get(one.type, 0) + one.pending
    return dict(sorted(found.items()))


def waiting_elsewhere(
    stats: Stats, queues: Iterable[str] | None, types: Iterable[str] | None
) -> dict[str, int]:
    """How many jobs of these types, or of any, wait in queues other than these."""
    if queues is None:
        return {}
    asked, served = set(queues), None if types is None else set(types)
    found = {
        queue.queue: sum(one.pending for one in queue.types if served is None or one.type in served)
        for queue in stats.queues
        if queue.queue not in asked
    }
    return {name: count for name, count in sorted(found.items()) if count}


def _imported(app: App) -> str:
    """In which modules the app is, for somebody who has imported another than they think."""
    places = [
        f"{name} ({getattr(module, '__file__', None) or 'no file'})"
        for name, module in sorted(sys.modules.items())
        if any(value is app for value in list(vars(module).values()))
    ]
    return f"what was imported is {', '.join(places)}" if places else "it is in no module"
