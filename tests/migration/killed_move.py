"""A process that moves a queue and kills itself at the nth step: `killed_move SOURCE TARGET N`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from tests.migration.ends import migrate
from tests.migration.killing import Fuse


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    source, target, step = sys.argv[1:]
    fuse = Fuse(int(step), answers_are_lost=True, burn=kill)
    asyncio.run(migrate(source, target, wrap=fuse.wrap))
