"""Makes a PostgreSQL cluster in a folder, unless it is there, and becomes its server.

    python postgres_launcher.py PROGRAMS_FOLDER DATA_FOLDER PORT

PostgreSQL refuses to run as root, so root becomes `nobody` first, who then owns the folder.
"""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from pathlib import Path

UNPRIVILEGED = "nobody"


def main() -> None:
    programs, data, port = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    if os.geteuid() == 0:
        _become(pwd.getpwnam(UNPRIVILEGED), data)
    cluster = f"{data}/cluster"
    if not Path(cluster).exists():
        make = [f"{programs}/initdb", "--pgdata", cluster, "--username", "postgres"]
        make += ["--auth", "trust", "--no-sync", "--encoding", "UTF8", "--locale", "C"]
        subprocess.run(make, check=True)
    server = [f"{programs}/postgres", "-D", cluster, "-h", "127.0.0.1", "-p", port, "-k", ""]
    os.execv(server[0], server)


def _become(user: pwd.struct_passwd, data: str) -> None:
    os.chown(data, user.pw_uid, user.pw_gid)
    os.setgroups([])
    os.setgid(user.pw_gid)
    os.setuid(user.pw_uid)


if __name__ == "__main__":
    main()
