"""What a queue has, counted and hashed, so that two of them can be compared.

The digest is a sum over the digests of all jobs, so it does not depend on the order in which they
are read, and no queue has to fit in memory for it.
"""

from __future__ import annotations

from collections import Counter
from hashlib import sha256
from typing import Final

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from penstock.engines.names import digest_in
from penstock.kernel.job import ABSENT, Job, State

_DIGEST_BITS: Final = 256
_encoder: Final = msgspec.json.Encoder(order="deterministic")


class Count(Struct, frozen=True, order=True):
    tenant: str
    queue: str
    state: str
    jobs: int


class Tally:
    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str, str]] = Counter()
        self._sum = 0

    def add(self, job: Job) -> None:
        self._counts[job.tenant, job.queue, job.state.value] += 1
        digest = sha256(canonical(job)).digest()
        self._sum = (self._sum + int.from_bytes(digest)) % (1 << _DIGEST_BITS)

    @property
    def jobs(self) -> int:
        return self._counts.total()

    @property
    def digest(self) -> str:
        return f"{self._sum:0{_DIGEST_BITS // 4}x}"

    @property
    def counts(self) -> list[Count]:
        return sorted(Count(*key, jobs) for key, jobs in self._counts.items())

    def difference(self, other: Tally) -> str | None:
        """In words, what the other one has otherwise; None: they are the same."""
        for key in sorted(self._counts.keys() | other._counts.keys()):
            ours, theirs = self._counts[key], other._counts[key]
            if ours != theirs:
                tenant, queue, state = key
                return f"of {tenant!r}, {queue!r}, {state}: {ours:,} jobs left, {theirs:,} arrived"
        if self._sum != other._sum:
            return f"the counts agree, but the digests are {self.digest} and {other.digest}"
        return None


def canonical(job: Job) -> bytes:
    """Everything about a job that is the same wherever it is kept.

    Not its positions in a log, nor how its values are indented; side objects by their content.
    Completed jobs have let go of their payload.
    """
    return _encoder.encode(
        replace(
            job,
            life=0,
            trail=(),
            source=0,
            row=0,
            payload=ABSENT if job.state is State.COMPLETED else dense(job.payload),
            payload_key=_content(job.payload_key),
            result=dense(job.result),
            result_key=_content(job.result_key),
        )
    )


def dense(value: Raw) -> Raw:
    """Without line breaks: layout `single` has them, and a commit is one event a line."""
    return Raw(msgspec.json.format(bytes(value), indent=-1)) if len(value) else ABSENT


def _content(key: str | None) -> str | None:
    return None if key is None else digest_in(key)
