"""A double of Google Cloud Storage: no real server that obstore can talk to can be installed.

It knows only the XML calls that obstore makes, and is strict about them: whatever it does not know
gets a 501, so that a call which would mean something at Google can't pass unnoticed here.

    PUT    /{bucket}/{key}    x-goog-if-generation-match: 0 creates, n replaces generation n
    GET    /{bucket}/{key}
    DELETE /{bucket}/{key}
    GET    /{bucket}?list-type=2&prefix&start-after&continuation-token&max-keys
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.sax.saxutils import escape

from penstock.stores.cloud import CloudStore, gcs_store

TOKEN = "dummy"
LIST_PAGE_KEYS = 1000
LIST_PARAMETERS = {"list-type", "prefix", "start-after", "continuation-token", "max-keys"}


@dataclass(frozen=True)
class _Object:
    data: bytes
    generation: int
    modified_at: datetime

    @property
    def etag(self) -> str:
        return f'"{hashlib.md5(self.data).hexdigest()}"'


@dataclass
class _State:
    lock: threading.Lock = field(default_factory=threading.Lock)
    buckets: dict[str, dict[str, _Object]] = field(default_factory=dict)
    # Google's are microseconds; what matters is that they are never used again.
    generations: Iterator[int] = field(
        default_factory=lambda: itertools.count(1_700_000_000_000_000)
    )


class GcsDouble:
    """The double, on a port of its own, for as long as the context lasts."""

    def __init__(self, server: ThreadingHTTPServer, state: _State) -> None:
        self._state = state
        self.endpoint = f"http://127.0.0.1:{server.server_port}"

    def new_bucket(self) -> str:
        name = f"bucket-{uuid.uuid4().hex}"
        self._state.buckets[name] = {}
        return name

    def store(self, bucket: str | None = None, prefix: str = "", token: str = TOKEN) -> CloudStore:
        """The bucket as penstock sees it; a new one unless named."""
        return gcs_store(
            bucket or self.new_bucket(), prefix, endpoint=self.endpoint, bearer_token=token
        )


@contextlib.contextmanager
def running_gcs_double() -> Iterator[GcsDouble]:
    state = _State()
    server = ThreadingHTTPServer(("127.0.0.1", 0), lambda *arguments: _Handler(state, *arguments))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield GcsDouble(server, state)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Refused(Exception):
    def __init__(self, status: int, code: str) -> None:
        super().__init__(code)
        self.status = status
        self.code = code


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # An answer leaves in one piece, without waiting for the other side to acknowledge half of it.
    wbufsize = -1
    disable_nagle_algorithm = True

    def __init__(self, state: _State, *arguments: Any) -> None:
        self.state = state
        super().__init__(*arguments)

    def log_message(self, format: str, *arguments: object) -> None:
        """Quiet."""

    def do_PUT(self) -> None:
        self._handle(self._put)

    def do_GET(self) -> None:
        self._handle(self._list if "/" not in self.path.strip("/") else self._get)

    def do_DELETE(self) -> None:
        self._handle(self._delete)

    def _handle(self, act: Callable[[bytes], tuple[bytes, _Object | None]]) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                raise _Refused(401, "AuthenticationRequired")
            with self.state.lock:
                body, stored = act(data)
        except _Refused as refused:
            self._send(refused.status, _xml("Error", f"<Code>{refused.code}</Code>"), None)
        else:
            self._send(200, body, stored)

    def _put(self, data: bytes) -> tuple[bytes, _Object]:
        objects, key = self._object(conditions=("x-goog-if-generation-match",))
        stored = objects.get(key)
        condition = self.headers.get("x-goog-if-generation-match")
        if condition is not None and int(condition) != (stored.generation if stored else 0):
            raise _Refused(412, "PreconditionFailed")
        objects[key] = _Object(data, next(self.state.generations), datetime.now(UTC))
        return b"", objects[key]

    def _get(self, _: bytes) -> tuple[bytes, _Object]:
        objects, key = self._object()
        if key not in objects:
            raise _Refused(404, "NoSuchKey")
        return objects[key].data, objects[key]

    def _delete(self, _: bytes) -> tuple[bytes, None]:
        objects, key = self._object()
        if objects.pop(key, None) is None:
            raise _Refused(404, "NoSuchKey")
        return b"", None

    def _list(self, _: bytes) -> tuple[bytes, None]:
        self._expect_conditions(())
        address = urlsplit(self.path)
        asked = dict(parse_qsl(address.query))
        if asked.get("list-type") != "2" or not asked.keys() <= LIST_PARAMETERS:
            raise _Refused(501, "NotImplemented")
        objects = self._bucket(unquote(address.path.strip("/")))
        after = max(asked.get("start-after", ""), asked.get("continuation-token", ""))
        keys = sorted(k for k in objects if k.startswith(asked.get("prefix", "")) and k > after)
        page = keys[: int(asked.get("max-keys", LIST_PAGE_KEYS))]
        contents = "".join(_contents(key, objects[key]) for key in page)
        if len(page) < len(keys):
            contents += f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>"
        return _xml("ListBucketResult", contents), None

    def _object(self, conditions: tuple[str, ...] = ()) -> tuple[dict[str, _Object], str]:
        self._expect_conditions(conditions)
        address = urlsplit(self.path)
        if address.query:
            raise _Refused(501, "NotImplemented")
        bucket, _, key = address.path.strip("/").partition("/")
        return self._bucket(unquote(bucket)), unquote(key)

    def _bucket(self, name: str) -> dict[str, _Object]:
        if name not in self.state.buckets:
            raise _Refused(404, "NoSuchBucket")
        return self.state.buckets[name]

    def _expect_conditions(self, known: tuple[str, ...]) -> None:
        for header in map(str.lower, self.headers):
            if header.startswith(("x-goog-", "if-", "range")) and header not in known:
                raise _Refused(501, "NotImplemented")

    def _send(self, status: int, body: bytes, stored: _Object | None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if stored is not None:
            self.send_header("ETag", stored.etag)
            self.send_header("Last-Modified", format_datetime(stored.modified_at, usegmt=True))
            self.send_header("x-goog-generation", str(stored.generation))
        self.end_headers()
        self.wfile.write(body)


def _contents(key: str, stored: _Object) -> str:
    return (
        f"<Contents><Key>{escape(key)}</Key><Size>{len(stored.data)}</Size>"
        f"<LastModified>{stored.modified_at:%Y-%m-%dT%H:%M:%S.%fZ}</LastModified>"
        f"<ETag>{escape(stored.etag)}</ETag></Contents>"
    )


def _xml(root: str, inside: str) -> bytes:
    return f'<?xml version="1.0" encoding="UTF-8"?><{root}>{inside}</{root}>'.encode()
