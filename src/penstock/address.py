"""A queue's address and options: from the URL, the call and the environment, checked.

Precedence: an argument of the call, then the URL's query, then `PENSTOCK_…` in the environment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from msgspec import Struct

from penstock.engines.records.tasks.names import INDEX_MODES
from penstock.errors import InvalidInput, InvalidURL
from penstock.errors.addresses import without_credentials
from penstock.errors.input import shown
from penstock.kernel.plain import is_a
from penstock.kernel.settings import Settings, SettingsChanges
from penstock.option_values import Refused, convert_option, convert_retry, convert_setting
from penstock.server_url import (
    POSTGRES_SCHEMES,
    REDIS_SCHEMES,
    SERVER_SCHEMES,
    check_server,
    names_of_driver,
    parameters_of_driver,
)

STORES: Final = ("file", "s3", "gs", "az")
"""Those of queues that lie in an object store."""
CLOUD_SCHEMES: Final = ("s3", "gs", "az")
RECORD_SCHEMES: Final = ("sqlite", *SERVER_SCHEMES)
"""Those that keep one record per job, and have no layout."""
SCHEMES: Final = ("memory", *STORES, *RECORD_SCHEMES)
OWN_OBJECTS: Final = "objects"
"""The kind of a queue in a store of objects that the caller has made."""
OWN_RECORDS: Final = "records"
"""The same of records."""
_ONLY_OF: Final[dict[str, tuple[str, ...]]] = {
    "layout": (*STORES, OWN_OBJECTS),
    "index": (*STORES, OWN_OBJECTS),
    "shards": (*STORES, OWN_OBJECTS),
    "allow_no_versioning": (*STORES, OWN_OBJECTS),
    "region": ("s3",),
    "endpoint": CLOUD_SCHEMES,
    "fsync": ("file", "sqlite", *POSTGRES_SCHEMES),
    "schema": POSTGRES_SCHEMES,
    "prefix": REDIS_SCHEMES,
}
"""Options that only these kinds of queues have; all have the others."""
_NAMED: Final = ("file", "s3", "gs", "az", "sqlite", "postgresql", "redis")
"""One scheme of each kind, for messages."""
_ELSEWHERE: Final = {"schema": "prefix", "prefix": "schema"}
"""What is called otherwise on another kind of queue."""
_BUCKET: Final = re.compile(r"[A-Za-z0-9._-]+")
_UNPRINTABLE: Final = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
_SETTINGS: Final = frozenset(Settings.__struct_fields__)


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


class QueueOptions(SettingsChanges, total=False):
    """The same as keywords, and the settings of the whole queue; for type checkers."""

    tenant: str
    layout: str | None
    group_commit: bool | str
    fsync: bool | str
    offload: bool | str
    payload_bytes_max: int
    outcome_seconds_max: float
    index: str
    shards: str | None
    allow_no_versioning: bool | str
    region: str | None
    endpoint: str | None
    schema: str
    prefix: str


class Address(Struct, frozen=True):
    url: str
    scheme: str
    place: str
    """The bucket or container; of `memory://`, the shared name."""
    path: str
    """The folder, or the prefix within the bucket."""
    options: Options
    settings: dict[str, Any]
    server_url: str = ""
    """Of a server: what its driver takes, so without options of ours. Not to be shown."""
    said: frozenset[str] = frozenset()
    """The options that the URL or the call names; the environment is for all queues."""

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
        if "://" in self.url:
            return self.url
        _, mark, query = self.url.partition("?")
        return Path(self.path).as_uri() + mark + query


def parse(url: str | None, given: Mapping[str, Any], kind: str | None = None) -> Address:
    """The address, checked. `kind` is whose options count where it is not the URL's scheme."""
    environment = {
        name.removeprefix("PENSTOCK_").lower(): value
        for name, value in os.environ.items()
        if name.startswith("PENSTOCK_")
    }
    said_url = environment.pop("url", None)
    if url is not None and not is_a(url, str):
        raise InvalidURL(shown(url), "pass text, such as file:///var/lib/queue")
    if not url and said_url:
        try:
            return parse(said_url, given, kind)
        except InvalidURL as error:
            raise InvalidURL(
                said_url, f"{error.problem} (it comes from PENSTOCK_URL in the environment)"
            ) from None
    if not url:
        raise InvalidURL("", "pass one, or set PENSTOCK_URL; for example file:///var/lib/queue")
    scheme, place, path, query = _split(url)
    options = Options()
    settings: dict[str, Any] = {}
    kind = kind or scheme
    known = options_of(kind)
    # A variable is for every queue that is opened, so it counts where there is such an option.
    said = {name: value for name, value in environment.items() if name in known}
    server_url = ""
    if scheme in SERVER_SCHEMES:
        others = parameters_of_driver(url, scheme, query)
        query = {name: value for name, value in query.items() if name not in others}
        server_url = f"{url.partition('?')[0]}?{urlencode(others)}"
    for name, value in {**said, **query, **given}.items():
        try:
            if name not in known and (value is not None or name not in Options.__struct_fields__):
                raise _unknown(kind, name)
            _set(options, settings, name, value)
        except Refused as refused:
            text = value if is_a(value, str) else shown(value)
            words = f"{name}={text}" if refused.is_shown else name
            if name not in query and name not in given:
                words = f"PENSTOCK_{name.upper()}{words[len(name) :]} in the environment"
            problem = f"{words}: {refused.rule}"
            # Beside a store nobody has said a URL.
            raise InvalidURL(url, problem) if kind == scheme else InvalidInput(problem) from None
    named = frozenset(name for name, value in {**query, **given}.items() if value is not None)
    return Address(url, scheme, place, path, options, settings, server_url, named)


