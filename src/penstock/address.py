"""A queue's address and options: from the URL, the call and the environment, checked.

Precedence: an argument of the call, then the URL's query, then `PENSTOCK_…` in the environment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from msgspec import Struct

from penstock.engines.ledger.marker import LAYOUTS
from penstock.engines.records.tasks.names import INDEX_MODES, shards_in
from penstock.errors import InvalidURL
from penstock.errors.addresses import without_credentials
from penstock.kernel.settings import Settings

STORES: Final = ("file", "s3", "gs", "az")
"""Those of queues that lie in an object store."""
POSTGRES_SCHEMES: Final = ("postgresql", "postgres")
"""Those whose URLs have parameters of the driver's own."""
REDIS_SCHEMES: Final = ("redis", "rediss")
SERVER_SCHEMES: Final = (*POSTGRES_SCHEMES, *REDIS_SCHEMES)
"""Those of servers, whose URLs may have credentials."""
RECORD_SCHEMES: Final = ("sqlite", *SERVER_SCHEMES)
"""Those that keep one record per job, and have no layout."""
SCHEMES: Final = ("memory", *STORES, *RECORD_SCHEMES)
_SCHEMA: Final = re.compile(r"[a-z_][a-z0-9_]{0,49}")
_PREFIX: Final = re.compile(r"[A-Za-z0-9._:-]+")
_SETTINGS: Final = frozenset(Settings.__struct_fields__)
_ON: Final = {"on": True, "true": True, "1": True, "yes": True}
_OFF: Final = {"off": False, "false": False, "0": False, "no": False}


class Options(Struct, kw_only=True):
    """Everything that can be said about a queue besides where it is."""

    tenant: str = "default"
    layout: str | None = None
    group_commit: bool = True
    fsync: bool = True
    offload: bool = False
    payload_bytes_max: int = 256 * 1024
    outcome_seconds_max: float = 60.0
    index: str = INDEX_MODES[0]
    """Layout `tasks`: where claims look, see docs/tasks-layout.md."""
    shards: str | None = None
    """Layout `tasks`: which shards claims look at, such as `0-7` or `0,4,c`; None is all."""
    allow_no_versioning: bool = False
    """Layout `tasks`: an S3 bucket that keeps no old versions will do."""
    region: str | None = None
    endpoint: str | None = None
    schema: str = "penstock"
    prefix: str = "penstock"
    """What the names of a queue in Redis begin with."""


class Address(Struct, frozen=True):
    url: str
    scheme: str
    place: str
    """The bucket or container; of `memory://`, the shared name."""
    path: str
    """The folder, or the prefix within the bucket."""
    options: Options
    settings: dict[str, float]
    server_url: str = ""
    """Of a server: what its driver takes, so without options of ours. Not to be shown."""

    @property
    def shown_url(self) -> str:
        """For messages."""
        return without_credentials(self.url)

    @property
    def known_as(self) -> str:
        """What another queue may keep of it: found from any folder, and no secret."""
        return without_credentials(self.absolute_url)

    @property
    def absolute_url(self) -> str:
        """The same for processes that run in another folder."""
        return self.url if "://" in self.url else Path(self.path).as_uri()


def parse(url: str | None, given: Mapping[str, Any]) -> Address:
    environment = {
        name.removeprefix("PENSTOCK_").lower(): value
        for name, value in os.environ.items()
        if name.startswith("PENSTOCK_")
    }
    url = url or environment.pop("url", None)
    environment.pop("url", None)
    if not url:
        raise InvalidURL("", "pass one, or set PENSTOCK_URL; for example file:///var/lib/queue")
    scheme, place, path, query = _split(url)
    options = Options()
    settings: dict[str, float] = {}
    known = set(Options.__struct_fields__) | _SETTINGS
    said = {name: value for name, value in environment.items() if name in known}
    server_url = ""
    if scheme in SERVER_SCHEMES:
        others = {}
        if scheme in POSTGRES_SCHEMES:
            others = {name: query.pop(name) for name in list(query) if name not in known}
        server_url = f"{url.partition('?')[0]}?{urlencode(others)}"
    for name, value in {**said, **query, **given}.items():
        _set(url, options, settings, name, value)
    if options.layout is not None and options.layout not in LAYOUTS:
        raise InvalidURL(url, f"layout={options.layout}: known are {', '.join(LAYOUTS)}")
    _check_tasks_options(url, options)
    if options.layout is not None and scheme in RECORD_SCHEMES:
        raise InvalidURL(url, f"layout={options.layout}: {scheme}:// has tables and no layout")
    if not _SCHEMA.fullmatch(options.schema):
        raise InvalidURL(url, f"schema={options.schema}: small letters, digits and _, at most 50")
    if not _PREFIX.fullmatch(options.prefix):
        raise InvalidURL(url, f"prefix={options.prefix}: letters, digits and ._:- are fine")
    return Address(url, scheme, place, path, options, settings, server_url)


