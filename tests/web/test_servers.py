"""Apps in web applications, behind real servers: threads, forks, loops that come and go."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.core.servers.basehttp import ThreadedWSGIServer, WSGIRequestHandler
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.testclient import TestClient

import penstock
from tests.web import site

REQUESTS = 24
HANG_SECONDS = 120.0


def ask(address: str, paths: tuple[str, ...] = ("sync",)) -> list[dict[str, Any]]:
    """Many requests at once, the first ones included."""

    def one(number: int) -> dict[str, Any]:
        url = f"{address}/{paths[number % len(paths)]}?name=n{number}"
        answer = httpx.get(url, timeout=HANG_SECONDS)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    with ThreadPoolExecutor(8) as threads:
        return list(threads.map(one, range(REQUESTS)))


def stored(url: str) -> list[str]:
    with penstock.open_sync(url) as queue:
        return [job.payload["name"] for job in queue.jobs()]


def folder(tmp_path: Path) -> str:
    return f"file://{tmp_path}/queue?fsync=off"


@contextmanager
def served_by_django(url: str) -> Iterator[str]:
    """What `runserver` starts: a thread for every connection."""
    server = ThreadedWSGIServer(("127.0.0.1", 0), WSGIRequestHandler)
    server.set_app(site.application)
    serving = threading.Thread(target=server.serve_forever)
    with site.app.rebound(url):
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            server.server_close()
            serving.join()
            site.app.close_sync()


@pytest.mark.parametrize("paths", [("sync",), ("async",), ("sync", "async")])
def test_djangos_threaded_server_enqueues_from_every_thread(
    tmp_path: Path, paths: tuple[str, ...]
) -> None:
    with served_by_django(folder(tmp_path)) as address:
        assert len({answer["id"] for answer in ask(address, paths)}) == REQUESTS
    assert sorted(stored(folder(tmp_path))) == sorted(f"n{n}" for n in range(REQUESTS))


@contextmanager
def served_by_gunicorn(url: str, *options: str, **environment: str) -> Iterator[str]:
    """On a socket that listens before the server does, so nobody has to wait for it."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listening:
        server = subprocess.Popen(
            [sys.executable, "-m", "gunicorn", "tests.web.site:application",
             "--bind", f"fd://{listening.fileno()}", "--timeout", "120", *options],
            pass_fds=[listening.fileno()],
            env={**os.environ, "PENSTOCK_URL": url, **environment},
            stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.send_signal(signal.SIGTERM)
            _, said = server.communicate(timeout=HANG_SECONDS)
    assert server.returncode == 0, said
    assert "Traceback" not in said


def test_gunicorns_threads_share_one_queue(tmp_path: Path) -> None:
    with served_by_gunicorn(folder(tmp_path), "--workers", "1", "--threads", "8") as address:
        assert len({answer["id"] for answer in ask(address, ("sync", "async"))}) == REQUESTS
    assert len(stored(folder(tmp_path))) == REQUESTS


@pytest.mark.parametrize(
    "url", [folder, lambda path: f"sqlite:///{path}/queue.db"], ids=["folder", "sqlite"]
)
def test_gunicorns_preloaded_forks_open_the_queue_anew(
    tmp_path: Path, url: Callable[[Path], str]
) -> None:
    options = ("--preload", "--workers", "2", "--threads", "2")
    with served_by_gunicorn(url(tmp_path), *options, PENSTOCK_PRELOADED="yes") as address:
        assert len({answer["id"] for answer in ask(address)}) == REQUESTS
    names = stored(url(tmp_path))
    assert (len(names), names.count("before the fork")) == (REQUESTS + 1, 1)


def starlette(app: penstock.App) -> Starlette:
    greet = app.task(name="greet")(lambda name: f"hello {name}")

    def in_a_thread(request: Request) -> JSONResponse:
        return JSONResponse({"id": greet.enqueue_sync(name=request.query_params["name"]).id})

    async def in_the_loop(request: Request) -> JSONResponse:
        return JSONResponse({"id": (await greet.enqueue(name=request.query_params["name"])).id})

    @asynccontextmanager
    async def lifespan(web: Starlette) -> Any:
        async with app:
            yield

    routes = [Route("/sync", in_a_thread), Route("/async", in_the_loop)]
    return Starlette(routes=routes, lifespan=lifespan)


@pytest.mark.parametrize("url", ["memory://", "file://{}/queue?fsync=off"])
@pytest.mark.parametrize("is_entered", [True, False])
def test_the_test_client_calls_sync_and_async_endpoints_in_any_order(
    tmp_path: Path, url: str, is_entered: bool
) -> None:
    """Entered, it runs the lifespan in one loop; else every request has a loop of its own."""
    app = penstock.App(url.format(tmp_path))
    client = TestClient(starlette(app))

    def ask_all() -> None:
        for number, where in enumerate(("sync", "async", "async", "sync", "async")):
            assert client.get(f"/{where}?name={number}").status_code == 200
            assert app.tasks["greet"].enqueue_sync(name="of the test").status == "queued"
        assert app.wait(_pending(app)) == 10

    if is_entered:
        with client:
            ask_all()
    else:
        ask_all()
    app.close_sync()


async def _pending(app: penstock.App) -> int:
    return (await (await app.queue()).stats()).totals["pending"]
