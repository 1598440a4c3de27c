"""Whether a file lies on another machine.

SQLite's log has an index that all processes share as memory, and its locks are those of the system.
Over a network neither can be relied on: two machines each have an index of their own, and what one
has committed the other overwrites. So a queue is not opened there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

_MOUNTS: Final = Path("/proc/self/mountinfo")
"""Only Linux has it. Elsewhere nobody is asked, and the guide has to do."""

_NETWORKS: Final = frozenset({
    "afs", "beegfs", "ceph", "cifs", "coda", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs",
    "nfs4", "ocfs2", "orangefs", "smb3", "smbfs",
    "fuse.blobfuse", "fuse.blobfuse2", "fuse.ceph", "fuse.davfs", "fuse.gcsfuse", "fuse.glusterfs",
    "fuse.goofys", "fuse.juicefs", "fuse.mount-s3", "fuse.rclone", "fuse.s3fs", "fuse.smbnetfs",
    "fuse.sshfs",
})  # fmt: skip
_ESCAPES: Final = {"\\040": " ", "\\011": "\t", "\\012": "\n", "\\134": "\\"}


def network_of(path: Path) -> str | None:
    """The kind of network file system that a path is on; None if it is local or nobody can tell."""
    try:
        mounts = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    kind = kind_in(mounts, path.absolute().resolve())
    return kind if kind in _NETWORKS else None


def kind_in(mounts: str, path: Path) -> str | None:
    """The kind of the file system that is mounted nearest above a path, the last one there."""
    nearest: tuple[int, str] | None = None
    for line in mounts.splitlines():
        fields, _, rest = line.partition(" - ")
        words = fields.split(" ")
        if len(words) < 5 or not rest:
            continue
        point = Path(_plain(words[4]))
        if (point == path or point in path.parents) and (
            nearest is None or len(point.parts) >= nearest[0]
        ):
            nearest = len(point.parts), rest.split(" ", 1)[0]
    return None if nearest is None else nearest[1]


def _plain(text: str) -> str:
    for escape, character in _ESCAPES.items():
        text = text.replace(escape, character)
    return text
