"""Keeps one server alive for as long as any test process wants it.

    python keeper.py WANTED_LOCK FACTS_FILE DATA_FOLDER STOP_SIGNAL command …

Whoever uses the server holds a shared lock on WANTED_LOCK. When the keeper gets that lock for
itself, nobody is left, even if they were killed: it ends the server by its process id and
removes its data. So no test run can leave a server behind, and several workers can share one.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path


def main() -> int:
    wanted_path, facts, data, stop_signal, *command = sys.argv[1:]
    ending = threading.Event()
    with Path(wanted_path).open("r+") as wanted, subprocess.Popen(command, cwd=data) as server:
        threading.Thread(target=_end_with, args=(server, ending), daemon=True).start()
        fcntl.flock(wanted, fcntl.LOCK_EX)
        ending.set()
        server.send_signal(int(stop_signal))
        server.wait()
        Path(facts).unlink(missing_ok=True)
        shutil.rmtree(data, ignore_errors=True)
    return 0


def _end_with(server: subprocess.Popen[bytes], ending: threading.Event) -> None:
    """A server that ends while it is wanted takes the keeper along: whoever waits will notice."""
    server.wait()
    if not ending.is_set():
        os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
