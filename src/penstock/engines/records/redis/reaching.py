"""From a URL or a ready-made client to connections of our own.

Whatever was given stays its owner's: of a client only where the server is, and who asks, is taken,
since it may be a blocking one, decode answers or repeat commands. The library is told to repeat
nothing, because only we know what may be repeated.

Behind Sentinels each new connection asks them who the master is. One that comes back broken says
that the master may have gone, so idle ones, which lead to the same, are given up with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from inspect import signature
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import unquote, urlsplit

from redis import ConnectionPool as BlockingPool
from redis import Redis as BlockingRedis
from redis import RedisCluster as BlockingCluster
from redis.asyncio import ConnectionPool, Redis, RedisCluster
from redis.asyncio import connection as connections
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import (
    Sentinel,
    SentinelConnectionPool,
    SentinelManagedConnection,
    SentinelManagedSSLConnection,
)
from redis.backoff import NoBackoff
from redis.sentinel import SentinelConnectionPool as BlockingSentinelPool

from penstock.errors import InvalidInput, InvalidURL
from penstock.errors.addresses import without_credentials

CONNECT_SECONDS_MAX: Final = 10.0
SENTINEL_SECONDS_MAX: Final = 2.0
"""How long one Sentinel may take to connect or answer before the next is asked."""
SENTINEL_PORT: Final = 26_379
TLS_FILES: Final = ("ssl_certfile", "ssl_keyfile", "ssl_ca_certs", "ssl_ca_path")

_OURS: Final[dict[str, Any]] = {
    "retry": Retry(NoBackoff(), 0),
    # Ours is around the whole call: theirs swallows a cancellation now and then (3.11).
    "socket_timeout": None,
    "protocol": 2,
    "socket_connect_timeout": CONNECT_SECONDS_MAX,
    "client_name": "penstock",
}
_SENTINELS: Final[dict[str, Any]] = {
    "retry": Retry(NoBackoff(), 0),
    "socket_timeout": SENTINEL_SECONDS_MAX,
    "socket_connect_timeout": SENTINEL_SECONDS_MAX,
    "protocol": 2,
    "client_name": "penstock",
}
_REACH: Final = ("host", "port", "db", "path", "username", "password", "credential_provider")
"""What of a client's own settings says where the server is and who asks."""
_TLS: Final = frozenset(signature(connections.SSLConnection.__init__).parameters)
"""What is checked of TLS; blocking clients can do more, which must not be left out unsaid."""
_WHERE: Final = ("host", "port", "db", "path")

AnyPool: TypeAlias = ConnectionPool | BlockingPool
AnyClient: TypeAlias = Redis | BlockingRedis | RedisCluster | BlockingCluster | AnyPool
Place: TypeAlias = tuple[str, int]


def reach(server: str | AnyClient) -> tuple[str, ConnectionPool]:
    """What messages call the server, and a pool of connections to it."""
    if not isinstance(server, str):
        return _reach_like(server)
    _require_files(server)
    if urlsplit(server).scheme.endswith("+sentinel"):
        return _reach_master(server)
    return _shown(server), ConnectionPool.from_url(server, **_OURS)


class _MasterPool(SentinelConnectionPool):
    """Connections to whoever is the master now."""

    def __init__(self, service: str, sentinels: Sentinel, reach: Mapping[str, Any]) -> None:
        super().__init__(service, sentinels, **reach, **_OURS)  # type: ignore[no-untyped-call]

    async def release(self, connection: AbstractConnection) -> None:
        is_broken = not connection.is_connected
        await super().release(connection)
        if is_broken:
            await self.disconnect(inuse_connections=False)

    async def aclose(self) -> None:
        await super().aclose()
        await self.sentinel_manager.aclose()


def _reach_master(url: str) -> tuple[str, ConnectionPool]:
    """From `redis+sentinel://user:password@host:port,host:port/service/0`."""
    parts = urlsplit(url)
    who, mark, places = parts.netloc.rpartition("@")
    service, _, database = parts.path.strip("/").partition("/")
    scheme = parts.scheme.removesuffix("+sentinel")
    said: dict[str, Any] = dict(
        connections.parse_url(f"{scheme}://{who}{mark}master/{database}?{parts.query}")
    )
    del said["host"]
    is_tls = said.pop("connection_class", None) is not None
    asking = {
        name: said.pop(f"sentinel_{name}")
        for name in ("username", "password")
        if f"sentinel_{name}" in said
    }
    asking |= {name: value for name, value in said.items() if name.startswith("ssl_")}
    found = [connections.parse_url(f"redis://{place}") for place in places.split(",")]
    sentinels = [(one["host"], one.get("port", SENTINEL_PORT)) for one in found]
    pool = _master_pool(unquote(service), sentinels, asking, said, is_tls=is_tls)
    return _shown(url), pool


