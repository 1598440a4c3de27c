"""What a type checker sees of the blocking queue is beside this, in the stub of the same name.

When a program runs there is nothing here: `BlockingQueue` makes each method from that of `Queue`.
"""

from __future__ import annotations


class BlockingMethods:
    """Its stub is written from `Queue` by `python -m tests.client.blocking_stub`."""
