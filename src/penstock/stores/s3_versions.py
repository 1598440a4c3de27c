"""The old versions of objects on S3, which obstore can't list: through boto3, where installed.

Only they and the bucket's own settings go this way: for people who look into the past of a job or
set a bucket up, not for the queue's own work.
"""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Any

from penstock.errors import InvalidInput, MissingExtra, Unsupported
from penstock.ports.store import ObjectVersion, StoredObject
from penstock.stores.cloud import CloudStore
from penstock.stores.cloud_errors import translate
from penstock.stores.keys import check_key
from penstock.stores.threads import Threads

if TYPE_CHECKING:
    from obstore.store import S3Store

THREADS = 4


class VersionedS3Store(CloudStore):
    """A bucket that may keep the old versions of its objects; with versioning off it has one."""

    def __init__(
        self,
        store: S3Store,
        name: str,
        *,
        profile: str | None = None,
        client: Any = None,
        is_ours: bool = True,
    ) -> None:
        super().__init__(store, name)
        self._config = store.config
        self._prefix = f"{store.prefix}/" if store.prefix else ""
        self._profile = profile
        self._threads = Threads("penstock-s3-versions", THREADS)
        self._client = client
        self._is_ours = is_ours

    async def versions(self, key: str) -> AsyncIterator[ObjectVersion]:
        check_key(key)
        client = await self._ready_client()
        marker: dict[str, str] = {}
        while True:
            page = await self._ask(
                key, client.list_object_versions, Prefix=self._prefix + key, **marker
            )
            for version in _in_order(page, self._prefix + key):
                yield ObjectVersion(
                    key,
                    version["VersionId"],
                    version["LastModified"].timestamp(),
                    latest=version["IsLatest"],
                    deleted="Size" not in version,
                )
            if not page["IsTruncated"]:
                return
            marker = {
                "KeyMarker": page["NextKeyMarker"],
                "VersionIdMarker": page["NextVersionIdMarker"],
            }

    async def get_version(self, key: str, version_id: str) -> StoredObject:
        check_key(key)
        client = await self._ready_client()
        answer = await self._ask(
            key, client.get_object, Key=self._prefix + key, VersionId=version_id
        )
        data = await self._threads.submit(answer["Body"].read)
        return StoredObject(data, answer["ETag"], answer["LastModified"].timestamp())

    async def keeps_versions(self) -> bool:
        client = await self._ready_client()
        answer = await self._ask("", client.get_bucket_versioning)
        return bool(answer.get("Status") == "Enabled")

    async def keep_versions(self) -> None:
        client = await self._ready_client()
        enabled = {"Status": "Enabled"}
        await self._ask("", client.put_bucket_versioning, VersioningConfiguration=enabled)

    async def allow_origins(self, origins: Sequence[str]) -> None:
        client = await self._ready_client()
        rule = {
            "AllowedOrigins": list(origins),
            "AllowedMethods": ["GET", "HEAD", "PUT"],
            "AllowedHeaders": ["*"],
            "ExposeHeaders": ["ETag", "x-amz-version-id"],
        }
        await self._ask("", client.put_bucket_cors, CORSConfiguration={"CORSRules": [rule]})

    async def close(self) -> None:
        await super().close()
        if self._client is not None and self._is_ours:
            self._client.close()
        self._threads.close()

    async def _ready_client(self) -> Any:
        if self._client is None:
            self._client = await self._threads.submit(self._new_client)
        return self._client

    def _new_client(self) -> Any:
        try:
            boto3 = importlib.import_module("boto3")
            config = importlib.import_module("botocore.config")
        except ImportError as error:
            raise Unsupported("listing versions without penstock[s3]", self.name) from error
        endpoint = self._config.get("endpoint")
        return boto3.session.Session(profile_name=self._profile).client(
            "s3",
            endpoint_url=endpoint,
            region_name=self._config.get("region"),
            aws_access_key_id=self._config.get("access_key_id"),
            aws_secret_access_key=self._config.get("secret_access_key"),
            aws_session_token=self._config.get("session_token"),
            config=config.Config(s3={"addressing_style": "path"} if endpoint else {}),
        )

    async def _ask(self, key: str, call: Callable[..., Any], **parameters: Any) -> Any:
        botocore = importlib.import_module("botocore.exceptions")
        bucket = self._config["bucket"]
        try:
            return await self._threads.submit(lambda: call(Bucket=bucket, **parameters))
        except botocore.ClientError as error:
            status = error.response["ResponseMetadata"]["HTTPStatusCode"]
            raise translate(error, self.name, key, status=status) from error
        except botocore.BotoCoreError as error:
            raise translate(error, self.name, key) from error


def profile_credentials(profile: str) -> Any:
    """The credentials of a profile in ~/.aws, renewed when they expire."""
    try:
        boto3 = importlib.import_module("boto3")
        auth = importlib.import_module("obstore.auth.boto3")
    except ImportError as error:
        raise MissingExtra("s3", f"the AWS profile {profile!r}") from error
    return auth.Boto3CredentialProvider(boto3.session.Session(profile_name=profile))


def client_of(source: Any, region: str | None, endpoint: str | None) -> tuple[Any, bool]:
    """The client for S3 that was given, or one that a session or resource has; and if it is new."""
    session = importlib.import_module("boto3.session")
    if isinstance(source, session.Session):
        return source.client("s3", region_name=region, endpoint_url=endpoint), True
    client = getattr(source.meta, "client", source)
    service = client.meta.service_model.service_name
    if service != "s3":
        raise InvalidInput(f"this client of boto3 is for {service}; a queue needs one for s3")
    return client, False


def client_credentials(client: Any) -> Any:
    """The credentials that a ready-made client signs with, renewed when they expire."""
    auth = importlib.import_module("obstore.auth.boto3")
    return auth.Boto3CredentialProvider(_SessionOf(client))


class _SessionOf:
    """A client knows its credentials but not its session, which is all that is asked here."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def get_credentials(self) -> Any:
        return self._client._request_signer._credentials  # there is no other way


def _in_order(page: dict[str, Any], key: str) -> Sequence[dict[str, Any]]:
    """The answer has versions and deletions in two lists, and those of longer keys too."""
    found = [
        version
        for version in (*page.get("Versions", ()), *page.get("DeleteMarkers", ()))
        if version["Key"] == key
    ]
    return sorted(found, key=lambda v: (v["LastModified"], v["IsLatest"]), reverse=True)
