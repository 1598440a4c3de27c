"""Talking to the server: connections, scripts, waiting out trouble, what errors mean.

Only we know what may be repeated, so the client library repeats nothing (reaching.py). Reads are,
for a while; a turn's write is until it was answered, since it is written once however often it
arrives. A server that says READONLY was a master before, so its connections are given up. In a
cluster a node that says MOVED tells who has the queue's slot, and a queue has one slot. All nodes
are remembered: when the one that has it is gone, the next one is asked, until one of them knows who
has it now.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
from collections.abc import Awaitable, Callable, Iterator, Sequence
from math import inf
from typing import Any, Final, TypeVar

from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.client import PubSub
from redis.exceptions import (
    AskError,
    AuthenticationError,
    AuthorizationError,
    BusyLoadingError,
    ClusterDownError,
    MovedError,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as ConnectionLost
from redis.exceptions import TimeoutError as NoAnswer

from penstock.engines.records.redis.reaching import AnyClient, reach
from penstock.engines.records.redis.scripts import Room, script
from penstock.errors import PenstockError, StoreDenied, StoreError, StoreFull, StoreUnavailable
from penstock.runtime.services import Services

Answer = TypeVar("Answer")

PATIENCE_SECONDS: Final = 30.0
"""How long trouble is waited out before a read is given up, or a write that was refused."""
ANSWER_SECONDS_MAX: Final = 30.0
CLOSE_SECONDS_MAX: Final = 5.0
SCANNED_NAMES: Final = 1_000
"""How many names the server looks at before it answers others."""
_RETRY_SECONDS: Final = 0.02
_RETRY_SECONDS_MAX: Final = 1.0
_DENIED: Final = (AuthenticationError, AuthorizationError, NoPermissionError)
_SAID_DENIED: Final = {"NOAUTH", "NOPERM", "WRONGPASS"}
_DENIED_WITHIN: Final = re.compile("user executing the script can't|ACL failure in script")
"""What servers say within a script, in place of a code."""
_FOR_NOW: Final = (
    AskError, ClusterDownError, ConnectionLost, NoAnswer, OSError, ReadOnlyError, TryAgainError
)  # fmt: skip
_SAID_FOR_NOW: Final = {"BUSY", "LOADING", "MISCONF", "NOREPLICAS", "READONLY", "UNKILLABLE"}
_SCRIPTED: Final = ("EVALSHA", "EVAL")
"""To these it is said last which process of the server they go to: see prelude.lua."""
_CODE: Final = re.compile(r"(?:^|-)([A-Z]{3,})\b")
"""Of what the server refused; within a script, it stands after a dash."""


def facts_in(info: bytes) -> dict[str, str]:
    """What the server says of itself, line by line."""
    pairs = (line.partition(":") for line in info.decode().splitlines())
    return {name: value for name, mark, value in pairs if mark}


class Connection:
    def __init__(self, server: str | AnyClient, root: str, services: Services) -> None:
        self._root = root
        self._services = services
        self.name, self._pool = reach(server)
        self._pool.connection_kwargs["redis_connect_func"] = self._introduce
        self._nodes = [_place(self._pool)]
        """Where to ask for the queue: what was given first, then all nodes of a cluster."""
        self.works_when_full = False
        """Whether the server can be told of each script if it may go on without memory."""
        self._is_closing = False
        self._calls = 0
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    async def close(self) -> None:
        """Lets calls that are under way end first."""
        self._is_closing = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS_MAX):
                await self._is_idle.wait()
        await self._pool.aclose()

    @property
    def place(self) -> object:
        """Another one if the queue is found elsewhere."""
        return self._pool

    def pubsub(self) -> PubSub:
        return Redis(connection_pool=self._pool).pubsub()

    async def ask(self, *command: str | bytes | int) -> Any:
        """One command that may be repeated."""
        return await self._patiently(lambda: self.ask_once(*command), PATIENCE_SECONDS)

    async def run(self, name: str, *arguments: str | bytes | int) -> Any:
        """One script that may be repeated."""
        return await self._patiently(lambda: self.run_once(name, *arguments), PATIENCE_SECONDS)

    async def run_until_answered(self, name: str, *arguments: str | bytes | int, adds: bool) -> Any:
        """One script whose outcome has to be known; one that adds is refused by a full server."""
        return await self._patiently(lambda: self.run_once(name, *arguments, adds=adds), inf)

    async def delete_all(self) -> None:
        """Everything whose name begins with the queue's root."""
        cursor: bytes | int = 0
        while True:
            cursor, names = await self.ask(
                "SCAN", cursor, "MATCH", f"{self._root}*", "COUNT", SCANNED_NAMES
            )
            if names:
                await self.ask("UNLINK", *names)
            if int(cursor) == 0:
                return

    async def ask_once(self, *command: str | bytes | int) -> Any:
        with self._calling() as pool:
            try:
                return await self._execute(*command)
            except (RedisError, OSError) as error:
                await self.follow(error, pool)
                raise self.translate(error) from error

    async def run_once(self, name: str, *arguments: str | bytes | int, adds: bool = False) -> Any:
        room = Room.ADDS if adds else Room.SPARES
        one = script(name, room if self.works_when_full else Room.UNSAID)
        with self._calling() as pool:
            try:
                try:
                    return await self._execute("EVALSHA", one.digest, 1, self._root, *arguments)
                except NoScriptError:
                    # A server that was restarted, or has just become master, has none.
                    return await self._execute("EVAL", one.text, 1, self._root, *arguments)
            except (RedisError, OSError) as error:
                await self.follow(error, pool)
                raise self.translate(error) from error

    async def greet(self) -> None:
        """Refuses a server that is not there; one that has still to read its data is awaited."""
        backoff = self._services.backoff(_RETRY_SECONDS, _RETRY_SECONDS_MAX)
        while True:
            try:
                await self._execute("PING")
                return
            except BusyLoadingError:
                await self._services.clock.sleep(backoff.next_seconds())
            except (RedisError, OSError) as error:
                raise self.translate(error) from error

    def translate(self, error: RedisError | OSError) -> PenstockError:
        text, said = str(error), _codes(error)
        if isinstance(error, _DENIED) or said & _SAID_DENIED or _DENIED_WITHIN.search(text):
            return StoreDenied(self.name, "", text)
        if isinstance(error, OutOfMemoryError) or "OOM" in said:
            return StoreFull(self.name, "", goes_on=self.works_when_full)
        if _is_of_tls(error):
            return StoreError(self.name, "", f"no TLS connection: {text}")
        if isinstance(error, _FOR_NOW) or said & _SAID_FOR_NOW:
            if isinstance(error, NoAnswer) and self.name.startswith("rediss"):
                text += "; does it speak TLS at this port?"
            return StoreUnavailable(self.name, "", text)
        return StoreError(self.name, "", text)

    @contextlib.contextmanager
    def _calling(self) -> Iterator[ConnectionPool]:
        if self._is_closing:
            raise StoreError(self.name, "", "it was closed")
        self._calls += 1
        self._is_idle.clear()
        try:
            yield self._pool
        finally:
            self._calls -= 1
            if self._calls == 0:
                self._is_idle.set()

    async def _execute(self, *command: str | bytes | int) -> Any:
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                pool = self._pool
                connection = await pool.get_connection()  # type: ignore[no-untyped-call]
                try:
                    if command[0] in _SCRIPTED:
                        command = (*command, connection.run)
                    await connection.send_packed_command([_packed(command)], check_health=False)
                    return await connection.read_response()
                finally:
                    await pool.release(connection)
        except TimeoutError:
            raise NoAnswer(f"no answer in {ANSWER_SECONDS_MAX:g} s") from None

    async def _introduce(self, connection: Any) -> None:
        """Asks a server that was just connected to which process of it this is (`run`), and, if it
        is a node of a cluster, for the others."""
        await connection.on_connect()
        await connection.send_command("INFO", "server")
        facts = facts_in(await connection.read_response())
        connection.run = facts.get("run_id", "")
        if facts.get("redis_mode") == "cluster":
            await connection.send_command("CLUSTER", "SLOTS")
            # Who may not ask that knows those who were named by MOVED.
            with contextlib.suppress(NoPermissionError):
                self._note_nodes(await connection.read_response(), connection.host)

    def _note_nodes(self, slots: Sequence[Any], asked: str) -> None:
        for _, _, *nodes in slots:
            for host, port, *_ in nodes:
                # A node that does not know its own name is the one that was asked.
                node = ((host or b"").decode() or asked, port)
                if node not in self._nodes:
                    self._nodes.append(node)

    async def follow(self, error: RedisError | OSError, place: object) -> None:
        """Where the queue is now, as far as the server has said; or whom to ask, if it is gone.

        `place` is where it was when the call that failed began: others may have followed already.
        """
        pool = self._pool
        if place is not pool:
            return
        if isinstance(error, MovedError):
            await self._go_to((error.host or _place(pool)[0], error.port))
        elif "READONLY" in _codes(error) or isinstance(error, ReadOnlyError):
            await pool.disconnect()
        elif isinstance(error, ConnectionLost | NoAnswer | OSError) and len(self._nodes) > 1:
            node = _place(pool)
            at = self._nodes.index(node) if node in self._nodes else -1
            await self._go_to(self._nodes[(at + 1) % len(self._nodes)])

    async def _go_to(self, node: tuple[str, int]) -> None:
        before = self._pool
        if node not in self._nodes:
            self._nodes.append(node)
        place = {**before.connection_kwargs, "host": node[0], "port": node[1]}
        self._pool = ConnectionPool(connection_class=before.connection_class, **place)
        # Calls that are under way may still be answered there.
        await before.disconnect(inuse_connections=False)

    async def _patiently(self, act: Callable[[], Awaitable[Answer]], seconds_max: float) -> Answer:
        """What the server has refused each time was certainly not done, so it can be given up."""
        clock = self._services.clock
        backoff = self._services.backoff(_RETRY_SECONDS, _RETRY_SECONDS_MAX)
        began_at, is_refused = clock.elapsed(), True
        while True:
            try:
                return await act()
            except StoreUnavailable as error:
                is_refused = is_refused and isinstance(error.__cause__, ResponseError)
                most = PATIENCE_SECONDS if is_refused else seconds_max
                seconds = backoff.next_seconds()
                if self._is_closing or clock.elapsed() + seconds > began_at + most:
                    raise
            await clock.sleep(seconds)


def _place(pool: ConnectionPool) -> tuple[str, int]:
    said = pool.connection_kwargs
    return said.get("host", "localhost"), int(said.get("port", 6379))


def _codes(error: BaseException) -> set[str]:
    return set(_CODE.findall(str(error))) if isinstance(error, ResponseError) else set()


def _packed(command: Sequence[str | bytes | int]) -> bytes:
    """A command as it goes over the wire; the client's own way takes three times as long."""
    words = [word if isinstance(word, bytes) else str(word).encode() for word in command]
    sent = [b"*%d\r\n" % len(words)]
    sent += [b"$%d\r\n%b\r\n" % (len(word), word) for word in words]
    return b"".join(sent)


def _is_of_tls(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return True
        error = error.__cause__ or error.__context__
    return False
