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
    def __init__(self, store: str, key: str) -> None:
        super().__init__(store, key, "no such object")


class PreconditionFailed(StoreError):
    def __init__(self, store: str, key: str) -> None:
        super().__init__(store, key, "the object's condition was not met")


class PutUnknown(StoreError):
    def __init__(self, store: str, key: str, cause: str) -> None:
        super().__init__(store, key, f"a put may or may not have been applied: {cause}")


class StoreUnavailable(StoreError):
    def __init__(self, store: str, key: str, cause: str) -> None:
        super().__init__(store, key, f"unavailable for now: {cause}")


class StoreDenied(StoreError):
    def __init__(self, store: str, key: str, cause: str) -> None:
        super().__init__(store, key, f"access denied, check the credentials: {cause}")


class StoreMissing(StoreError):
    def __init__(self, store: str, cause: str) -> None:
        super().__init__(
            store, "", f"the bucket, container or database does not exist, create it: {cause}"
        )


class StoreFull(StoreError):
    def __init__(self, store: str, key: str) -> None:
        super().__init__(store, key, "no space left; free some and retry, nothing was lost")


class StoreUnfit(StoreError):
    def __init__(self, store: str, problem: str) -> None:
        super().__init__(
            store, "", f"{problem}, so a queue on it would lose jobs; use a store that honours it"
        )
        self.problem = problem


class NoVersions(StoreError):
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
    def __init__(self, key: str, problem: str) -> None:
        super().__init__(key, f"{problem}; nothing was changed. Restore the object or run doctor")
        self.problem = problem


class NewerFormat(FormatError):
    def __init__(self, key: str, level: int, known: int) -> None:
        super().__init__(
            key,
            f"written at format level {level}, this penstock knows {known}; upgrade penstock",
        )
        self.level = level
        self.known = known
