"""Work that threads hand to a loop in another thread: who owns it, and what can't end the loop."""

from __future__ import annotations

import asyncio
import contextlib
import dis
import itertools
import sys
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any

import pytest

from penstock.runtime.loops import LoopThread
from penstock.runtime.tasks import let_others_run
from tests.runtime.interrupting import interrupt_waiting

POINTS_MAX = 2_000


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    thread = LoopThread("tested")
    yield thread
    thread.stop()


class Lease:
    """Something that is taken in the loop, and given back there unless a thread got it."""

    def __init__(self) -> None:
        self.taken = self.given_back = 0

    @property
    def held(self) -> int:
        return self.taken - self.given_back

    async def take(self) -> Lease:
        await let_others_run()
        self.taken += 1
        return self

    async def give_back(self, _: Lease) -> None:
        for _turn in range(3):
            await let_others_run()
        self.given_back += 1


class Interrupt:
    """Raises `KeyboardInterrupt` at one of the points where Python would, in or below `run`."""

    def __init__(self, point: int) -> None:
        self._left = point
        self._points = signal_points(LoopThread.run.__code__)

    @property
    def has_come(self) -> bool:
        return self._left < 0

    def trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code is not LoopThread.run.__code__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and frame.f_lasti in self._points:
            self._left -= 1
            if self._left == -1:
                raise KeyboardInterrupt
        return self.trace


def signal_points(code: CodeType) -> set[int]:
    """The instructions before which Python looks for signals: after calls and jumps backward."""
    instructions = list(dis.get_instructions(code))
    points = {
        after.offset
        for before, after in itertools.pairwise(instructions)
        if before.opname.startswith(("CALL", "RESUME"))
    }
    return points | {
        int(one.argval) for one in instructions if one.opname.startswith("JUMP_BACKWARD")
    }


def test_an_interrupt_anywhere_in_the_handover_leaves_nothing_taken(thread: LoopThread) -> None:
    traced, met = sys.gettrace(), 0
    for point in range(POINTS_MAX):
        lease, interrupt = Lease(), Interrupt(point)
        work = lease.take()
        sys.settrace(interrupt.trace)
        try:
            thread.run(work, lease.give_back)
        except KeyboardInterrupt:
            met += 1
        finally:
            sys.settrace(traced)
        thread.run(thread.settle())
        work.close()  # if it came before anything else
        assert lease.held == (0 if interrupt.has_come else 1)
        if not interrupt.has_come:
            break
    assert met >= 3


def test_an_undoing_is_not_cancelled_with_the_work_that_had_a_result(
    thread: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The interrupt comes while the work is under way, and it ends well all the same."""
    lease = Lease()

    async def take() -> Lease:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return await lease.take()

    with monkeypatch.context() as patch:
        interrupt_waiting(patch, after_the_answer=False)
        with pytest.raises(KeyboardInterrupt):
            thread.run(take(), lease.give_back)
    thread.run(thread.settle())
    assert (lease.held, lease.given_back) == (0, lease.taken)


@pytest.mark.parametrize("error", [SystemExit(4), KeyboardInterrupt()])
def test_whatever_work_raises_reaches_its_caller_and_the_loop_goes_on(
    error: BaseException, thread: LoopThread
) -> None:
    async def fail() -> None:
        raise error

    async def fail_in_a_task() -> None:
        await asyncio.gather(fail())

    async def answer() -> str:
        return "here"

    for work in (fail, fail_in_a_task):
        with pytest.raises(type(error)) as raised:
            thread.run(work())
        assert raised.value is error
        assert thread.run(answer()) == "here"


def test_a_loop_that_somebody_stops_goes_on(thread: LoopThread) -> None:
    async def stop() -> str:
        asyncio.get_running_loop().stop()
        await let_others_run()
        return "here"

    assert thread.run(stop()) == "here"
