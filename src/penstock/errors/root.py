"""The root of the tree."""

from __future__ import annotations


class PenstockError(Exception):
    """The root: `except PenstockError` catches everything that penstock raises on purpose."""
