"""Addresses as messages show them."""

from __future__ import annotations

import re
from typing import Final

_USER: Final = re.compile(r"://[^?#]*@")
_PASSWORD: Final = re.compile(r"([?&][a-z]*password=)[^&#]*", re.IGNORECASE)


def without_credentials(url: str) -> str:
    return _PASSWORD.sub(r"\1…", _USER.sub("://…@", url))
