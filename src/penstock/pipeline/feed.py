"""The port between a queue and the tables: what there is to be taken, and in which pieces.

A piece is named by the cursors before and after it, and its rows never change: whoever takes it
again, because it was killed or because another table is further behind, takes the same. Every event
of the queue is in one piece exactly, unless it was vacuumed, which `Gap` says.
"""

from __future__ import annotations

from typing import Protocol

from pyspark.sql import DataFrame


class Feed(Protocol):
    @property
    def is_streamed(self) -> bool:
        """Whether Spark can stream it: its pieces are ranges of commits."""
        ...

    def head(self, cursor: int) -> int:
        """How far the tables can be brought as of now; none of them is behind the cursor."""
        ...

    def reach(self, cursor: int, head: int, commits_max: int) -> int:
        """How far to go from the cursor on in one piece."""
        ...

    def is_idle(self, cursor: int, head: int) -> bool:
        """Whether nothing is new but this reader's own last move."""
        ...

    def read(self, table: str, first: int, last: int) -> DataFrame:
        """Events or commits of the piece after `first - 1`, up to `last`."""
        ...
