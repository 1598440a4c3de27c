"""What the cloud adapter makes of its servers' refusals, seen from real servers where possible."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import importlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from obstore.exceptions import AlreadyExistsError, GenericError, PermissionDeniedError
from obstore.store import MemoryStore

from penstock.errors import (
    Forked,
    MissingExtra,
    ObjectNotFound,
    PreconditionFailed,
    PutUnknown,
    StoreDenied,
    StoreError,
    StoreMissing,
    StoreRefused,
    StoreUnavailable,
    Unsupported,
)
from penstock.ports.store import (
    Create,
    ObjectStore,
    ObjectVersion,
    Overwrite,
    PutMode,
    Replace,
    Versioned,
)
from penstock.stores.cloud import CloudStore, azure_store, gcs_store, s3_store
from penstock.stores.cloud_errors import translate
from tests.servers.azure import ACCOUNT, Azurite
from tests.servers.gcs_double import GcsDouble
from tests.servers.seaweed import Seaweed

MODES: list[PutMode] = [Create(), Replace('"1"'), Overwrite()]


async def expect(error: type[StoreError], store: ObjectStore, *, puts: bool = True) -> None:
    """Every operation ends with this error."""
    with pytest.raises(error):
        await store.get("key")
    with pytest.raises(error):
        _ = [entry async for entry in store.list("")]
    with pytest.raises(error):
        await store.delete("key")
    for mode in MODES if puts else []:
        with pytest.raises(error):
            await store.put("key", b"content", mode)


async def test_s3_denies_a_wrong_secret(seaweed: Seaweed) -> None:
    bucket = seaweed.new_bucket()
    await expect(StoreDenied, seaweed.store(bucket, secret_access_key="wrong"))
    await expect(StoreDenied, seaweed.store(bucket, access_key_id="unknown"))


async def test_azure_denies_a_wrong_key(azurite: Azurite) -> None:
    wrong = base64.b64encode(b"wrong" * 8).decode()
    await expect(StoreDenied, azurite.store(account_key=wrong))


async def test_gcs_denies_a_wrong_token(gcs_double: GcsDouble) -> None:
    await expect(StoreDenied, gcs_double.store(token="wrong"))


async def test_s3_misses_a_bucket(seaweed: Seaweed) -> None:
    # SeaweedFS makes a missing bucket on the first put, and lists it as empty before.
    with pytest.raises(StoreMissing):
        await seaweed.store("no-such-bucket").get("key")


async def test_azure_misses_a_container(azurite: Azurite) -> None:
    await expect(StoreMissing, azurite.store("no-such-container"))


async def test_gcs_misses_a_bucket(gcs_double: GcsDouble) -> None:
    await expect(StoreMissing, gcs_double.store("no-such-bucket"))


def stores_at(endpoint: str) -> list[CloudStore]:
    key = base64.b64encode(b"key" * 8).decode()
    return [
        s3_store("bucket", endpoint=endpoint, access_key_id="a", secret_access_key="b"),
        gcs_store("bucket", endpoint=endpoint, bearer_token="dummy"),
        azure_store("bucket", account=ACCOUNT, account_key=key, endpoint=f"{endpoint}/{ACCOUNT}"),
    ]


async def test_a_refused_connection_means_unavailable_and_not_applied() -> None:
    with socket.socket() as taken:
        # Bound but not listening: nobody else can, so the connection is refused.
        taken.bind(("127.0.0.1", 0))
        for store in stores_at(f"http://127.0.0.1:{taken.getsockname()[1]}"):
            await expect(StoreUnavailable, store)


@contextlib.contextmanager
def server_that(answer: bytes) -> Iterator[str]:
    """Reads what comes, sends these bytes and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    with connection:
                        connection.recv(65536)
                        connection.sendall(answer)

        serving = threading.Thread(target=serve)
        serving.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            serving.join()


