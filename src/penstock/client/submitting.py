"""Handing jobs in: encoded, kept beside the queue where they are large, and sent as one command."""

from __future__ import annotations

from typing import Any

from penstock.client.handle import Handle
from penstock.client.newjob import NewJob, submission
from penstock.errors import OutcomeUnknown, StoreRefused, Unsupported
from penstock.kernel import commands
from penstock.kernel.commands import Outcome, Receipt, Submission
from penstock.kernel.job import ABSENT, DEFAULT_CODEC
from penstock.ports.backend import Transactional
from penstock.wire.codecs import PAYLOAD


class Submitting(Handle):
    async def _submit_each(
        self,
        jobs: list[NewJob],
        names: list[tuple[str, str | None]],
        operation: str,
        connection: Any,
    ) -> list[Outcome[Receipt]]:
        """One outcome each: what the store refuses to keep beside the queue fails alone."""
        items: list[Submission] = []
        refused: dict[int, StoreRefused] = {}
        for index, (new, (id, own)) in enumerate(zip(jobs, names, strict=True)):
            try:
                item = self._prepared(new, id, own) or await self._offloaded(new, id, own)
                items.append(item)
            except StoreRefused as error:
                refused[index] = error
        outcomes = await self._submit(items, operation, connection) if items else []
        for index, refusal in refused.items():
            outcomes.insert(index, refusal)
        return outcomes

    async def _submit(
        self, prepared: list[Submission], operation: str, connection: Any
    ) -> list[Outcome[Receipt]]:
        command = commands.Enqueue(self.tenant, prepared)
        try:
            # In this order: asking whether it fits a protocol takes longer than the whole enqueue.
            if connection is not None and isinstance(self._backend, Transactional):
                outcomes = await self._backend.execute_within(connection, command)
            else:
                outcomes = await self._backend.execute(command)
        except OutcomeUnknown as error:
            raise self._unknown(command, error, operation) from error
        for place, outcome in enumerate(outcomes):
            if isinstance(outcome, OutcomeUnknown):
                outcomes[place] = self._unknown(command, outcome, operation)
        return outcomes

    def _require_transactions(self) -> None:
        if not isinstance(self._backend, Transactional):
            raise Unsupported("enqueuing in your transaction", self.capabilities.backend)

    def _prepared(self, new: NewJob, id: str, operation: str | None) -> Submission | None:
        """The job in the form that the kernel takes; None if it is too large to go inline."""
        sealed = self._envelopes.seal(PAYLOAD, new.payload, new.codec)
        return None if sealed is None else submission(new, id, *sealed, None, operation)

    async def _offloaded(self, new: NewJob, id: str, operation: str | None) -> Submission:
        # Checked before anything large is stored.
        submission(new, id, ABSENT, DEFAULT_CODEC, None)
        codec, key = await self._envelopes.keep(id, new.payload, new.codec)
        return submission(new, id, ABSENT, codec, key, operation)