def _check_tasks_options(url: str, options: Options) -> None:
    if options.index not in INDEX_MODES:
        raise InvalidURL(url, f"index={options.index}: known are {', '.join(INDEX_MODES)}")
    try:
        shards_in(options.shards)
    except ValueError:
        raise InvalidURL(url, f"shards={options.shards}: hex digits, as in 0-7 or 0,4,c") from None


def _split(url: str) -> tuple[str, str, str, dict[str, str]]:
    if "://" not in url:
        if ":" in url.partition("/")[0]:
            raise InvalidURL(url, f"a scheme is written {url.partition(':')[0]}://…")
        return "file", "", str(Path(url).absolute()), {}
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise InvalidURL(url, str(error)) from None
    scheme, place, path = parts.scheme, parts.netloc, unquote(parts.path)
    if scheme not in SCHEMES:
        known = ", ".join(f"{name}://" for name in SCHEMES)
        raise InvalidURL(url, f"the scheme {scheme}:// is not known; known are {known}")
    if "@" in place and scheme not in SERVER_SCHEMES:
        raise InvalidURL(url.replace(place, "…"), "credentials come from the environment")
    if scheme == "file" and place:
        raise InvalidURL(url, f"a folder is written file:///{place}{path}, with three slashes")
    if scheme == "file" and not path.strip("/"):
        raise InvalidURL(url, "name a folder, for example file:///var/lib/queue")
    if scheme == "sqlite" and (place or not path.strip("/")):
        raise InvalidURL(url, "a file is written sqlite:///var/lib/queue.db, with three slashes")
    if scheme in REDIS_SCHEMES and not (parts.hostname and re.fullmatch(r"/?\d*", path)):
        raise InvalidURL(url, f"a server is written {scheme}://host:6379/0, with a number at most")
    if scheme in ("s3", "gs", "az") and not place:
        raise InvalidURL(url, f"name a bucket: {scheme}://bucket/prefix")
    if scheme == "memory" and path.strip("/"):
        raise InvalidURL(url, "memory:// takes a name at most: memory://name")
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    return scheme, place, path if scheme in ("file", "sqlite") else path.strip("/"), query


def _set(url: str, options: Options, settings: dict[str, float], name: str, value: Any) -> None:
    if name in _SETTINGS:
        settings[name] = _number(url, name, value)
    elif name in Options.__struct_fields__:
        setattr(options, name, _converted(url, name, value, getattr(Options(), name)))
    else:
        known = ", ".join(sorted({*Options.__struct_fields__, *_SETTINGS}))
        raise InvalidURL(url, f"the option {name!r} is not known; known are {known}")


def _converted(url: str, name: str, value: Any, default: Any) -> Any:
    if isinstance(default, bool):
        switch = {**_ON, **_OFF}.get(str(value).lower())
        if switch is None:
            raise InvalidURL(url, f"{name}={value}: on or off")
        return switch
    if isinstance(default, int):
        return int(_number(url, name, value))
    if isinstance(default, float):
        return _number(url, name, value)
    return value


def _number(url: str, name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InvalidURL(url, f"{name}={value}: it must be a number") from None
    if not isfinite(number):
        raise InvalidURL(url, f"{name}={value}: it must be a finite number")
    return int(number) if number == int(number) and "seconds" not in name else number
