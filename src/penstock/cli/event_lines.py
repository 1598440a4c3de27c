"""Events as people read them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from rich.text import Text

from penstock.cli.output import clean, duration
from penstock.insights.wording import counted
from penstock.kernel.events import (
    Adopted,
    Checkpointed,
    Claimed,
    Completed,
    Enqueued,
    Event,
    Expired,
    Failed,
    FillingBegun,
    FillingEnded,
    JobFact,
    Progressed,
    QueueMoved,
    Released,
    Retried,
    Snoozed,
)
from penstock.wire.codecs import Undecodable

STYLES: Final = {
    "completed": "green",
    "failed": "red",
    "expired": "red",
    "retried": "yellow",
    "cancelled": "bright_black",
    "claimed": "cyan",
}


def line(event: Event) -> Text:
    """One event, one line, in columns that stay where they are."""
    at = datetime.fromtimestamp(event.at, UTC).strftime("%H:%M:%S.%f")[:-3]
    words = Text.assemble(
        (at, "bright_black"), " ", (f"{event.event:<12}", STYLES.get(event.event, ""))
    )
    if isinstance(event, JobFact):
        words.append(f" {clean(event.id)} {clean(event.queue)}/{clean(event.type)}")
    elif (queue := getattr(event, "queue", None)) is not None:
        words.append(f" {clean(queue)}")
    more = detail(event)
    if more:
        words.append(f"  {clean(more)}", style="bright_black")
    return words


def detail(event: Event) -> str:
    """What is worth saying about it beyond its name."""
    match event:
        case Adopted():
            return f"{event.state.value}, from another queue"
        case QueueMoved():
            return f"to {event.target}"
        case FillingBegun():
            return f"from {event.source}"
        case FillingEnded():
            return counted(event.jobs, "job")
        case Enqueued():
            wait = event.run_at - event.at
            due = f"due in {duration(wait)}" if wait > 0.001 else ""
            key = f"key {event.key}" if event.key else ""
            return ", ".join(filter(None, [due, key, _unread("payload", event.payload)]))
        case Claimed():
            return f"by {event.worker}" if event.worker else ""
        case Progressed():
            return progress_words(event.progress, event.progress_message)
        case Retried() | Expired():
            return f"{event.kind}: {event.error}; again in {duration(event.run_at - event.at)}"
        case Released() | Snoozed():
            return f"again in {duration(event.run_at - event.at)}"
        case Completed():
            since = event.started_at
            took = "" if since is None else f"took {duration(event.at - since)}"
            return ", ".join(filter(None, [took, _unread("result", event.result)]))
        case Failed():
            return f"{event.kind}: {event.error}"
        case Checkpointed():
            return f"commit {event.commit:,}, {counted(event.size_bytes, 'byte')}"
        case _:
            return ""


def _unread(what: str, value: object) -> str:
    if not isinstance(value, Undecodable):
        return ""
    size = "" if value.size_bytes is None else f" ({counted(value.size_bytes, 'byte')})"
    return f"its {what}{size} can't be decoded: {value.reason}"


def progress_words(progress: float, message: str | None) -> str:
    return f"{progress:.0%}" if message is None else f"{progress:.0%}, {message}"
