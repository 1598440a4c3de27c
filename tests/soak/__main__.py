"""`make soak`: faults against real servers, and an exact count afterwards.

    python -m tests.soak --seconds 600 --backend redis

Seconds are shared out among the backends. One line of verdict each; any broken promise is an exit
code of 1, with what was broken.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
import time

from tests.servers.seaweed import ENVIRONMENT
from tests.soak.places import NAMES
from tests.soak.run import soak


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0, help="of chaos, over all backends")
    parser.add_argument("--backend", default="", help=f"some of {', '.join(NAMES)}, with commas")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    said = parser.parse_args()
    backends = [name for name in said.backend.split(",") if name] or list(NAMES)
    unknown = sorted({*backends} - {*NAMES})
    if unknown:
        parser.error(f"no such backend: {', '.join(unknown)}; there are {', '.join(NAMES)}")
    logging.disable(logging.CRITICAL)
    # Whoever is told to end takes the servers and the crew along, as with Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    os.environ.update(ENVIRONMENT)
    sys.stdout.write(f"seed {said.seed}\n")
    is_broken = False
    for backend in backends:
        report = asyncio.run(soak(backend, seconds=said.seconds / len(backends), seed=said.seed))
        lines = [report.verdict, *(f"  {fault}" for fault in report.broken)]
        if report.troubles:
            told = ", ".join(f"{count} × {name}" for name, count in report.troubles.most_common())
            lines.append(f"  the crew was told: {told}")
        sys.stdout.write("\n".join(lines) + "\n")
        sys.stdout.flush()
        is_broken = is_broken or bool(report.broken)
    return 1 if is_broken else 0


if __name__ == "__main__":
    sys.exit(main())
