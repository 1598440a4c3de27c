"""`penstock probe`."""

from __future__ import annotations

import http.client
from typing import Annotated, Any, Final

import msgspec
import typer

from penstock.cli.options import Json
from penstock.cli.output import complain, print_json, say
from penstock.cli.root import FAILED
from penstock.worker.health import LOOPBACK

ANSWER_SECONDS_MAX: Final = 5.0
"""A worker whose event loop is blocked does not answer."""


def command(
    port: Annotated[
        int,
        typer.Option(
            "--port", "-p", envvar="PENSTOCK_WORKER_HEALTH", min=1, max=65_535,
            help="What the worker was given as --health.",
        ),
    ],
    live: Annotated[
        bool, typer.Option("--live/--ready", help="Whether it lives, or claims jobs now.")
    ] = True,
    host: Annotated[str, typer.Option("--host", help="Where the worker is.")] = LOOPBACK,
    json: Json = False,
) -> None:  # fmt: skip
    """For containers without curl. Exit code 0: yes; 1: no, or no answer within five seconds."""
    connection = http.client.HTTPConnection(host, port, timeout=ANSWER_SECONDS_MAX)
    try:
        connection.request("GET", "/live" if live else "/ready")
        answer = connection.getresponse()
        said: dict[str, Any] = msgspec.json.decode(answer.read())
    except (OSError, http.client.HTTPException, msgspec.MsgspecError) as error:
        complain(f"no worker answers at {host}:{port}: {error}")
        raise typer.Exit(FAILED) from None
    finally:
        connection.close()
    is_well = answer.status == http.client.OK
    if json:
        print_json(said)
    else:
        what = "lives" if live else "is ready"
        say(f"the worker {what}" if is_well else f"not ready: {said.get('reason', said)}")
    if not is_well:
        raise typer.Exit(FAILED)
