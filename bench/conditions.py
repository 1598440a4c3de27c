"""Under which conditions the figures hold."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

SYNCS: Final = 50
SYNCED_BYTES: Final = 16 * 1024


def conditions(folder: str | None) -> dict[str, str]:
    """What a reader has to know to compare; in the order in which it is shown."""
    sync_seconds = fsync_seconds(folder)
    return {
        "machine": f"{os.cpu_count()} cores, {_processor()}",
        "system": f"{platform.system()} {platform.release().partition('-')[0]}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "libraries": ", ".join(_versions("msgspec", "obstore", "uvloop")),
        "folder": f"{_file_system(folder)}, {SYNCED_BYTES // 1024} KiB written and synced in "
        f"{sync_seconds * 1000:.2f} ms (median of {SYNCS})",
        "load": f"{os.getloadavg()[0]:.2f} runnable at the start",
    }


def fsync_seconds(folder: str | None) -> float:
    """What one small durable write costs here; next to nothing means that it is not durable."""
    data, taken = b"x" * SYNCED_BYTES, []
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(SYNCS):
            started_at = time.perf_counter()
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            taken.append(time.perf_counter() - started_at)
    return statistics.median(taken)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()


def _file_system(folder: str | None) -> str:
    try:
        lines = Path("/proc/mounts").read_text().splitlines()
    except OSError:
        return "unknown file system"
    place = Path(folder or tempfile.gettempdir()).resolve()
    mounts = [(Path(parts[1]), parts[2]) for parts in map(str.split, lines)]
    around = [(mount, kind) for mount, kind in mounts if place.is_relative_to(mount)]
    return max(around, key=lambda found: len(found[0].parts))[1]


def _versions(*names: str) -> Iterator[str]:
    for name in names:
        try:
            yield f"{name} {importlib.metadata.version(name)}"
        except importlib.metadata.PackageNotFoundError:
            yield f"no {name}"
