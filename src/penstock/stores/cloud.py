"""S3, Google Cloud Storage and Azure Blob Storage: one adapter, over obstore.

This module and no other imports obstore, so a program without a cloud store never loads it. Its
own retries are off: after a lost answer they would report one's own put as somebody else's.
`layers.retrying` repeats what is safe to repeat.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar, assert_never
from urllib.parse import urlsplit

from penstock.errors import (
    Forked,
    InvalidInput,
    InvalidURL,
    MissingExtra,
    ObjectNotFound,
    StoreUnfit,
)
from penstock.ports.store import Create, Entry, Overwrite, PutMode, Replace, StoredObject, Written
from penstock.runtime.exit import settle_at_exit
from penstock.stores.cloud_errors import translate
from penstock.stores.keys import check_key, check_prefix

try:
    from obstore.exceptions import BaseError
    from obstore.store import AzureStore, GCSStore, MemoryStore, S3Store
except ImportError as error:
    raise MissingExtra("all", "a queue on S3, GCS or Azure") from error

if TYPE_CHECKING:
    from obstore import ObjectMeta, PutResult
    from obstore import PutMode as VendorPutMode
    from obstore.store import ClientConfig, ObjectStore

CONNECT_TIMEOUT = "5s"
REQUEST_TIMEOUT = "20s"
LIST_PAGE_KEYS = 1000

Client = TypeVar("Client", bound="ObjectStore")

# What obstore raises: its own errors, and two that Python has already.
VENDOR_ERRORS = (BaseError, FileNotFoundError, ValueError)


_SCHEMES: Final[dict[type[S3Store | GCSStore | AzureStore], str]] = {
    S3Store: "s3",
    GCSStore: "gs",
    AzureStore: "az",
}

_used_in: list[int] = []
"""The process that has made the first request: obstore's threads are there, and in no fork of it,
where a request would never be answered."""


def _require_threads() -> None:
    process = os.getpid()
    if not _used_in:
        _used_in.append(process)
    elif process not in _used_in:
        raise Forked("an object store was used", "use s3://, gs:// and az:// after the fork only")


class CloudStore:
    """A bucket or container, seen through a ready-made obstore client.

    Versions are ETags; on GCS, whose conditions know no ETags, generations.
    """

    def __init__(self, store: ObjectStore, name: str) -> None:
        settle_at_exit()
        self._store = store
        self._name = name
        self._by_generation = isinstance(store, GCSStore)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name}>"

    @property
    def name(self) -> str:
        return self._name

    async def put(self, key: str, data: bytes, mode: PutMode) -> Written:
        check_key(key)
        _require_threads()
        try:
            # In one request: in several parts it would be neither atomic nor conditional.
            result = await self._store.put_async(
                key, data, mode=self._vendor_mode(mode), use_multipart=False
            )
        except VENDOR_ERRORS as error:
            raise translate(error, self._name, key, mode) from error
        return Written(self._version(result))

    async def get(self, key: str) -> StoredObject:
        check_key(key)
        _require_threads()
        try:
            result = await self._store.get_async(key)
            data = (await result.bytes_async()).to_bytes()
        except VENDOR_ERRORS as error:
            raise translate(error, self._name, key) from error
        return StoredObject(data, self._version(result.meta), _modified_at(result.meta))

    async def delete(self, key: str) -> None:
        check_key(key)
        _require_threads()
        try:
            await self._store.delete_async(key)
        except VENDOR_ERRORS as error:
            translated = translate(error, self._name, key)
            # Azure minds deleting what is not there; the port does not.
            if not isinstance(translated, ObjectNotFound):
                raise translated from error

    async def list(self, prefix: str, start_after: str = "") -> AsyncIterator[Entry]:
        check_prefix(prefix)
        _require_threads()
        folder = prefix.rpartition("/")[0]
        pages = self._store.list(
            folder or None, offset=start_after or None, chunk_size=LIST_PAGE_KEYS
        )
        try:
            async for page in pages:
                # Not every server sorts bytes, and Azure's knows no offsets.
                found = sorted(page, key=lambda meta: meta["path"])
                for meta in found:
                    if meta["path"].startswith(prefix) and meta["path"] > start_after:
                        yield Entry(meta["path"], meta["size"], _modified_at(meta))
                if found and found[0]["path"] > prefix and not _any_under(found, prefix):
                    return
        except VENDOR_ERRORS as error:
            raise translate(error, self._name, prefix) from error

    async def close(self) -> None:
        """The client has no connection that must be given back."""

    def _vendor_mode(self, mode: PutMode) -> VendorPutMode:
        match mode:
            case Create():
                return "create"
            case Overwrite():
                return "overwrite"
            case Replace(version):
                return {"version": version} if self._by_generation else {"e_tag": version}
            case _:
                assert_never(mode)

    def _version(self, source: PutResult | ObjectMeta) -> str:
        version = source["version"] if self._by_generation else source["e_tag"]
        if version is None:
            raise StoreUnfit(self._name, "it does not tell the versions of its objects")
        return version


def s3_store(
    bucket: str,
    prefix: str = "",
    *,
    region: str | None = None,
    endpoint: str | None = None,
    profile: str | None = None,
    **options: Any,
) -> CloudStore:
    """A bucket of S3 or of whatever speaks its language.

    Credentials come from `options` (`access_key_id`, `secret_access_key`, …), a `profile`, or
    where obstore looks by itself: AWS_… variables, web identity, the container's or machine's role.
    """
    from penstock.stores.s3_versions import VersionedS3Store, profile_credentials

    if not profile and not {"access_key_id", "AWS_ACCESS_KEY_ID"} & {*options, *os.environ}:
        profile = os.environ.get("AWS_PROFILE")
    if profile:
        options["credential_provider"] = profile_credentials(profile)
    if region:
        options["region"] = region
    endpoint = endpoint or os.environ.get("AWS_ENDPOINT_URL")
    if endpoint:
        options["endpoint"] = endpoint
        options.setdefault("virtual_hosted_style_request", False)
    name = _name("s3", bucket, prefix)
    store = _made(name, S3Store, bucket, _common(prefix, endpoint, options))
    return VersionedS3Store(store, name, profile=profile)


def cloud_store_of(client: ObjectStore) -> CloudStore:
    """What a ready-made store of obstore's reaches, through a client of our own like it.

    Theirs may repeat puts, and after a lost answer report one's own as somebody else's.
    """
    from penstock.stores.s3_versions import VersionedS3Store

    if isinstance(client, MemoryStore):
        return CloudStore(client, f"obstore memory {id(client):x}")
    if not isinstance(client, S3Store | GCSStore | AzureStore):
        raise InvalidInput(
            f"obstore's {type(client).__name__} can't replace an object only if nobody else has: "
            "a folder is opened by its URL, file:///…"
        )
    config: dict[str, Any] = {**client.config}
    kind, scheme = next(known for known in _SCHEMES.items() if isinstance(client, known[0]))
    bucket = config.pop("container_name" if scheme == "az" else "bucket")
    options: dict[str, Any] = {
        "config": config,
        "client_options": {**(client.client_options or {})},
    }
    if client.credential_provider is not None:
        options["credential_provider"] = client.credential_provider
    name = _name(scheme, bucket, client.prefix or "")
    made = _made(name, kind, bucket, _common(client.prefix or "", None, options))
    # Old versions are asked for through boto3, which takes no credentials from obstore's providers.
    if isinstance(made, S3Store) and client.credential_provider is None:
        return VersionedS3Store(made, name)
    return CloudStore(made, name)


def s3_store_of(
    source: Any,
    bucket: str,
    prefix: str = "",
    *,
    region: str | None = None,
    endpoint: str | None = None,
) -> CloudStore:
    """The bucket that a client of boto3's reaches, or one that a session makes, as they ask.

    The queue's own requests go through obstore all the same, whose conditional puts it needs.
    Making a client may ask the machine for its role, so this may block.
    """
    from penstock.stores.s3_versions import VersionedS3Store, client_credentials, client_of

    client, is_ours = client_of(source, region, endpoint)
    endpoint = str(client.meta.endpoint_url)
    options: dict[str, Any] = {
        "credential_provider": client_credentials(client),
        "region": client.meta.region_name,
    }
    if not _is_of_aws(endpoint):
        options |= {"endpoint": endpoint, "virtual_hosted_style_request": False}
    name = _name("s3", bucket, prefix)
    store = _made(name, S3Store, bucket, _common(prefix, endpoint, options))
    return VersionedS3Store(store, name, client=client, is_ours=is_ours)


def _is_of_aws(endpoint: str) -> bool:
    host = urlsplit(endpoint).hostname or ""
    return host.endswith((".amazonaws.com", ".amazonaws.com.cn"))


def gcs_store(
    bucket: str, prefix: str = "", *, endpoint: str | None = None, **options: Any
) -> CloudStore:
    """A bucket of Google Cloud Storage; credentials as Google's own tools find them."""
    if endpoint:
        options["base_url"] = endpoint
    name = _name("gs", bucket, prefix)
    return CloudStore(_made(name, GCSStore, bucket, _common(prefix, endpoint, options)), name)


