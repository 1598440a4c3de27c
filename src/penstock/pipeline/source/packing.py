"""Many small objects into few tasks: a task costs more than a commit does."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import pairwise
from math import ceil
from typing import Final

from penstock.pipeline.source.chunks import Span

PARTITION_BYTES_MIN: Final = 1024 * 1024
"""Less than this is not worth a task of its own."""
PARTITION_BYTES_MAX: Final = 256 * 1024 * 1024
"""More than this is too much to do again when a task fails."""


def packed(span: Span, sizes: Mapping[int, int], count: int | None = None) -> list[Span]:
    """The span in parts of about the same weight: so many, or about as many as there are cores."""
    if not span:
        return []
    total = sum(sizes.get(commit, 0) for commit in range(span.first, span.last + 1))
    parts = min(count or _parts(total), span.last - span.first + 1)
    spans: list[Span] = []
    first, weight = span.first, 0
    for commit in range(span.first, span.last + 1):
        weight += sizes.get(commit, 0)
        parts_left = parts - len(spans) - 1
        is_full = weight * parts >= total * (len(spans) + 1)
        if (is_full and parts_left > 0) or span.last - commit <= parts_left:
            spans.append(Span(first, commit))
            first = commit + 1
    return spans


def _parts(total_bytes: int) -> int:
    cores = os.cpu_count() or 1
    most = max(cores, ceil(total_bytes / PARTITION_BYTES_MAX))
    return max(1, min(most, ceil(total_bytes / PARTITION_BYTES_MIN)))


def split(span: Span, count: int) -> list[Span]:
    """The span in so many parts of as many commits, or one less."""
    commits = max(span.last - span.first + 1, 0)
    parts = min(count, commits)
    ends = [span.first + commits * part // parts for part in range(parts + 1)] if parts else []
    return [Span(first, following - 1) for first, following in pairwise(ends)]