def fitting(url: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Of options that were meant for another address, those that make sense at this one."""
    known = options_of(_split(url)[0])
    return {
        name: value
        for name, value in options.items()
        if name in known or name not in Options.__struct_fields__
    }


def options_of(kind: str) -> list[str]:
    """The options that a queue of this kind has, its settings included."""
    names = (*Options.__struct_fields__, *sorted(_SETTINGS))
    return [name for name in names if kind in _ONLY_OF.get(name, (kind,))]


def _unknown(kind: str, name: str) -> Refused:
    """Of a name that no option of such a queue has, the nearest that one does."""
    known, own = options_of(kind), (OWN_OBJECTS, OWN_RECORDS)
    nearest = _nearest(_ELSEWHERE.get(name, name), [*known, *names_of_driver(kind)])
    others = name if name in _ONLY_OF else _nearest(name, _ONLY_OF)
    rule = f"{'a store of your own' if kind in own else f'{kind}://'} has no such option"
    if nearest is not None:
        rule += f"; {nearest} may be what you mean"
    elif others is not None:
        owners = ", ".join(f"{scheme}://" for scheme in _ONLY_OF[others] if scheme in _NAMED)
        rule += f"; {others} is one of {owners}; known here are {', '.join(known)}"
    else:
        rule += f"; known are {', '.join(known)}"
    # What it says may be a password, meant for a client that takes one there.
    return Refused(rule, is_shown=False)


def _nearest(name: str, known: Iterable[str]) -> str | None:
    return next(iter(get_close_matches(name, list(known), 1)), None)


def _split(url: str) -> tuple[str, str, str, dict[str, str]]:
    if _UNPRINTABLE.search(unquote(url)):
        raise InvalidURL(url, "it has a control character, or a byte that is no text")
    if "://" not in url:
        folder, _, words = url.partition("?")
        if ":" in folder.partition("/")[0]:
            raise InvalidURL(url, f"a scheme is written {folder.partition(':')[0]}://…")
        if not folder.strip():
            raise InvalidURL(url, "name a folder, before a question mark if there is one")
        path = str(Path(folder).absolute())
        _check_folder(url, path)
        return "file", "", path, _query(url, words)
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise InvalidURL(url, str(error)) from None
    scheme, place, path = parts.scheme, parts.netloc, unquote(parts.path)
    if scheme not in SCHEMES:
        known = ", ".join(f"{name}://" for name in SCHEMES)
        raise InvalidURL(url, f"the scheme {scheme}:// is not known; known are {known}")
    if parts.fragment:
        raise InvalidURL(url, "a # in a name is written %23")
    if "@" in place and scheme not in SERVER_SCHEMES:
        raise InvalidURL(url.replace(place, "…"), "credentials come from the environment")
    if scheme == "file" and place:
        raise InvalidURL(
            url,
            f"a folder is written as its path, {place}{path}, or file:///{place}{path} with three "
            "slashes, where it begins at the root",
        )
    if scheme == "file":
        _check_folder(url, path)
    if scheme == "sqlite" and (place or not path.strip("/")):
        raise InvalidURL(url, "a file is written sqlite:///var/lib/queue.db, with three slashes")
    if scheme in SERVER_SCHEMES:
        check_server(url, scheme, place, path)
    if scheme in CLOUD_SCHEMES:
        _check_bucket(url, scheme, place, path)
    if scheme == "memory" and path.strip("/"):
        raise InvalidURL(url, "memory:// takes a name at most: memory://name")
    path = path if scheme in ("file", "sqlite") else path.strip("/")
    return scheme, place, path, _query(url, parts.query)


def _query(url: str, words: str) -> dict[str, str]:
    pairs = parse_qsl(words, keep_blank_values=True)
    for name, _ in pairs:
        if sum(name == other for other, _ in pairs) > 1:
            raise InvalidURL(url, f"it says {name} more than once")
    return dict(pairs)


def _check_folder(url: str, path: str) -> None:
    """Nobody means to fill the root of a file system, which `file:///` and `/` would."""
    if not path.strip("/") or not os.path.normpath(path).strip("/"):
        raise InvalidURL(url, "name a folder, for example file:///var/lib/queue")


def _check_bucket(url: str, scheme: str, place: str, path: str) -> None:
    if not place:
        raise InvalidURL(url, f"name a bucket: {scheme}://bucket/prefix")
    if not _BUCKET.fullmatch(place):
        raise InvalidURL(url, f"a bucket's name has letters, digits and ._- only, not {place!r}")
    segments = path.strip("/").split("/") if path.strip("/") else []
    for segment in segments:
        if segment in ("", ".", ".."):
            raise InvalidURL(url, f"the prefix has the part {segment!r}; write it without")
        if any(letter.isspace() for letter in segment):
            raise InvalidURL(url, f"the prefix has a blank in {segment!r}; write - or _ there")


def _set(options: Options, settings: dict[str, Any], name: str, value: Any) -> None:
    if name == "default_retry":
        settings[name] = convert_retry(value)
    elif name in _SETTINGS:
        settings[name] = convert_setting(name, value)
    elif name in Options.__struct_fields__:
        setattr(options, name, convert_option(name, value, getattr(Options(), name)))
