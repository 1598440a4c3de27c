"""A queue's address and options: from the URL, the call and the environment, checked.

Precedence: an argument of the call, then the URL's query, then `PENSTOCK_…` in the environment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

import msgspec
from msgspec import Struct

from penstock.engines.ledger.marker import LAYOUTS
from penstock.engines.records.tasks.names import INDEX_MODES, shards_in
from penstock.errors import InvalidInput, InvalidJob, InvalidURL
from penstock.errors.addresses import without_credentials
from penstock.errors.input import shown
from penstock.kernel.plain import SECONDS_MAX, WHOLE_MAX, is_a, plain_number, plain_text
from penstock.kernel.retry import RetryPolicy
from penstock.kernel.settings import DEFAULT_SETTINGS, Settings, SettingsChanges
from penstock.server_url import SERVER_SCHEMES, check_server, parameters_of_driver

STORES: Final = ("file", "s3", "gs", "az")
"""Those of queues that lie in an object store."""
CLOUD_SCHEMES: Final = ("s3", "gs", "az")
RECORD_SCHEMES: Final = ("sqlite", *SERVER_SCHEMES)
"""Those that keep one record per job, and have no layout."""
SCHEMES: Final = ("memory", *STORES, *RECORD_SCHEMES)
_SCHEMA: Final = re.compile(r"[a-z_][a-z0-9_]{0,49}")
_PREFIX: Final = re.compile(r"[A-Za-z0-9._:-]+")
_BUCKET: Final = re.compile(r"[A-Za-z0-9._-]+")
_UNPRINTABLE: Final = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
_SETTINGS: Final = frozenset(Settings.__struct_fields__)
OUTCOME_SECONDS_MIN: Final = 0.001
"""Who waits for no answer at all is told nothing but that it is unknown."""
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


class Bounds(NamedTuple):
    """What a number among the options can be."""

    least: float
    most: float
    rule: str
    is_whole: bool = False

    def within(self, number: float) -> float:
        if not self.least <= number <= self.most or (self.is_whole and number != int(number)):
            raise _Refused(self.rule)
        return int(number) if self.is_whole else float(number)


NUMBERS: Final = {
    "payload_bytes_max": Bounds(1, WHOLE_MAX, "a whole number of bytes, 1 or more", is_whole=True),
    "outcome_seconds_max": Bounds(
        OUTCOME_SECONDS_MIN, SECONDS_MAX, f"{OUTCOME_SECONDS_MIN:g} to {SECONDS_MAX:,.0f} seconds"
    ),
}
"""Every option that is a number; what the settings of the whole queue can be, `Settings` says."""


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


def parse(url: str | None, given: Mapping[str, Any]) -> Address:
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
            return parse(said_url, given)
        except InvalidURL as error:
            raise InvalidURL(
                said_url, f"{error.problem} (it comes from PENSTOCK_URL in the environment)"
            ) from None
    if not url:
        raise InvalidURL("", "pass one, or set PENSTOCK_URL; for example file:///var/lib/queue")
    scheme, place, path, query = _split(url)
    options = Options()
    settings: dict[str, Any] = {}
    known = set(Options.__struct_fields__) | _SETTINGS
    said = {name: value for name, value in environment.items() if name in known}
    server_url = ""
    if scheme in SERVER_SCHEMES:
        others = parameters_of_driver(url, scheme, query, known)
        query = {name: value for name, value in query.items() if name not in others}
        server_url = f"{url.partition('?')[0]}?{urlencode(others)}"
    for name, value in {**said, **query, **given}.items():
        try:
            _set(scheme, options, settings, name, value)
        except _Refused as refused:
            text = value if is_a(value, str) else shown(value)
            words = f"{name}={text}" if refused.is_shown else name
            if name not in query and name not in given:
                words = f"PENSTOCK_{name.upper()}{words[len(name) :]} in the environment"
            raise InvalidURL(url, f"{words}: {refused.rule}") from None
    return Address(url, scheme, place, path, options, settings, server_url)


class _Refused(Exception):  # a word between two functions of this file
    """A value that an option can't have; whoever knows where it came from says so."""

    def __init__(self, rule: str, *, is_shown: bool = True) -> None:
        super().__init__(rule)
        self.rule = rule
        self.is_shown = is_shown


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