def azure_store(
    container: str,
    prefix: str = "",
    *,
    account: str | None = None,
    endpoint: str | None = None,
    **options: Any,
) -> CloudStore:
    """A container of Azure Blob Storage; credentials from `options` or AZURE_… variables."""
    if account:
        options["account_name"] = account
    if endpoint:
        options["endpoint"] = endpoint
    name = _name("az", container, prefix)
    return CloudStore(_made(name, AzureStore, container, _common(prefix, endpoint, options)), name)


def _made(name: str, kind: Callable[..., Client], bucket: str, options: dict[str, Any]) -> Client:
    """The client, or what is wrong with its configuration: nothing was asked of a server yet."""
    try:
        return kind(bucket, **options)
    except VENDOR_ERRORS as error:
        text = str(error)
        if "MissingAccount" in text or "Account must be specified" in text:
            raise InvalidURL(
                name,
                "whose container? Set AZURE_STORAGE_ACCOUNT_NAME, and AZURE_STORAGE_ACCOUNT_KEY "
                "or an identity",
            ) from None
        first_line = text.partition("\n")[0]
        raise InvalidURL(
            name, f"the store's client refuses its configuration: {first_line}"
        ) from None


def _common(prefix: str, endpoint: str | None, options: dict[str, Any]) -> dict[str, Any]:
    client: ClientConfig = {"connect_timeout": CONNECT_TIMEOUT, "timeout": REQUEST_TIMEOUT}
    if endpoint and endpoint.startswith("http://"):
        client["allow_http"] = True
    client.update(options.pop("client_options", {}))
    return {
        "prefix": prefix.strip("/") or None,
        "client_options": client,
        "retry_config": {"max_retries": 0},
        **options,
    }


def _name(scheme: str, bucket: str, prefix: str) -> str:
    return f"{scheme}://{bucket}/{prefix.strip('/')}".rstrip("/")


def _modified_at(meta: ObjectMeta) -> float:
    return meta["last_modified"].timestamp()


def _any_under(page: Sequence[ObjectMeta], prefix: str) -> bool:
    return any(meta["path"].startswith(prefix) for meta in page)
