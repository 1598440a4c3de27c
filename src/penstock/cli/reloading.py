"""`--reload`: the same command as a child process, started again whenever the code changes.

A fresh process and not a fresh import, because modules that were imported once leave traces. The
child drains before the next one starts, so no job is interrupted by an edit.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from asyncio.subprocess import Process
from pathlib import Path

from penstock.errors import MissingExtra

logger = logging.getLogger("penstock.cli")


async def reload_forever() -> int:
    """Until a signal comes; answers the exit code of the last child."""
    try:
        from watchfiles import PythonFilter, awatch
    except ImportError:
        raise MissingExtra("watch", "--reload") from None
    stopping, child = asyncio.Event(), await _started()

    def stop() -> None:
        stopping.set()
        _send(child, signal.SIGTERM)

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    async for changes in awatch(Path.cwd(), watch_filter=PythonFilter(), stop_event=stopping):
        names = sorted({Path(name).name for _, name in changes})
        logger.info("%s changed: starting again", ", ".join(names))
        _send(child, signal.SIGTERM)
        await child.wait()
        child = await _started()
    return await child.wait()


async def _started() -> Process:
    # Its own group: ctrl-c reaches it once, through this process.
    arguments = [word for word in sys.argv[1:] if word != "--reload"]
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "penstock", *arguments, start_new_session=True
    )


def _send(child: Process, number: signal.Signals) -> None:
    if child.returncode is None:
        child.send_signal(number)
