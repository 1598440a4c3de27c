"""What stores say, and what is in them."""

from __future__ import annotations

from penstock.errors.root import PenstockError


class StoreError(PenstockError):
    """The object store said no; `key` is what was asked for, `store` who was asked."""

    def __init__(self, store: str, key: str, message: str) -> None:
        super().__init__(f"{store}: {message}" + (f" (object {key!r})" if key else ""))
        self.store = store
        self.key = key


class ObjectNotFound(StoreError):
    """Nothing is stored under that key; somebody has deleted it, or it never was there."""

    def __init__(self, store: str, key: str) -> None:
        super().__init__(store, key, "no such object")


class PreconditionFailed(StoreError):
    """Somebody else has written the object meanwhile; read it again, then decide again."""

    def __init__(self, store: str, key: str) -> None:
        super().__init__(store, key, "the object's condition was not met")


class PutUnknown(StoreError):
    """A put was sent and its fate is not known; look what is stored before you write again."""

    def __init__(self, store: str, key: str, cause: str) -> None:
        super().__init__(store, key, f"a put may or may not have been applied: {cause}")


class StoreUnavailable(StoreError):
    """The store does not answer or asks for patience, and nothing was applied; try again later."""

    def __init__(self, store: str, key: str, cause: str) -> None:
        super().__init__(store, key, f"unavailable for now: {cause}")


class StoreDenied(StoreError):
    """The store refuses these credentials; check that they are there, right and not expired."""

    def __init__(self, store: str, key: str, cause: str) -> None:
        super().__init__(store, key, f"access denied, check the credentials: {cause}")


class StoreRefused(StoreError):
    """Asking again gets the same answer: the store does not take this object."""

    def __init__(self, store: str, key: str, cause: str) -> None:
        super().__init__(store, key, f"the request was refused: {cause}")


class StoreMissing(StoreError):
    """The bucket, container or database does not exist; create it."""

    def __init__(self, store: str, cause: str) -> None:
        super().__init__(
            store, "", f"the bucket, container or database does not exist, create it: {cause}"
        )


class StoreFull(StoreError):
    """The store has no space left; free some and try again, nothing was lost."""

    def __init__(self, store: str, key: str, *, goes_on: bool = False) -> None:
        problem = "no space left; free some and retry, nothing was lost"
        if goes_on:
            problem += "; only what adds is refused: what is there can be worked off and vacuumed"
        super().__init__(store, key, problem)
        self.goes_on = goes_on
        """Whether everything else can still be done."""


class StoreUnfit(StoreError):
    """The store does not honour conditional writes; use one that does."""

    def __init__(self, store: str, problem: str) -> None:
        super().__init__(
            store, "", f"{problem}, so a queue on it would lose jobs; use a store that honours it"
        )
        self.problem = problem


class NoVersions(StoreError):
    """The bucket's versioning is off, and nobody said that it may; turn it on, or allow it."""

    def __init__(self, store: str) -> None:
        super().__init__(
            store,
            "",
            "the bucket keeps no old versions of objects, from which layout 'tasks' can tell the "
            "history of jobs that are gone; run `penstock init URL --versioning`, or go without: "
            "allow_no_versioning=on",
        )


class FormatError(PenstockError):
    """Stored bytes that can't be used; `key` says which object."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(f"{key}: {message}")
        self.key = key


class Corrupt(FormatError):
    """Stored bytes are truncated, altered or not penstock's; restore them or run doctor."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(key, f"{problem}; nothing was changed. Restore the object or run doctor")
        self.problem = problem


class NewerFormat(FormatError):
    """Stored bytes were written by a later penstock; upgrade this one."""

    def __init__(self, key: str, level: int, known: int) -> None:
        super().__init__(
            key,
            f"written at format level {level}, this penstock knows {known}; upgrade penstock",
        )
        self.level = level
        self.known = known
