"""The tables counted again, in plain Python and from what is stored alone.

Written from what the documents say the tables are, and sharing nothing with the code that makes
them: no Spark, no transforms, no decoders of penstock's.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from typing import Any

from tests.pipeline.backends import Stored

Row = dict[str, Any]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ENDS = {"completed", "failed", "cancelled"}
ATTEMPT_ENDS = ENDS | {"retried", "expired", "released", "snoozed"}
BIRTHS = {"enqueued", "admitted"}
FAILED = {"failed", "retried", "expired"}
TIMES = (
    *("at", "enqueued_at", "run_at", "due_at", "started_at"),
    *("lease_until", "key_until", "before"),
)
DEFAULTS: dict[str, tuple[Any, set[str]]] = {
    "priority": (0, ENDS | BIRTHS),
    "max_attempts": (4, ENDS | BIRTHS),
    "timeout_seconds": (300.0, BIRTHS),
    "codec": ("json", BIRTHS),
    "row": (0, {"admitted"}),
    "result_codec": ("json", {"completed"}),
    "errors": ([], ENDS),
}


def at(seconds: float | None) -> datetime | None:
    return None if seconds is None else EPOCH + timedelta(microseconds=round(seconds * 1e6))


def micros(start: datetime | None, end: datetime | None) -> int:
    assert start is not None
    assert end is not None
    return (end - start) // timedelta(microseconds=1)


class Recount:
    """Everything that the events of a queue say."""

    def __init__(self, stored: Iterable[Stored], last_commit: int | None = None) -> None:
        self.commits: list[Row] = []
        self.events: list[Row] = []
        for commit, events, size in stored:
            if last_commit is not None and commit > last_commit:
                break
            when = at(events[0]["at"])
            self.commits.append({"commit": commit, "at": when, "size": size, "events": len(events)})
            self.events += [_event(event, commit) for event in events]
        self.attempts = [self._attempt(event) for event in self.events if _ends_attempt(event)]

    def tables(self) -> dict[str, list[Row]]:
        return {
            "events": [dict(event) for event in self.events],
            "attempts": self.attempts,
            "jobs": [_job(event) for event in self.events if event["event"] in ENDS],
            "throughput": self._throughput(),
            "errors": self._errors(),
            "workers": self._workers(),
            "cost": self._cost(),
            "slo": self._slo(),
        }

    def waits(self, minute: datetime, tenant: str, queue: str, type: str) -> list[float]:
        return self._durations["wait"][minute, tenant, queue, type]

    def runs(self, minute: datetime, tenant: str, queue: str, type: str) -> list[float]:
        return self._durations["run"][minute, tenant, queue, type]

    def _attempt(self, event: Row) -> Row:
        same = ("position", "commit", "tenant", "queue", "type", "id", "life", "attempt")
        return {
            **{name: event[name] for name in same},
            "outcome": event["event"],
            "enqueued_at": event["enqueued_at"],
            "due_at": event["due_at"],
            "started_at": event["started_at"],
            "ended_at": event["at"],
            "wait_seconds": micros(event["due_at"], event["started_at"]) / 1e6,
            "run_seconds": micros(event["started_at"], event["at"]) / 1e6,
            "kind": event.get("kind"),
            "error": event.get("error"),
            "traceback": event.get("traceback"),
            "worker": event.get("worker"),
        }

    def _throughput(self) -> list[Row]:
        counted = {name: name for name in ATTEMPT_ENDS}
        counted |= {"enqueued": "enqueued", "claimed": "started"}
        rows: dict[Any, Row] = {}
        spans: dict[Any, dict[str, list[int]]] = {}
        for event in self.events:
            minute = event["at"].replace(second=0, microsecond=0)
            for segment in _segments(event) if event["event"] == "imported" else ():
                key = (minute, event["tenant"], segment["queue"], segment["type"])
                row = rows.setdefault(key, dict.fromkeys(counted.values(), 0))
                row["enqueued"] += sum(rows for _, rows, _ in segment["chunks"])
                spans.setdefault(key, {"wait": [], "run": []})
            if event["event"] not in counted:
                continue
            key = (minute, event["tenant"], event["queue"], event["type"])
            row = rows.setdefault(key, dict.fromkeys(counted.values(), 0))
            row[counted[event["event"]]] += 1
            durations = spans.setdefault(key, {"wait": [], "run": []})
            if event["event"] == "claimed":
                durations["wait"].append(micros(event["run_at"], event["at"]))
            if _ends_attempt(event):
                durations["run"].append(micros(event["started_at"], event["at"]))
        self._durations: dict[str, dict[Any, list[float]]] = {"wait": {}, "run": {}}
        for key, durations in spans.items():
            for name, values in durations.items():
                self._durations[name][key] = sorted(value / 1e6 for value in values)
                rows[key][f"{name}_count"] = len(values)
                rows[key][f"{name}_seconds_sum"] = sum(values) / 1e6
                rows[key][f"{name}_seconds_max"] = max(values) / 1e6 if values else None
        return _keyed(("minute", "tenant", "queue", "type"), rows)

    def _errors(self) -> list[Row]:
        rows: dict[Any, Row] = {}
        for attempt in self.attempts:
            if attempt["outcome"] not in FAILED:
                continue
            day, message = attempt["ended_at"].date(), attempt["error"]
            where = (attempt["tenant"], attempt["queue"], attempt["type"], attempt["kind"])
            row = rows.setdefault(
                (day, *where, fingerprint(message)),
                {
                    "count": 0,
                    "first_at": attempt["ended_at"],
                    "example": message,
                    "example_traceback": attempt["traceback"],
                    "example_id": attempt["id"],
                    "example_position": attempt["position"],
                },
            )
            row["count"] += 1
            row["last_at"] = attempt["ended_at"]
        return _keyed(("date", "tenant", "queue", "type", "kind", "fingerprint"), rows)

    def _workers(self) -> list[Row]:
        groups: dict[Any, list[Row]] = defaultdict(list)
        for attempt in self.attempts:
            hour = attempt["ended_at"].replace(minute=0, second=0, microsecond=0)
            groups[hour, attempt["tenant"], attempt["worker"] or ""].append(attempt)
        rows = {
            key: {
                "attempts": len(group),
                "completed": sum(each["outcome"] == "completed" for each in group),
                "failed": sum(each["outcome"] in FAILED for each in group),
                "busy_seconds": sum(micros(each["started_at"], each["ended_at"]) for each in group)
                / 1e6,
                "first_at": min(each["started_at"] for each in group),
                "last_at": max(each["ended_at"] for each in group),
            }
            for key, group in groups.items()
        }
        return _keyed(("hour", "tenant", "worker"), rows)

    def _cost(self) -> list[Row]:
        names = ("commits", "put_requests", "events", "jobs_ended", "bytes_written")
        rows: dict[Any, Row] = defaultdict(lambda: dict.fromkeys(names, 0))
        for commit in self.commits:
            row = rows[(commit["at"].replace(minute=0, second=0, microsecond=0),)]
            row["commits"] += 1
            row["put_requests"] += 1
            row["events"] += commit["events"]
            row["bytes_written"] += commit["size"] or 0
        import_objects = set()
        for event in self.events:
            row = rows[(event["at"].replace(minute=0, second=0, microsecond=0),)]
            for part in event.get("objects", ()):
                row["put_requests"] += part["key"] not in import_objects
                import_objects.add(part["key"])
            for segment in _segments(event):
                row["bytes_written"] += sum(size for size, _, _ in segment["chunks"])
            row["jobs_ended"] += event["event"] in ENDS
            row["put_requests"] += sum(bool(event.get(f"{it}_key")) for it in ("payload", "result"))
            if event["event"] == "checkpointed":
                row["put_requests"] += 1
                row["bytes_written"] += event["size_bytes"]
        for row in rows.values():
            if any(commit["size"] is None for commit in self.commits):
                row.update(put_requests=None, bytes_written=None)
                continue
            stored = row["bytes_written"] / 1e9 * 0.023 * 7 / 30
            row["dollars"] = row["put_requests"] * 5e-6 + stored
            ended = row["jobs_ended"]
            row["dollars_per_million_jobs"] = row["dollars"] / ended * 1e6 if ended else None
        return _keyed(("hour",), rows)

    def _slo(self, wait: float = 60.0, run: float = 300.0, target: float = 0.99) -> list[Row]:
        groups: dict[Any, list[Row]] = defaultdict(list)
        for attempt in self.attempts:
            if attempt["outcome"] in ("completed", "failed"):
                where = (attempt["tenant"], attempt["queue"], attempt["type"])
                groups[attempt["ended_at"].date(), *where, wait, run, target].append(attempt)
        rows = {}
        for key, group in groups.items():
            succeeded = [each["outcome"] == "completed" for each in group]
            waited = [each["wait_seconds"] <= wait for each in group]
            ran = [each["run_seconds"] <= run for each in group]
            good = sum(all(each) for each in zip(succeeded, waited, ran, strict=True))
            rows[key] = {
                "jobs": len(group),
                "succeeded": sum(succeeded),
                "within_wait": sum(waited),
                "within_run": sum(ran),
                "within_both": good,
                "met": good >= target * len(group),
            }
        objectives = ("wait_seconds_max", "run_seconds_max", "success_target")
        return _keyed(("date", "tenant", "queue", "type", *objectives), rows)


def fingerprint(message: str) -> str:
    quad = "[0-9a-fA-F]{4}"
    text = re.sub(f"[0-9a-fA-F]{{8}}-{quad}-{quad}-{quad}-[0-9a-fA-F]{{12}}", "<uuid>", message)
    text = re.sub('"[^"]*"', "<text>", text)
    text = re.sub(r"(?<![0-9A-Za-z_])'[^']*'", "<text>", text)
    text = re.sub("0[xX][0-9a-fA-F]+", "<hex>", text)
    long = r"(?<![0-9A-Za-z_])(?=[a-fA-F]*[0-9])[0-9a-fA-F]{8,}(?![0-9A-Za-z_])"
    text = re.sub(long, "<hex>", text)
    text = re.sub("[0-9]+", "<number>", text)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def rank_error(values: list[float], quantile: float, answer: float) -> float:
    """How far the answer's rank is from the one asked for, as a share of all values."""
    low, high = bisect_left(values, answer), bisect_right(values, answer)
    wanted = quantile * len(values)
    return max(0.0, low - wanted, wanted - high) / len(values)


