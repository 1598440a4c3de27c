"""What every part of a queue's client stands on: its backend, its tenant, its beginning and end."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from penstock.client.arguments import check_count
from penstock.client.envelopes import Envelopes
from penstock.client.newjob import check_name
from penstock.errors import InvalidJob
from penstock.kernel import commands
from penstock.kernel.events import SYSTEM_TENANT
from penstock.kernel.job import DEFAULT_TENANT
from penstock.kernel.settings import Settings
from penstock.ports.backend import Backend, Capabilities
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
        settings: dict[str, float] | None = None,
    ) -> None:
        check_name("tenant", tenant)
        self.tenant = tenant
        self._backend = backend
        self._services = services or Services()
        self._envelopes = Envelopes(
            backend,
            codecs or Codecs(),
            inline_bytes_max=inline_bytes_max,
            offload=offload,
        )
        self._settings = settings or {}

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} {self._backend.capabilities.backend} tenant {self.tenant!r}>"
        )

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
        """Opens the store, makes the queue if it is new, loads what is there."""
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

    async def configure(self, **changes: float) -> Settings:
        """Changes settings of the whole queue, for everybody who uses it."""
        unknown = set(changes) - set(Settings.__struct_fields__)
        if unknown:
            raise InvalidJob(min(unknown), changes[min(unknown)], "no such setting")
        return await self._backend.execute(commands.Configure(SYSTEM_TENANT, changes))

    async def _settle(self, command: commands.Command[Value], items: Sequence[object]) -> Any:
        """An empty list does nothing, not even a look at the store."""
        check_count(command.__class__.__name__.lower(), len(items))
        return await self._backend.execute(command) if items else []
