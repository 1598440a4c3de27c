"""URLs of servers: who is there, at which ports, and which words are for the driver."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from penstock.errors import InvalidURL

POSTGRES_SCHEMES: Final = ("postgresql", "postgres")
"""Those whose URLs may have parameters of libpq's."""
LIBPQ_NAMES: Final = (
    "application_name", "channel_binding", "client_encoding", "connect_timeout", "dbname",
    "fallback_application_name", "gssdelegation", "gssencmode", "gsslib", "host", "hostaddr",
    "keepalives", "keepalives_count", "keepalives_idle", "keepalives_interval", "krbsrvname",
    "load_balance_hosts", "max_protocol_version", "min_protocol_version", "oauth_client_id",
    "oauth_client_secret", "oauth_issuer", "oauth_scope", "options", "passfile", "password",
    "port", "replication", "require_auth", "requirepeer", "requiressl", "scram_client_key",
    "scram_server_key", "service", "servicefile", "ssl_max_protocol_version",
    "ssl_min_protocol_version", "sslcert", "sslcertmode", "sslcompression", "sslcrl",
    "sslcrldir", "sslkey", "sslkeylogfile", "sslmode", "sslnegotiation", "sslpassword",
    "sslrootcert", "sslsni", "target_session_attrs", "tcp_user_timeout", "user",
)  # fmt: skip
"""What libpq takes, up to PostgreSQL 18; any other word in a URL is a mistake."""
SENTINEL_SCHEMES: Final = ("redis+sentinel", "rediss+sentinel")
"""Those of Redis behind Sentinels, which are asked for the master."""
REDIS_SCHEMES: Final = ("redis", "rediss", *SENTINEL_SCHEMES)
SERVER_SCHEMES: Final = (*POSTGRES_SCHEMES, *REDIS_SCHEMES)
"""Those of servers, whose URLs may have credentials."""
PORT_MAX: Final = 65_535
TLS_VALUES: Final[dict[str, str]] = {
    "ssl_certfile": ".+",
    "ssl_keyfile": ".+",
    "ssl_password": ".*",
    "ssl_ca_certs": ".+",
    "ssl_ca_path": ".+",
    "ssl_cert_reqs": "required|optional|none",
    "ssl_check_hostname": "true|false",
}
"""What a URL of Redis over TLS may say, in the words of its driver."""
_SENTINEL_VALUES: Final = {"sentinel_username": ".*", "sentinel_password": ".*"}
_PORT: Final = re.compile(r"^(\[[^\]]*\]|[^:\[\]]*)(?::(.*))?$")


def check_server(url: str, scheme: str, place: str, path: str) -> None:
    """Refuses what no driver could make sense of."""
    _check_ports(url, place)
    if scheme in SENTINEL_SCHEMES:
        _check_sentinels(url, scheme, place, path)
    elif scheme in REDIS_SCHEMES and not (
        urlsplit(url).hostname and re.fullmatch(r"/?[0-9]{0,5}", path)
    ):
        raise InvalidURL(url, f"a server is written {scheme}://host:6379/0, with a number at most")


def names_of_driver(scheme: str) -> tuple[str, ...]:
    """The parameters in a URL that the driver takes."""
    if scheme in POSTGRES_SCHEMES:
        return LIBPQ_NAMES
    return tuple(_rules(scheme)) if scheme in REDIS_SCHEMES else ()


def parameters_of_driver(url: str, scheme: str, query: Mapping[str, str]) -> dict[str, str]:
    """What of a query is for the driver."""
    names = names_of_driver(scheme)
    said = {name: value for name, value in query.items() if name in names}
    if scheme in POSTGRES_SCHEMES:
        return said
    rules = _rules(scheme)
    for name, value in said.items():
        if name in TLS_VALUES and not scheme.startswith("rediss"):
            raise InvalidURL(url, f"{name} is about TLS, which rediss{scheme[5:]}:// asks for")
        if not re.fullmatch(rules[name], value):
            named = "a path" if rules[name] == ".+" else rules[name].replace("|", " or ")
            raise InvalidURL(url, f"{name} is {named}")
    if "ssl_keyfile" in said and "ssl_certfile" not in said:
        raise InvalidURL(url, "ssl_keyfile is the key of a certificate: say ssl_certfile, too")
    return said


def _rules(scheme: str) -> dict[str, str]:
    return {**TLS_VALUES, **(_SENTINEL_VALUES if scheme in SENTINEL_SCHEMES else {})}


def _check_ports(url: str, place: str) -> None:
    """Of each server: a URL of PostgreSQL or of Sentinels may name several."""
    if place.count("@") > 1:
        raise InvalidURL(url, "an @ in a user's name or password is written %40")
    for host in place.rpartition("@")[2].split(","):
        # Without what follows the colon: of a URL that was cut at a slash that may be a password.
        name, port = host.rpartition(":")[0], _PORT.search(host)
        if port is None or (port[2] and not (port[2].isascii() and port[2].isdecimal())):
            raise InvalidURL(url, f"the port of {name!r} is no number, as in host:6379")
        if port[2] and int(port[2]) > PORT_MAX:
            raise InvalidURL(url, f"the port of {name!r} is above {PORT_MAX}")


def _check_sentinels(url: str, scheme: str, place: str, path: str) -> None:
    hosts = [_PORT.search(host) for host in place.rpartition("@")[2].split(",")]
    if not all(host and host[1] for host in hosts) or not re.fullmatch(
        r"/[^/]+(?:/[0-9]{0,5})?", path
    ):
        raise InvalidURL(
            url,
            f"Sentinels are written {scheme}://host:26379,host:26379/service/0: where they are, "
            "by what name they know the master, and the number of a database at most",
        )
