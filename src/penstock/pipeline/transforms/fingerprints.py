"""What error messages have in common: the message without what differs from one to the next."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as sf

REPLACEMENTS: Final = (
    (r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}", "<uuid>"),
    (r'"[^"]*"', "<text>"),
    (r"(?<![0-9A-Za-z_])'[^']*'", "<text>"),
    (r"0[xX][0-9a-fA-F]+", "<hex>"),
    (r"(?<![0-9A-Za-z_])(?=[a-fA-F]*[0-9])[0-9a-fA-F]{8,}(?![0-9A-Za-z_])", "<hex>"),
    (r"[0-9]+", "<number>"),
)
"""Applied in this order; written so that Java and Python read them alike."""

FINGERPRINT_CHARACTERS: Final = 16


def normalised(message: Column) -> Column:
    for pattern, placeholder in REPLACEMENTS:
        message = sf.regexp_replace(message, pattern, placeholder)
    return message


def fingerprint(message: Column) -> Column:
    return sf.left(sf.sha2(normalised(message).cast("binary"), 256), sf.lit(FINGERPRINT_CHARACTERS))