def _set(scheme: str, options: Options, settings: dict[str, Any], name: str, value: Any) -> None:
    if name == "default_retry":
        settings[name] = _retry(value)
    elif name in _SETTINGS:
        settings[name] = _setting(name, value)
    elif name in Options.__struct_fields__:
        setattr(options, name, _converted(scheme, name, value))
    else:
        known = ", ".join(sorted({*Options.__struct_fields__, *_SETTINGS}))
        # What it says may be a password, meant for a client that takes one there.
        raise _Refused(f"no option has that name; known are {known}", is_shown=False)


def _converted(scheme: str, name: str, value: Any) -> Any:
    default = getattr(Options(), name)
    if isinstance(default, bool):
        return _switch(value)
    if name in NUMBERS:
        return NUMBERS[name].within(_number(name, value))
    if value is None and default is None:
        return None
    try:
        text = plain_text(name, value)
    except InvalidJob as error:
        raise _Refused(error.rule) from None
    _check_text(scheme, name, text)
    return text


def _check_text(scheme: str, name: str, value: str) -> None:
    if name == "endpoint":
        _check_endpoint(value)
    elif name == "layout" and scheme in RECORD_SCHEMES:
        raise _Refused(f"{scheme}:// has tables and no layout")
    elif name == "layout" and value not in LAYOUTS:
        raise _Refused(f"known are {', '.join(LAYOUTS)}")
    elif name == "index" and value not in INDEX_MODES:
        raise _Refused(f"known are {', '.join(INDEX_MODES)}")
    elif name == "schema" and not _SCHEMA.fullmatch(value):
        raise _Refused("small letters, digits and _, at most 50")
    elif name == "prefix" and not _PREFIX.fullmatch(value):
        raise _Refused("letters, digits and ._:- are fine")
    elif name == "shards":
        try:
            shards_in(value)
        except ValueError:
            raise _Refused("hex digits, as in 0-7 or 0,4,c") from None


def _check_endpoint(endpoint: str) -> None:
    try:
        parts = urlsplit(endpoint)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fine = False
    if "@" in endpoint:
        raise _Refused("credentials come from the environment", is_shown=False)
    if not fine or any(letter.isspace() for letter in endpoint):
        raise _Refused("write http://host:port or https://host")


def _retry(value: Any) -> RetryPolicy:
    if is_a(value, RetryPolicy):
        return value
    example = 'a RetryPolicy, or JSON such as {"initial_seconds": 5}'
    try:
        return msgspec.json.decode(plain_text("default_retry", value), type=RetryPolicy)
    except (msgspec.MsgspecError, InvalidInput) as error:
        raise _Refused(f"{example} ({error})") from None


def _setting(name: str, value: Any) -> float | None:
    """One of the whole queue's, which knows itself what it can be."""
    if value is None and getattr(DEFAULT_SETTINGS, name) is None:
        return None
    number = _number(name, value)
    alone: dict[str, Any] = {name: number}
    try:
        Settings(**alone)
    except InvalidJob as error:
        raise _Refused(error.rule) from None
    return number


def _switch(value: Any) -> bool:
    words = value if is_a(value, str) else shown(value)
    switch = {**_ON, **_OFF}.get(words.lower())
    if switch is None:
        raise _Refused("on or off")
    return switch


def _number(name: str, value: Any) -> float:
    try:
        # From a URL or the environment it comes as text.
        number = float(value) if is_a(value, str) else plain_number(name, value)
    except ValueError:
        raise _Refused("it must be a number") from None
    if not isfinite(number):
        raise _Refused("it must be a finite number")
    return int(number) if number == int(number) and "seconds" not in name else number
