"""Nothing that may be a password is shown, however an address is mistyped."""

from __future__ import annotations

import pytest

import penstock
from penstock.errors import PenstockError

SECRET = "SECRET"
ADDRESSES = [
    "postgresql://u:SECRET?PW@h:1/db",
    "postgresql://u:SECRET#PW@h:1/db",
    "redis://u:SECRET?PW@h:1/0",
    "redis://u:SECRET#PW@h:1/0",
    "postgres:u:SECRETPW@host/db",
    "postgresql:/u:SECRETPW@host/db",
    "postgresql://u:%zzSECRETPW@h/db",
    "postgresql://u:x@SECRET@h/db",
    "s3://b/p?endpoint=http://u:SECRETPW@localhost:1",
    "s3://b/p?endpoint=http://u:SECRETPW@local host:1",
    "redis://h:1/0?passwd=SECRET",
    "redis://h:1/0?pass=SECRET",
    "s3://b/p?secret_access_key=SECRET",
    "az://c/p?account_key=SECRET",
    "az://c/p?sas_token=SECRET",
]


@pytest.mark.parametrize("url", ADDRESSES)
async def test_a_password_is_never_shown(url: str) -> None:
    with pytest.raises(PenstockError) as raised:
        await penstock.open(url).start()
    assert SECRET not in str(raised.value)
    assert SECRET not in repr(raised.value)
