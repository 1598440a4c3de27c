"""From an address to a queue: the only place that names concrete engines and stores."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, TypeAlias, Unpack, cast

from penstock.address import (
    RECORD_SCHEMES,
    Address,
    Options,
    QueueOptions,
    parse,
)
from penstock.client.blocking import BlockingQueue
from penstock.client.calls import Finish
from penstock.client.import_writer import ImportWriter
from penstock.client.queue import Queue
from penstock.engines.discovered import DiscoveredEngine
from penstock.engines.ledger.engine import LedgerEngine
from penstock.engines.ledger.imports.objects import ImportObjects
from penstock.engines.ledger.journal import Journal, Listener, nothing_to_close
from penstock.engines.ledger.layouts import open_found
from penstock.engines.ledger.marker import ensure_marker
from penstock.engines.ledger.memory import MemoryJournal, SharedMemory
from penstock.engines.records.engine import RecordsEngine
from penstock.errors import InvalidInput, NoVersions, Unsupported
from penstock.ports.backend import Backend
from penstock.ports.records import RecordStore
from penstock.ports.store import Bucket, ObjectStore
from penstock.ready_made import keeps_records, kind_of, library_of
from penstock.runtime.services import Services
from penstock.server_url import POSTGRES_SCHEMES, REDIS_SCHEMES
from penstock.stores.layers.retrying import Retrying
from penstock.stores.memory import MemoryStore
from penstock.wire.codecs import Codec, Codecs

CloseStore: TypeAlias = Callable[[], Awaitable[None]]

# `memory://name` is shared by everything in the process that says the same name.
_shared_memories: Final[dict[str, SharedMemory]] = {}
# A fork is another process, and may have been made while one of them was being changed.
os.register_at_fork(after_in_child=_shared_memories.clear)


class OpenOptions(QueueOptions, total=False):
    """What `open` takes besides the URL, for type checkers."""

    store: Any
    codecs: Iterable[Codec]
    services: Services | None
    layer: Callable[[ObjectStore], ObjectStore] | None


def open(
    url: str | None = None,
    *,
    store: Any = None,
    codecs: Iterable[Codec] = (),
    services: Services | None = None,
    layer: Callable[[ObjectStore], ObjectStore] | None = None,
    memory: SharedMemory | None = None,
    finish: Finish | None = None,
    **options: Unpack[QueueOptions],
) -> Queue:
    """A queue, to be used with `async with`. See the guide for the URLs and options.

    Without a URL, `PENSTOCK_URL` is used. `store` takes any store of your own instead, of objects
    or of records, or a ready-made client, which is never closed: obstore's; one of redis-py or
    psycopg, blocking or not, or a pool of theirs; boto3's session or client, where the URL says
    the bucket: `open("s3://bucket/prefix", store=session)`. `layer` is put around a store of
    objects, such as one that counts.

    `url` says where and how, `options` are the same as in its query; `codecs` are your own, beside
    JSON and msgpack; `services` (clock, luck) are for tests; `memory`, from `new_memory`, is what
    handles on `memory://` share; `finish`, the test kit's, runs what `call` waits for.
    """
    services = services or Services()
    address = parse(_place(url, store, "open"), options, kind_of(store))
    said = address.options
    return Queue(
        _backend(address, store, services, layer or _bare, memory),
        tenant=said.tenant,
        services=services,
        codecs=Codecs(codecs),
        inline_bytes_max=said.payload_bytes_max,
        offload=said.offload,
        settings=address.settings,
        finish=finish,
    )


def open_sync(url: str | None = None, **options: Unpack[OpenOptions]) -> BlockingQueue:
    """The blocking twin of `open`, to be used with `with`.

    `url` and `options` are those of `open`.
    """
    return BlockingQueue(lambda: open(url, **options))


def import_writer(
    url: str | None = None,
    run: str = "",
    *,
    store: Any = None,
    services: Services | None = None,
    **options: Unpack[QueueOptions],
) -> ImportWriter:
    """Writes rows of a bulk import into the queue's store without opening the queue.

    To be used with `with`, by code that has no event loop. URL, store and options as of `open`.

    `url`, `store`, `services` and `options` are those of `open`; `run` names the import.
    """
    services = services or Services()
    address = parse(_place(url, store, "import_writer"), options, kind_of(store))
    if address.scheme in RECORD_SCHEMES:
        raise Unsupported("bulk imports", f"{address.scheme}://")
    if keeps_records(store):
        raise Unsupported("bulk imports", type(store).__name__)
    if store is not None:
        _check_fit(address, store)
        made = _adapted(store, address)
        close = _closing(made, store)
    elif address.scheme == "memory":
        made, close = _memory(address.place).side, nothing_to_close
    else:
        made = open_store(address)
        close = made.close
    said = address.options
    return ImportWriter(
        run,
        ImportObjects(_patient(made, services), services).keep,
        close,
        tenant=said.tenant,
        inline_bytes_max=said.payload_bytes_max,
    )


def open_store(address: Address) -> ObjectStore:
    """The store that an address with one names."""
    options = address.options
    if address.scheme in RECORD_SCHEMES:
        raise Unsupported("keeping objects", f"{address.scheme}://")
    if address.scheme == "file":
        from penstock.stores.local import local_store

        return local_store(address.path, fsync=options.fsync)
    from penstock.stores import cloud

    endpoint = options.endpoint
    if address.scheme == "s3":
        return cloud.s3_store(address.place, address.path, region=options.region, endpoint=endpoint)
    if address.scheme == "gs":
        return cloud.gcs_store(address.place, address.path, endpoint=endpoint)
    return cloud.azure_store(address.place, address.path, endpoint=endpoint)


def open_patient_store(address: Address, services: Services) -> ObjectStore:
    """The same, but it waits out throttling and network trouble."""
    return _patient(open_store(address), services)


def open_records(address: Address, services: Services) -> RecordStore:
    """The record store that an address with one names."""
    options = address.options
    if address.scheme in REDIS_SCHEMES:
        return _redis(address.server_url.rstrip("?"), options, services)
    if address.scheme in POSTGRES_SCHEMES:
        return _postgres(address.server_url, options, services)
    from penstock.engines.records.sqlite.store import SqliteStore

    return SqliteStore(address.path, services, fsync=options.fsync)


def open_backend(address: Address, services: Services | None = None) -> Backend:
    """What a queue asks, for those who ask about all tenants at once; to be started and stopped."""
    return _backend(address, None, services or Services(), _bare)


def _redis(server: Any, options: Options, services: Services) -> RecordStore:
    from penstock.engines.records.redis.store import RedisStore

    return RedisStore(server, options.prefix, services)


def _postgres(server: Any, options: Options, services: Services) -> RecordStore:
    from penstock.engines.records.postgres.store import PostgresStore

    return PostgresStore(server, services, schema=options.schema, fsync=options.fsync)


def _backend(
    address: Address,
    store: Any,
    services: Services,
    layer: Callable[[ObjectStore], ObjectStore],
    memory: SharedMemory | None = None,
) -> Backend:
    options = address.options
    if store is not None:
        _check_fit(address, store)
    records = _records(address, store, services)
    if records is not None:
        if layer is not _bare:
            raise InvalidInput("a layer goes around a store of objects, not of records")
        return RecordsEngine(
            records,
            services,
            group_commit=options.group_commit,
            outcome_seconds_max=options.outcome_seconds_max,
        )

    if store is None and address.scheme == "memory":
        shared = _memory(address.place) if memory is None or address.place else memory
        return _in_memory(shared, options, services)

    async def discover() -> Backend:
        if store is None:
            made = open_store(address)
        elif library_of(store) == "boto3":
            # A session may ask the machine for its role.
            made = await asyncio.to_thread(_adapted, store, address)
        else:
            made = _adapted(store, address)
        close = _closing(made, store)
        try:
            return await _discovered(made, layer, close, address, services)
        except BaseException:
            await close()
            raise

    return DiscoveredEngine(discover)


def _in_memory(shared: SharedMemory, options: Options, services: Services) -> Backend:
    async def open_memory(listener: Listener) -> Journal:
        journal = MemoryJournal(shared, services, listener)
        await journal.open()
        return journal

    return _ledger(open_memory, options, services)


async def _discovered(
    made: ObjectStore,
    layer: Callable[[ObjectStore], ObjectStore],
    close: CloseStore,
    address: Address,
    services: Services,
) -> Backend:
    """The engine for what is in a store, which is made a queue if it is none yet."""
    options = address.options
    store = _patient(layer(made), services)
    layout = await ensure_marker(store, options.layout, services)
    if layout == "tasks":
        versions = isinstance(made, Bucket) and await _keeps_versions(made, store, options)
        return _tasks(store, close, options, services, versions=versions)
    if unused := address.said & {"index", "shards"}:
        raise InvalidInput(
            f"{', '.join(sorted(unused))}: only layout tasks has that, and {store.name} is a queue "
            f"of layout {layout}"
        )

    async def open_journal(listener: Listener) -> Journal:
        try:
            journal = await open_found(store, layout, services, listener)
        except BaseException:
            await close()
            raise
        journal.on_close = close
        return journal

    return _ledger(open_journal, options, services)


async def _keeps_versions(bucket: Bucket, store: ObjectStore, options: Options) -> bool:
    if options.allow_no_versioning:
        # Nobody minds, so nobody needs the right, nor boto3, to ask.
        return False
    if not await bucket.keeps_versions():
        raise NoVersions(store.name)
    return True


def _ledger(
    open_journal: Callable[[Listener], Awaitable[Journal]], options: Options, services: Services
) -> Backend:
    return LedgerEngine(
        open_journal,
        services,
        group_commit=options.group_commit,
        outcome_seconds_max=options.outcome_seconds_max,
    )


def _tasks(
    store: ObjectStore,
    close: CloseStore,
    options: Options,
    services: Services,
    *,
    versions: bool,
) -> Backend:
    from penstock.engines.records.tasks.engine import TasksEngine
    from penstock.engines.records.tasks.names import shards_in

    return TasksEngine(
        store,
        services,
        mode=options.index,
        shards=shards_in(options.shards),
        versions=versions,
        outcome_seconds_max=options.outcome_seconds_max,
        on_close=close,
    )


def _records(address: Address, store: Any, services: Services) -> RecordStore | None:
    """The store of records, where it is one that was given or named."""
    if store is None:
        named = address.scheme in RECORD_SCHEMES
        return open_records(address, services) if named else None
    library = library_of(store)
    if library == "redis":
        return _redis(store, address.options, services)
    if library == "psycopg":
        return _postgres(store, address.options, services)
    return cast("RecordStore", store) if keeps_records(store) else None


def _patient(store: ObjectStore, services: Services) -> ObjectStore:
    return Retrying(store, services.clock, luck=services.luck)


def _bare(store: ObjectStore) -> ObjectStore:
    return store


def new_memory() -> SharedMemory:
    return SharedMemory(MemoryStore())


def _memory(name: str) -> SharedMemory:
    if not name:
        return new_memory()
    return _shared_memories.setdefault(name, SharedMemory(MemoryStore(), name))


def _place(url: str | None, store: Any, caller: str) -> str | None:
    """The URL to go by, where a store of the caller's own may stand in its place."""
    if store is None or library_of(store) == "boto3":
        return url
    if url is not None:
        raise InvalidInput(f"{caller} takes a URL or a store, not both")
    return "memory://"


def _adapted(store: Any, address: Address) -> ObjectStore:
    """Any store that fits the port as it is; a client of a known library gets its adapter."""
    match library_of(store):
        case "obstore":
            from penstock.stores.cloud import cloud_store_of

            return cloud_store_of(store)
        case "boto3":
            from penstock.stores.cloud import s3_store_of

            said = address.options
            return s3_store_of(
                store, address.place, address.path, region=said.region, endpoint=said.endpoint
            )
        case _:
            return cast("ObjectStore", store)


def _closing(made: ObjectStore, store: Any) -> CloseStore:
    """The caller's own is to be closed by whoever made it; what we put around it is ours."""
    return nothing_to_close if made is store else made.close


def _check_fit(address: Address, store: Any) -> None:
    """What is said beside a client has to make sense for it."""
    library = library_of(store)
    if library == "boto3" and address.scheme != "s3":
        raise InvalidInput("with a session or client of boto3 say the bucket: s3://bucket/prefix")