def answer(status: str, body: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return f"{head}{body}".encode()


UNSURE = {
    "reset": b"",
    "500": answer("500 Internal Server Error"),
    "503": answer("503 Slow Down", "<Error><Code>SlowDown</Code></Error>"),
    "429": answer("429 Too Many Requests"),
    "408": answer("408 Request Timeout"),
    "garbage": b"what?",
}


@pytest.mark.parametrize("trouble", UNSURE)
async def test_after_trouble_a_put_is_unknown_and_a_read_unavailable(trouble: str) -> None:
    with server_that(UNSURE[trouble]) as endpoint:
        for store in stores_at(endpoint):
            for mode in MODES:
                with pytest.raises(PutUnknown):
                    await store.put("key", b"content", mode)
            await expect(StoreUnavailable, store, puts=False)


async def test_an_s3_conflict_leaves_a_put_unknown() -> None:
    body = "<Error><Code>ConditionalRequestConflict</Code></Error>"
    with server_that(answer("409 Conflict", body)) as endpoint:
        for mode in (Create(), Replace('"1"')):
            with pytest.raises(PutUnknown):
                await stores_at(endpoint)[0].put("key", b"content", mode)


async def test_an_azure_conflict_refuses_a_create() -> None:
    body = "<Error><Code>BlobAlreadyExists</Code></Error>"
    with server_that(answer("409 Conflict", body)) as endpoint, pytest.raises(PreconditionFailed):
        await stores_at(endpoint)[2].put("key", b"content", Create())


async def test_replacing_nothing_is_refused_whether_by_404_or_412() -> None:
    for status in ("404 Not Found", "412 Precondition Failed"):
        with server_that(answer(status, "<Error><Code>NoSuchKey</Code></Error>")) as endpoint:
            for store in stores_at(endpoint):
                with pytest.raises(PreconditionFailed):
                    await store.put("key", b"content", Replace('"1"'))


async def test_creating_in_nothing_means_that_the_bucket_is_missing() -> None:
    with server_that(answer("404 Not Found")) as endpoint:
        for store in stores_at(endpoint):
            with pytest.raises(StoreMissing):
                await store.put("key", b"content", Create())


async def test_expired_credentials_are_a_denial() -> None:
    body = "<Error><Code>ExpiredToken</Code></Error>"
    with server_that(answer("400 Bad Request", body)) as endpoint:
        await expect(StoreDenied, stores_at(endpoint)[0])


async def test_a_request_that_makes_no_sense_is_certainly_not_applied() -> None:
    with server_that(answer("400 Bad Request", "<Error><Code>Odd</Code></Error>")) as endpoint:
        with pytest.raises(StoreError, match="400 Odd") as raised:
            await stores_at(endpoint)[0].put("key", b"content", Create())
        assert type(raised.value) is StoreRefused


async def test_an_answer_that_never_comes_leaves_a_put_unknown() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        options = {"access_key_id": "a", "secret_access_key": "b"}
        store = s3_store(
            "bucket", endpoint=endpoint, client_options={"timeout": "200ms"}, **options
        )
        with pytest.raises(PutUnknown):
            await store.put("key", b"content", Create())
        with pytest.raises(StoreUnavailable):
            await store.get("key")


def test_a_message_shows_no_signature() -> None:
    error = GenericError("Error performing GET http://host/b?sig=secret&se=1 in 2ms - HTTP error")
    assert "secret" not in str(translate(error, "az://b", "key"))


def test_no_credentials_at_all_are_a_denial() -> None:
    error = GenericError(
        "Generic S3 error: Error performing PUT http://169.254.169.254/latest/api/token - kind: "
        "Connect"
    )
    assert isinstance(translate(error, "s3://b", "key", Create()), StoreDenied)


def test_kinds_are_understood_without_a_status() -> None:
    assert isinstance(translate(PermissionDeniedError("no"), "s3://b", "key"), StoreDenied)
    refused = translate(AlreadyExistsError("there"), "s3://b", "key", Create())
    assert isinstance(refused, PreconditionFailed)
    assert isinstance(translate(FileNotFoundError("none"), "s3://b", "key"), ObjectNotFound)


async def test_names_carry_bucket_and_prefix_and_nothing_else() -> None:
    names = [store.name for store in stores_at("http://127.0.0.1:1")]
    assert names == ["s3://bucket", "gs://bucket", "az://bucket"]
    store = s3_store("bucket", "/queues/mail/", access_key_id="a", secret_access_key="b")
    assert store.name == "s3://bucket/queues/mail"


@pytest.fixture
async def versioned(seaweed: Seaweed) -> AsyncIterator[CloudStore]:
    boto3 = pytest.importorskip("boto3")
    bucket = seaweed.new_bucket()
    client = boto3.client(
        "s3",
        endpoint_url=seaweed.endpoint,
        region_name="us-east-1",
        aws_access_key_id="testkey",
        aws_secret_access_key="testsecret",
    )
    enabled = {"Status": "Enabled"}
    client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration=enabled)
    client.close()
    store = seaweed.store(bucket, "queues/mail")
    yield store
    await store.close()


