"""Addresses as messages show them."""

from __future__ import annotations

import re
from typing import Final

_USER: Final = re.compile(r"(:(?://)?).*@", re.DOTALL)
"""Up to the last @, whatever is before it: who mistypes an address writes its password all the
same."""
_SECRET: Final = re.compile(
    r"([?&][^=&#]*(?:pass|pwd|secret|key|token|sas|credential)[^=&#]*=)[^&#]*", re.IGNORECASE
)


def without_credentials(url: str) -> str:
    return _SECRET.sub(r"\1…", _USER.sub(r"\1…@", url))