def _master_pool(
    service: str,
    sentinels: Iterable[Place],
    asking: Mapping[str, Any],
    reach: Mapping[str, Any],
    *,
    is_tls: bool,
) -> ConnectionPool:
    """`asking` says who asks the Sentinels, `reach` who asks the master."""
    tls = {"ssl": True} if is_tls else {}
    manager = Sentinel(  # type: ignore[no-untyped-call]  # the library's
        list(sentinels), sentinel_kwargs={**asking, **tls, **_SENTINELS}
    )
    kind = SentinelManagedSSLConnection if is_tls else SentinelManagedConnection
    return _MasterPool(service, manager, {**reach, "connection_class": kind})


def _reach_like(client: AnyClient) -> tuple[str, ConnectionPool]:
    if isinstance(client, RedisCluster | BlockingCluster):
        return _reach_node(client)
    theirs = client if isinstance(client, AnyPool) else client.connection_pool
    said = theirs.connection_kwargs
    kind = _kind(theirs.connection_class)
    is_tls = issubclass(kind, connections.SSLConnection)
    if isinstance(theirs, SentinelConnectionPool | BlockingSentinelPool):
        return _reach_master_of(theirs, is_tls=is_tls)
    return _name(said, is_tls=is_tls), ConnectionPool(
        connection_class=kind, **_reach_in(said), **_OURS
    )


def _reach_master_of(
    theirs: SentinelConnectionPool | BlockingSentinelPool, *, is_tls: bool
) -> tuple[str, ConnectionPool]:
    asked = [one.connection_pool.connection_kwargs for one in theirs.sentinel_manager.sentinels]
    places = [(one["host"], one["port"]) for one in asked]
    asking = {name: value for name, value in _reach_in(asked[0]).items() if name not in _WHERE}
    said = theirs.connection_kwargs
    pool = _master_pool(theirs.service_name, places, asking, _reach_in(said), is_tls=is_tls)
    listed = ",".join(f"{host}:{port}" for host, port in places)
    scheme = "rediss" if is_tls else "redis"
    name = f"{scheme}+sentinel://{listed}/{theirs.service_name}/{said.get('db', 0)}"
    return name, pool


def _reach_node(client: RedisCluster | BlockingCluster) -> tuple[str, ConnectionPool]:
    """A cluster's client: of the nodes that it knows one is asked, and says who has the queue."""
    manager = client.nodes_manager
    nodes = [*manager.nodes_cache.values(), *manager.startup_nodes.values()]
    if not nodes:
        raise InvalidInput("the client of a cluster knows no node: give it one to begin with")
    said = {**client.get_connection_kwargs(), "host": nodes[0].host, "port": nodes[0].port}
    is_tls = bool(said.get("ssl")) or _is_of_tls(said.get("connection_class"))
    kind = connections.SSLConnection if is_tls else connections.Connection
    return _name(said, is_tls=is_tls), ConnectionPool(
        connection_class=kind, **_reach_in(said), **_OURS
    )


def _reach_in(said: Mapping[str, Any]) -> dict[str, Any]:
    reach = {name: value for name, value in said.items() if name in _REACH}
    for name, value in said.items():
        if name in _TLS or name.startswith("socket_keepalive"):
            reach[name] = value
        elif name.startswith("ssl_") and value:
            raise InvalidInput(f"{name}: this is not done here, so pass a client that goes without")
    return reach


def _kind(theirs: type) -> type[AbstractConnection]:
    """The async class of a connection that goes the way of theirs."""
    if theirs.__module__.partition(".")[0] != "redis":
        # It may go through a tunnel, or to no server at all; ours would go elsewhere, unsaid.
        raise InvalidInput(
            f"connections of {theirs.__module__}.{theirs.__qualname__}: only those of redis-py"
            " itself are known here, so pass a client or URL with these"
        )
    if any(kind.__name__ == "UnixDomainSocketConnection" for kind in theirs.__mro__):
        return connections.UnixDomainSocketConnection
    return connections.SSLConnection if _is_of_tls(theirs) else connections.Connection


def _is_of_tls(theirs: type | None) -> bool:
    return theirs is not None and any(kind.__name__ == "SSLConnection" for kind in theirs.__mro__)


def _shown(url: str) -> str:
    """For messages: its query is all about certificates."""
    return without_credentials(url).partition("?")[0]


def _name(said: Mapping[str, Any], *, is_tls: bool) -> str:
    if "path" in said:
        return f"unix://{said['path']}/{said.get('db', 0)}"
    scheme = "rediss" if is_tls else "redis"
    place = f"{said.get('host', 'localhost')}:{said.get('port', 6379)}"
    return f"{scheme}://{place}/{said.get('db', 0)}"


def _require_files(url: str) -> None:
    """What is missing would look like a server that is away, and be waited for."""
    said: Mapping[str, Any] = connections.parse_url(f"redis://host?{urlsplit(url).query}")
    for name in TLS_FILES:
        if name in said and not Path(said[name]).exists():
            raise InvalidURL(url, f"{name}={said[name]}: there is no such file")