async def test_s3_lists_the_versions_of_an_object(versioned: CloudStore) -> None:
    assert isinstance(versioned, Versioned)
    for content in (b"first", b"second"):
        await versioned.put("tasks/job", content, Overwrite())
    await versioned.put("tasks/job2", b"another", Overwrite())
    await versioned.delete("tasks/job")
    found: list[ObjectVersion] = [version async for version in versioned.versions("tasks/job")]
    assert [version.deleted for version in found] == [True, False, False]
    assert [version.latest for version in found] == [True, False, False]
    assert {version.key for version in found} == {"tasks/job"}
    contents = [await versioned.get_version("tasks/job", v.version_id) for v in found[1:]]
    assert sorted(stored.data for stored in contents) == [b"first", b"second"]


async def test_a_version_that_never_was_is_not_found(versioned: CloudStore) -> None:
    assert isinstance(versioned, Versioned)
    await versioned.put("tasks/job", b"content", Overwrite())
    with pytest.raises(StoreError):
        await versioned.get_version("tasks/job", "0" * 32)
    assert [version async for version in versioned.versions("tasks/none")] == []


async def test_without_boto3_versions_are_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    store = s3_store("bucket", access_key_id="a", secret_access_key="b")
    assert isinstance(store, Versioned)
    with pytest.raises(Unsupported, match=r"penstock\[s3\]"):
        _ = [version async for version in store.versions("tasks/job")]
    with pytest.raises(MissingExtra, match=r"penstock\[s3\]"):
        s3_store("bucket", profile="someone")


def test_without_obstore_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore.exceptions", None)
    monkeypatch.delitem(sys.modules, "penstock.stores.cloud")
    with pytest.raises(MissingExtra, match="pip install"):
        importlib.import_module("penstock.stores.cloud")


def test_the_rest_of_penstock_loads_no_client_of_any_cloud() -> None:
    program = """
import sys
import penstock, penstock.stores.local, penstock.stores.memory, penstock.stores.layers.retrying
heavy = {"obstore", "boto3", "botocore", "watchfiles", "anyio"} & set(sys.modules)
sys.exit(", ".join(sorted(heavy)) or 0)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.slow
def test_a_program_that_ends_right_after_a_request_ends_well(
    gcs_double: GcsDouble, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import asyncio, sys\n"
        "from penstock.ports.store import Overwrite\n"
        "from penstock.stores.cloud import gcs_store\n"
        "store = gcs_store(sys.argv[1], endpoint=sys.argv[2], bearer_token='dummy')\n"
        "asyncio.run(store.put('key', b'content', Overwrite()))\n"
    )
    command = [sys.executable, str(program), gcs_double.new_bucket(), gcs_double.endpoint]
    codes = [subprocess.run(command, check=False).returncode for _ in range(15)]
    assert codes == [0] * 15


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
async def test_in_a_fork_of_a_process_that_has_used_it_a_store_says_so() -> None:
    """Else its requests would never be answered there."""
    await CloudStore(MemoryStore(), "memory").put("key", b"data", Overwrite())
    child = os.fork()
    if child == 0:
        try:
            CloudStore(MemoryStore(), "memory").put("key", b"data", Overwrite()).send(None)
        except Forked:
            os._exit(0)
        os._exit(1)
    assert (await asyncio.to_thread(os.waitpid, child, 0))[1] == 0
