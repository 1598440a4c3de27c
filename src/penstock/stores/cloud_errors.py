"""What the clouds' errors mean: the one place where a vendor's words become penstock's.

obstore has few kinds of errors and puts the rest into their text: the HTTP status, the server's
XML with its code, and how far a request got. For a put, only what certainly was not applied may
be called anything but unknown.
"""

from __future__ import annotations

import re

from penstock.errors import (
    ObjectNotFound,
    PreconditionFailed,
    PutUnknown,
    StoreDenied,
    StoreError,
    StoreMissing,
    StoreRefused,
    StoreUnavailable,
)
from penstock.ports.store import PutMode, Replace

CAUSE_CHARACTERS_MAX = 200

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_QUERY = re.compile(r"\?\S+")
_NO_BUCKET = re.compile(
    r"NoSuchBucket|ContainerNotFound|The specified (bucket|container) does not exist"
)
_BAD_CREDENTIALS = re.compile(
    r"ExpiredToken|InvalidToken|TokenRefreshRequired|InvalidAccessKeyId|SignatureDoesNotMatch"
    # Where credentials are asked for when none were given: nobody answers outside of the cloud.
    r"|http://169\.254\.169\.254|http://metadata"
)
# S3 met another put of the same key half-way. Whether it was this one that won isn't said.
_UNDECIDED = re.compile(r"ConditionalRequestConflict|OperationAborted")
# The connection was never made, so nothing was sent on it.
_NOT_SENT = "kind: Connect"
_MAYBE_LATER = {408, 425, 429}


def translate(
    error: Exception, name: str, key: str, mode: PutMode | None = None, status: int | None = None
) -> StoreError:
    """The error to raise instead; `mode` is that of the put that failed, None for the rest."""
    text = str(error)
    if status is None and (found := _STATUS.search(text)):
        status = int(found[1])
    cause = _cause(text, status)
    if mode is not None and _UNDECIDED.search(text):
        return PutUnknown(name, key, cause)
    if _NO_BUCKET.search(text):
        return StoreMissing(name, cause)
    if status in (401, 403) or _BAD_CREDENTIALS.search(text):
        return StoreDenied(name, key, cause)
    kind = type(error).__name__
    if kind in ("AlreadyExistsError", "PreconditionError", "NotModifiedError"):
        return PreconditionFailed(name, key)
    if kind in ("PermissionDeniedError", "UnauthenticatedError"):
        return StoreDenied(name, key, cause)
    if isinstance(error, FileNotFoundError) or status == 404:
        return _not_found(name, key, mode, cause)
    if status is not None and 400 <= status < 500 and status not in _MAYBE_LATER:
        return StoreRefused(name, key, cause)
    if mode is None or _NOT_SENT in text:
        return StoreUnavailable(name, key, cause)
    return PutUnknown(name, key, cause)


def _not_found(name: str, key: str, mode: PutMode | None, cause: str) -> StoreError:
    match mode:
        case None:
            return ObjectNotFound(name, key)
        case Replace():
            # Of nothing: some servers answer 404 to that, others 412.
            return PreconditionFailed(name, key)
        case _:
            return StoreMissing(name, cause)


def _cause(text: str, status: int | None) -> str:
    """The server's status and code, or the first line without what a signed URL carries."""
    code = _CODE.search(text)
    if status is not None and code is not None:
        return f"{status} {code[1]}"
    first_line = _QUERY.sub("", text.partition("\n")[0])
    return first_line[:CAUSE_CHARACTERS_MAX]
