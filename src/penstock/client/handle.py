"""What every part of a queue's client stands on: its backend, its tenant, its beginning and end."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Any, Final, Self, TypeVar, Unpack

from penstock.client.arguments import check_count, name_hint
from penstock.client.calls import Finish
from penstock.client.envelopes import Envelopes
from penstock.client.newjob import check_name
from penstock.errors import InvalidJob, OutcomeUnknown, QueueClosed
from penstock.kernel import commands
from penstock.kernel.events import SYSTEM_TENANT
from penstock.kernel.job import DEFAULT_TENANT
from penstock.kernel.settings import Settings, SettingsChanges
from penstock.ports.backend import Announcing, Backend, CancelledListener, Capabilities
from penstock.runtime.services import Services
from penstock.wire.codecs import Codecs

INLINE_BYTES_MAX: Final = 256 * 1024

Value = TypeVar("Value")


class Handle:
    """A backend as one tenant holds it."""

    def __init__(
        self,
        backend: Backend,
        *,
        tenant: str = DEFAULT_TENANT,
        services: Services | None = None,
        codecs: Codecs | None = None,
        inline_bytes_max: int = INLINE_BYTES_MAX,
        offload: bool = False,
        settings: dict[str, Any] | None = None,
        finish: Finish | None = None,
    ) -> None:
        self.tenant = check_name("tenant", tenant)
        self._backend = backend
        self._services = services or Services()
        self._envelopes = Envelopes(
            backend,
            codecs or Codecs(),
            inline_bytes_max=inline_bytes_max,
            offload=offload,
        )
        self._settings = settings or {}
        self._finish = finish

    def __repr__(self) -> str:
        try:
            backend = self._backend.capabilities.backend
        except QueueClosed:
            backend = "not open"
        return f"<{type(self).__name__} {backend} tenant {self.tenant!r}>"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """Opens the store, makes the queue if it is new, loads what is there.

        Once closed, a handle stays so: `QueueClosed`.
        """
        await self._backend.start()
        if self._settings:
            try:
                await self.configure(**self._settings)
            except BaseException:
                await self._backend.stop()
                raise

    async def close(self) -> None:
        """Finishes what was accepted. Leases that are still held run out by themselves."""
        await self._backend.stop()

    @property
    def capabilities(self) -> Capabilities:
        return self._backend.capabilities

    @property
    def settings(self) -> Settings:
        return self._backend.settings

    async def configure(self, **changes: Unpack[SettingsChanges]) -> Settings:
        """Changes settings of the whole queue, for everybody who uses it.

        `changes` are fields of `Settings`, such as `result_ttl_seconds=60`.
        """
        said: dict[str, Any] = {**changes}
        unknown = set(said) - set(Settings.__struct_fields__)
        if unknown:
            name = min(unknown)
            hint = name_hint(name, Settings.__struct_fields__)
            raise InvalidJob(name, said[name], f"no such setting{hint}")
        return await self._backend.execute(commands.Configure(SYSTEM_TENANT, said))

    def watch_cancelled(self, tell: CancelledListener) -> AbstractContextManager[None]:
        """While entered, `tell` hears what is cancelled as soon as this process knows of it.

        Of what others cancel it hears at once while `following`, and at any heartbeat.
        """
        backend = self._backend
        if isinstance(backend, Announcing):
            return backend.watch_cancelled(self.tenant, tell)
        return nullcontext()

    def following(self) -> AbstractContextManager[None]:
        """While entered, others' commits are taken in as they happen, where the store pushes.

        Where it does not this does nothing: nothing is polled for it.
        """
        backend = self._backend
        if backend.capabilities.push and isinstance(backend, Announcing):
            return backend.following()
        return nullcontext()

    async def _settle(self, command: commands.Command[Value], items: Sequence[object]) -> Any:
        """An empty list does nothing, not even a look at the store."""
        if not items:
            return []
        check_count(command.__class__.__name__, len(items))
        try:
            return await self._backend.execute(command)
        except OutcomeUnknown as error:
            raise self._unknown(command, error) from error

    def _unknown(
        self,
        command: commands.Command[Any],
        error: OutcomeUnknown,
        operation: str | None = None,
    ) -> OutcomeUnknown:
        """Whoever is not told what became of it is told what it was, and how to ask again."""
        tag = command.__struct_config__.tag
        assert isinstance(tag, str)
        ids = error.ids
        if not ids and isinstance(command, commands.Enqueue):
            ids = tuple(job.id for job in command.jobs)
        return OutcomeUnknown(tag, operation or error.operation, ids)