def _event(event: Row, commit: int) -> Row:
    if event["event"] == "checkpointed":
        event["checkpoint_commit"] = event["commit"]
    event["commit"] = commit
    for name in TIMES:
        if name in event:
            event[name] = at(event[name])
    for name, (value, events) in DEFAULTS.items():
        if event["event"] in events:
            event.setdefault(name, value)
    if "errors" in event:
        event["errors"] = [{**error, "at": at(error["at"])} for error in event["errors"]]
    return event


def _segments(event: Row) -> list[Row]:
    return [segment for part in event.get("objects", ()) for segment in part["segments"]]


def _ends_attempt(event: Row) -> bool:
    if event["event"] not in ATTEMPT_ENDS:
        return False
    if event["event"] != "cancelled":
        return True
    started = event.get("started_at")
    return started is not None and event["due_at"] <= started


def _job(event: Row) -> Row:
    same = (
        *("tenant", "id", "life", "queue", "type", "position", "commit", "enqueued_at", "attempt"),
        *("failures", "max_attempts", "priority", "key", "meta", "trace", "result", "worker"),
        *("result_codec", "result_key", "started_at"),
    )
    errors = list(event["errors"])
    if event["event"] == "failed":
        last = {"attempt": event["attempt"], "at": event["at"], "kind": event["kind"]}
        errors.append({**last, "message": event["error"]})
    return {
        **{name: event.get(name) for name in same},
        "state": event["event"],
        "run_at": event["due_at"],
        "ended_at": event["at"],
        "errors": errors,
        "kind": errors[-1]["kind"] if errors else None,
        "error": errors[-1]["message"] if errors else None,
    }


def _keyed(names: Iterable[str], rows: dict[Any, Row]) -> list[Row]:
    return [dict(zip(names, key, strict=True)) | row for key, row in rows.items()]


def day_of(row: Row, moment: str) -> date:
    value = row[moment]
    return value.date() if isinstance(value, datetime) else value
