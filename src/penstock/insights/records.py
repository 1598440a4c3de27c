"""Jobs, events, workers and counts as plain records, complete and without anything secret.

A lease's secret lets its holder end somebody's attempt, so neither it nor what it is made of
leaves here. Everything else is shown under the name that it has in Python and in the log.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any, Final

import msgspec

from penstock.errors import InvalidInput
from penstock.kernel.events import Event
from penstock.kernel.job import DEFAULT_CODEC, Job, State
from penstock.ports.backend import QueueStats, Stats, WorkerRecord
from penstock.wire.codecs import Codecs, Undecodable
from penstock.wire.commit import encode_event

_JOB_INTERNALS: Final = frozenset({"lease", "ended_lease", "trail", "payload_key", "result_key"})
_EVENT_INTERNALS: Final = frozenset({"operation"})

_MARK: Final = "undecodable"
"""In a portable record: which of its values are told about, since they could not be read."""

_codecs: Final = Codecs()


def job_record(job: Job) -> dict[str, Any]:
    """A job that was handed out, with its values decoded."""
    fields = {name: getattr(job, name) for name in job.__struct_fields__}
    record = {name: fields[name] for name in fields if name not in _JOB_INTERNALS}
    return {
        **record,
        "payload": told(job.payload),
        "result": told(job.result),
        "state": job.state.value,
        "retry": {name: getattr(job.retry, name) for name in job.retry.__struct_fields__},
        "errors": [msgspec.to_builtins(error) for error in job.errors],
    }


def portable_job_record(job: Job) -> dict[str, Any]:
    """The same with its values as the log has them, so that nothing is lost on the way.

    What JSON can't hold, the values of every codec but `json`, stands there in base64. What could
    not be decoded stands there with its raw bytes, and `undecodable` says so.
    """
    record = job_record(job)
    values = {"payload": (job.payload, job.codec), "result": (job.result, job.result_codec)}
    for name, (value, codec) in values.items():
        if isinstance(value, Undecodable):
            record[name] = value
            record.setdefault(_MARK, []).append(name)
        elif codec != DEFAULT_CODEC and value is not None:
            record[name] = _packed(value, codec)
    return record


def told(value: Any) -> Any:
    """A value as people are shown it: of one that can't be decoded, its size and the reason."""
    return value.told() if isinstance(value, Undecodable) else value


def unpacked_payload(record: dict[str, Any]) -> Any:
    """The payload in a portable record, as it was: `Undecodable` if it was exported as that."""
    payload, codec = record.get("payload"), record.get("codec") or DEFAULT_CODEC
    marked = record.get(_MARK)
    if isinstance(marked, list) and "payload" in marked:
        try:
            return msgspec.convert(payload, Undecodable)
        except msgspec.ValidationError as error:
            raise InvalidInput(f"the payload is not what an export writes: {error}") from None
    if codec == DEFAULT_CODEC or payload is None:
        return payload
    if not isinstance(payload, str):
        raise InvalidInput(f"a payload of the codec {codec!r} is written in base64")
    try:
        value = _codecs.decode(b64decode(payload, validate=True), codec)
    except ValueError as error:
        raise InvalidInput(f"the payload is not base64 of the codec {codec!r}: {error}") from error
    if isinstance(value, Undecodable):
        raise InvalidInput(f"the payload can't be read: {value.reason}")
    return value


def event_record(event: Event) -> dict[str, Any]:
    record: dict[str, Any] = msgspec.json.decode(encode_event(event))
    return {name: record[name] for name in record if name not in _EVENT_INTERNALS}


def stats_record(stats: Stats) -> dict[str, Any]:
    """Totals by state over all finished and live jobs, then per queue; no state is left out."""
    return {
        "totals": all_states(stats.totals),
        "queues": [queue_record(queue) for queue in stats.queues],
        "jobs": stats.jobs,
        "commit": stats.commit,
        "at": stats.at,
        "state_bytes": stats.state_bytes,
        "events_behind": stats.events_behind,
    }


def queue_record(queue: QueueStats) -> dict[str, Any]:
    record: dict[str, Any] = msgspec.structs.asdict(queue)
    return {**record, "totals": all_states(queue.totals)}


def worker_record(worker: WorkerRecord) -> dict[str, Any]:
    return msgspec.structs.asdict(worker)


def all_states(totals: dict[str, int]) -> dict[str, int]:
    return {state.value: totals.get(state.value, 0) for state in State}


def _packed(value: Any, codec: str) -> str:
    return b64encode(_codecs.encode(value, codec)[0]).decode()
