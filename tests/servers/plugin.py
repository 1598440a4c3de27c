"""The real servers as fixtures. By default one that is absent fails the tests that need it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeVar

import pytest

from tests.servers.azure import Azurite, running_azurite
from tests.servers.gcs_double import GcsDouble, running_gcs_double
from tests.servers.postgres import Postgres, running_postgres
from tests.servers.redis import Redis, running_redis, running_valkey
from tests.servers.seaweed import Seaweed, running_seaweed
from tests.servers.shared import ServerAbsent

Server = TypeVar("Server")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--without-servers",
        action="store_true",
        help="skip the tests that need a real server instead of failing where there is none",
    )


@pytest.fixture(scope="session")
def seaweed(pytestconfig: pytest.Config, servers_folder: Path) -> Iterator[Seaweed]:
    yield from _running(pytestconfig, lambda: running_seaweed(servers_folder))


@pytest.fixture(scope="session")
def azurite(pytestconfig: pytest.Config, servers_folder: Path) -> Iterator[Azurite]:
    yield from _running(pytestconfig, lambda: running_azurite(servers_folder))


@pytest.fixture(scope="session")
def redis_server(pytestconfig: pytest.Config, servers_folder: Path) -> Iterator[Redis]:
    yield from _running(pytestconfig, lambda: running_redis(servers_folder))


@pytest.fixture(scope="session")
def valkey_server(pytestconfig: pytest.Config, servers_folder: Path) -> Iterator[Redis]:
    yield from _running(pytestconfig, lambda: running_valkey(servers_folder))


@pytest.fixture(scope="session")
def postgres_server(pytestconfig: pytest.Config, servers_folder: Path) -> Iterator[Postgres]:
    yield from _running(pytestconfig, lambda: running_postgres(servers_folder))


@pytest.fixture(scope="session")
def gcs_double() -> Iterator[GcsDouble]:
    with running_gcs_double() as double:
        yield double


@pytest.fixture(scope="session")
def servers_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same for all workers of one run."""
    folder = tmp_path_factory.getbasetemp()
    folder = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
    servers = folder / "servers"
    servers.mkdir(exist_ok=True)
    return servers


def _running(
    config: pytest.Config, run: Callable[[], AbstractContextManager[Server]]
) -> Iterator[Server]:
    if config.getoption("--without-servers"):
        pytest.skip("without servers, as was asked")
    try:
        running = run()
        server = running.__enter__()
    except ServerAbsent as absent:
        pytest.fail(f"{absent}, or pass --without-servers")
    yield server
    running.__exit__(None, None, None)
