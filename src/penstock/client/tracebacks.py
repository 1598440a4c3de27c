"""What is kept of a traceback: few words, and those that tell most.

The innermost frames come first when room is short, since that is where it broke; causes and the
members of a group are shown with theirs. Long messages are cut, so that they leave room for frames.
The frames of the machinery that called the handler are left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest
from traceback import TracebackException
from types import TracebackType
from typing import Final

from msgspec import Struct

from penstock.kernel.events import STORED_BESIDE, Expired, Failed, JobEvent, Retried
from penstock.kernel.job import Job

TRACEBACK_BYTES_MAX: Final = 4_096
_FRAMES: Final = (64, 32, 16, 8, 4, 2, 1)
"""How many innermost frames of each exception are tried, until the whole fits."""
_MESSAGE_CHARACTERS_MAX: Final = 300
_NOTES_MAX: Final = 5
_GROUP_WIDTH_MAX: Final = 5
_GROUP_DEPTH_MAX: Final = 3
_MACHINERY: Final = ("penstock.app.running", "penstock.worker.")
"""The modules that call handlers, and what middleware calls to proceed."""
_OUTERMOST: Final = ("penstock.app.", "penstock.worker.")
"""Before any code of the handler's, what checks its arguments is machinery too."""
_POOL: Final = "concurrent.futures.thread"
_CUT: Final = "…\n"


class FailureRecord(Struct, frozen=True):
    """One failed attempt of a job, with its traceback as far as the log still has it."""

    attempt: int
    at: float
    kind: str
    message: str
    traceback: str | None = None
    """None: it left none, as where its lease ran out, or it is gone."""
    vacuumed: bool = False
    """Whether it is gone, alone or with the event that had it."""


def failure_records(job: Job, history: Iterable[JobEvent]) -> list[FailureRecord]:
    """The job's errors, each with what the event that ended its attempt has kept."""
    ends = {
        (event.attempt, event.at): event
        for event in history
        if isinstance(event, Retried | Failed | Expired)
    }
    records = []
    for error in job.errors:
        end = ends.get((error.attempt, error.at))
        text = end.traceback if isinstance(end, Retried | Failed) else None
        is_gone = end is None or text == STORED_BESIDE
        records.append(
            FailureRecord(error.attempt, error.at, error.kind, error.message, text or None, is_gone)
        )
    return records


def traceback_of(error: BaseException, bytes_max: int = TRACEBACK_BYTES_MAX) -> str | None:
    """Where an exception comes from, in so many bytes; None: from no code of its handler."""
    if error.__traceback__ is None and not _has_more_to_tell(error):
        return None
    try:
        for limit in _FRAMES:
            text = _storable(_formatted(error, limit))
            if len(text.encode()) <= bytes_max:
                return text
    except Exception as broken:  # noqa: BLE001  # an error whose own code fails while it is shown
        text = f"the traceback can't be shown: {type(broken).__name__}\n"
    return cut_traceback(text, bytes_max)


def cut_traceback(text: str, bytes_max: int = TRACEBACK_BYTES_MAX) -> str:
    """The end of a text that is too long: a traceback ends with what broke."""
    encoded = _storable(text).encode()
    if len(encoded) <= bytes_max:
        return encoded.decode()
    room = bytes_max - len(_CUT.encode())
    return _CUT + encoded[-room:].decode(errors="ignore")


def leave_out_machinery(error: BaseException) -> None:
    """Takes the frames of those who called the handler out of an error, and of all behind it.

    From then on whoever shows it shows the handler's own: logs, hooks and what is kept.
    """
    left, seen = [error], set[int]()
    while left:
        one = left.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        BaseException.with_traceback(one, _own_frames(one.__traceback__))
        left += [behind for behind in (one.__cause__, one.__context__) if behind is not None]
        left += one.exceptions if isinstance(one, BaseExceptionGroup) else ()


def _own_frames(frames: TracebackType | None) -> TracebackType | None:
    own: list[TracebackType] = []
    while frames is not None:
        name, after = _module_of(frames), frames.tb_next
        is_pools = name == _POOL and after is not None and _module_of(after).startswith(_MACHINERY)
        if not is_pools and not name.startswith(_MACHINERY if own else _OUTERMOST):
            own.append(frames)
        frames = after
    for frame, following in zip_longest(own, own[1:]):
        frame.tb_next = following
    return own[0] if own else None


def _module_of(frames: TracebackType) -> str:
    return str(frames.tb_frame.f_globals.get("__name__", ""))


def _formatted(error: BaseException, limit: int) -> str:
    shown = TracebackException(
        type(error), error, error.__traceback__, limit=-limit, compact=True,
        max_group_width=_GROUP_WIDTH_MAX, max_group_depth=_GROUP_DEPTH_MAX,
    )  # fmt: skip
    _cut_messages(shown)
    return "".join(shown.format())


def _cut_messages(shown: TracebackException) -> None:
    left: list[TracebackException | None] = [shown]
    while left:
        one = left.pop()
        if one is not None:
            # The only place where one can get at it before it is formatted.
            one._str = _cut_message(one._str)  # type: ignore[attr-defined]
            if one.__notes__:
                one.__notes__ = [_cut_message(str(note)) for note in one.__notes__][:_NOTES_MAX]
            left += [one.__cause__, one.__context__, *(one.exceptions or ())]


def _cut_message(message: str) -> str:
    too_long = len(message) > _MESSAGE_CHARACTERS_MAX
    return f"{message[:_MESSAGE_CHARACTERS_MAX]}…" if too_long else message


def _has_more_to_tell(error: BaseException) -> bool:
    """Whether others stand behind it: a cause, what was handled when it was raised, a group."""
    context = None if error.__suppress_context__ else error.__context__
    return isinstance(error, BaseExceptionGroup) or (error.__cause__ or context) is not None


def _storable(text: str) -> str:
    """A lone surrogate, as in a file name that is no text, can't be stored."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()
