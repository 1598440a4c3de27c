"""Whether every object that has rows still to be admitted is there, and is what was published."""

from __future__ import annotations

from penstock.errors import Corrupt, ObjectNotFound
from penstock.insights.checks import Check
from penstock.insights.findings import SHOWN_MAX, stored
from penstock.insights.wording import counted
from penstock.kernel.state import QueueState
from penstock.ports.store import ObjectStore
from penstock.wire.imports import require_object

CHECK = "import objects"


async def import_objects(store: ObjectStore, state: QueueState) -> Check:
    wanted = {segment.key: segment.digest for segment in state.imports.segments()}
    for staged in state.imports.staged.values():
        wanted |= {part.key: part.digest for part in staged.objects}
    bad: list[str] = []
    for key, digest in wanted.items():
        try:
            require_object(key, (await store.get(key)).data, digest)
        except (ObjectNotFound, Corrupt) as error:
            bad.append(str(error))
    if bad:
        words = "; ".join(bad[:SHOWN_MAX])
        return stored(CHECK, "fail", f"{len(bad):,} can't be admitted: {words}")
    rows = sum(segment.unadmitted for segment in state.imports.segments())
    return stored(CHECK, "ok", f"{len(wanted):,} with {counted(rows, 'unadmitted job')}")
