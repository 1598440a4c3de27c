"""Ready jobs in lanes, and boards that show which lane is next.

A lane holds what is ready of one queue, type and priority, in claim order, so that its head is also
the one that has waited longest. A *board* is a heap of lanes by their heads. Every lane is on four
of them: that of its queue and type, of its queue, of its type, and of everything. Whatever a claim
asks for is a few boards, and it walks these from their roots: it opens the lanes whose
head can be next, and looks at no others. Lanes of a paused queue are on the boards that name
the queue only, so that they are in nobody's way.

Heads change all the time and boards are told of few changes. A head that is claimed leaves its
board with a bound: no job of the lane comes before it. A bound that has come to the root of the
board is made exact before anybody looks; one that lies deeper is made exact by the walk that
comes upon it. A job that goes before all others of its lane is told at once. So one job
costs one entry in its lane, and a board costs O(log lanes) per lane that was taken from.

Lanes and boards that have become empty are let go. A lane's name may get more parts one
day: then a lane is on more boards, and nothing else changes here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final, TypeAlias

from penstock.kernel.job import Job
from penstock.kernel.order import Entry, Ranking
from penstock.kernel.segments import Head

LaneName: TypeAlias = tuple[str, str, int]
"""Queue, type and priority."""

BoardName: TypeAlias = tuple[str | None, str | None]
"""Queue and type; None: all of them."""

_EVERYTHING: Final[BoardName] = (None, None)

_DEAD_NODES_MIN: Final = 64
"""Below this many dead nodes building a board again is not worth its while."""


class Lane(Ranking):
    __slots__ = ("name",)

    def __init__(self, name: LaneName, is_current: Callable[[Job | Head], bool]) -> None:
        super().__init__(is_current)
        self.name = name

    def __lt__(self, other: object) -> bool:
        # Two lanes never have the same head; nodes of one lane may come in either order.
        return False

    def add(self, entry: Entry) -> bool:
        """Whether nothing lies before it now, not even an entry that has died."""
        heap = self._heap
        heappush(heap, entry)
        return heap[0] is entry


Node: TypeAlias = tuple[Entry, Lane]
"""A lane on a board: its head, or an entry that was before its head."""


class Board:
    __slots__ = ("_dead", "_heap", "_nodes")

    def __init__(self) -> None:
        self._heap: list[Node] = []
        self._nodes: dict[Lane, Node] = {}
        """Of each lane the node that counts; others of it in the heap are dead."""
        self._dead = 0

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[Lane]:
        return iter(self._nodes)

    def show(self, lane: Lane, head: Entry) -> None:
        """From now on the lane begins with this, which is before all that it had."""
        was_shown = lane in self._nodes
        node = self._nodes[lane] = (head, lane)
        heappush(self._heap, node)
        if was_shown:
            self._note_death()

    def remove(self, lane: Lane) -> None:
        del self._nodes[lane]
        self._note_death()

    def first(self) -> Node | None:
        """The lane whose head is next, after making the root exact."""
        heap, nodes = self._heap, self._nodes
        while heap:
            node = heap[0]
            lane = node[1]
            if nodes.get(lane) is not node:
                heappop(heap)
                self._dead -= 1
                continue
            head = lane.first()
            assert head is not None, "an empty lane is on no board"
            if head is node[0]:
                return node
            nodes[lane] = node = (head, lane)
            heapreplace(heap, node)
        return None

    def lane_at(self, index: int) -> Lane | None:
        """The lane of a node of the heap, if that node counts."""
        node = self._heap[index]
        lane = node[1]
        return lane if self._nodes.get(lane) is node else None

    def below(self, index: int) -> list[tuple[Entry, int]]:
        """The nodes right below one in the heap: their bounds and indexes."""
        first = 2 * index + 1
        nodes = self._heap[first : first + 2]
        return [(node[0], place) for place, node in enumerate(nodes, start=first)]

    def _note_death(self) -> None:
        self._dead += 1
        if self._dead > _DEAD_NODES_MIN and self._dead * 2 > len(self._heap):
            self._heap = list(self._nodes.values())
            heapify(self._heap)
            self._dead = 0


class Lanes:
    """All lanes of one tenant."""

    __slots__ = ("_boards", "_is_current", "_lanes", "paused")

    def __init__(self, is_current: Callable[[Job | Head], bool]) -> None:
        self.paused: set[str] = set()
        self._lanes: dict[LaneName, Lane] = {}
        self._boards: dict[BoardName, Board] = {}
        self._is_current = is_current

    def __len__(self) -> int:
        return len(self._lanes)

    def __iter__(self) -> Iterator[Lane]:
        """Those that have something ready, in no order."""
        return iter(self._lanes.values())

    def of_queue(self, queue: str) -> Iterator[Lane]:
        """Those of one queue that have something ready, in no order."""
        return iter(self._boards.get((queue, None), ()))

    def push(self, pending: Job | Head) -> None:
        name = (pending.queue, pending.type, pending.priority)
        place = pending.source or pending.life
        entry = (pending.priority, pending.run_at, place, pending.row, pending)
        lane = self._lanes.get(name)
        if lane is None:
            lane = self._lanes[name] = Lane(name, self._is_current)
        if lane.add(entry):
            for board in self._board_names(name):
                self._show(board, lane, entry)

    def note_death(self, pending: Job | Head) -> None:
        """Something in a lane is ready no longer, or as another version."""
        name = (pending.queue, pending.type, pending.priority)
        lane = self._lanes[name]
        if not lane.note_death():
            del self._lanes[name]
            for board in self._board_names(name):
                self._remove(board, lane)

    def pause(self, queue: str) -> None:
        if queue not in self.paused:
            self.paused.add(queue)
            for lane in self._boards.get((queue, None), ()):
                for board in _common_board_names(lane.name):
                    self._remove(board, lane)

    def resume(self, queue: str) -> None:
        if queue in self.paused:
            self.paused.discard(queue)
            for lane in self._boards.get((queue, None), ()):
                head = lane.first()
                assert head is not None, "an empty lane is on no board"
                for board in _common_board_names(lane.name):
                    self._show(board, lane, head)

    def in_order(
        self, queues: Iterable[str] | None, types: Iterable[str] | None
    ) -> Iterator[Entry]:
        """What is ready of these queues and types and not paused, first to last."""
        boards = self._asked(queues, types)
        if len(boards) == 1 and len(boards[0]) == 1:
            return next(iter(boards[0])).in_order()
        return _walk(boards)

    def heads(self, queues: Iterable[str] | None, types: Iterable[str] | None) -> Iterator[Entry]:
        """The first of each of those lanes, in no order."""
        for board in self._asked(queues, types):
            for lane in board:
                head = lane.first()
                assert head is not None, "an empty lane is on no board"
                yield head

    def _asked(self, queues: Iterable[str] | None, types: Iterable[str] | None) -> list[Board]:
        if queues is None and types is None:
            everything = self._boards.get(_EVERYTHING)
            return [] if everything is None else [everything]
        wanted = (None,) if types is None else tuple(dict.fromkeys(types))
        return [
            self._boards[queue, type]
            for queue in ((None,) if queues is None else dict.fromkeys(queues))
            if queue not in self.paused
            for type in wanted
            if (queue, type) in self._boards
        ]

    def _board_names(self, name: LaneName) -> tuple[BoardName, ...]:
        queue, type, _ = name
        own: tuple[BoardName, ...] = (queue, type), (queue, None)
        return own if queue in self.paused else own + _common_board_names(name)

    def _show(self, name: BoardName, lane: Lane, head: Entry) -> None:
        board = self._boards.get(name)
        if board is None:
            board = self._boards[name] = Board()
        board.show(lane, head)

    def _remove(self, name: BoardName, lane: Lane) -> None:
        board = self._boards[name]
        board.remove(lane)
        if not board:
            del self._boards[name]


def _common_board_names(name: LaneName) -> tuple[BoardName, ...]:
    """The boards on which a lane meets those of other queues."""
    return (None, name[1]), (None, None)


def _walk(boards: list[Board]) -> Iterator[Entry]:
    """What is in the lanes of these boards, first to last, without changing anything.

    The frontier holds nodes of boards that nobody has looked behind yet, and opened lanes by what
    they have next. A number keeps it from comparing more than entries.
    """
    frontier: list[tuple[Entry, int, Iterator[Entry] | tuple[Board, int]]] = []
    number = 0
    for board in boards:
        node = board.first()
        if node is not None:
            frontier.append((node[0], number, (board, 0)))
            number += 1
    heapify(frontier)
    while frontier:
        entry, _, source = heappop(frontier)
        if not isinstance(source, tuple):
            yield entry
            rest = source
        else:
            board, index = source
            lane = board.lane_at(index)
            rest = iter(()) if lane is None else lane.in_order()
            if lane is not None and lane.first() is entry:
                # Before looking any further, since most claims take no more than they find here.
                yield entry
                next(rest)
            for child in board.below(index):
                number += 1
                heappush(frontier, (child[0], number, (board, child[1])))
        following = next(rest, None)
        if following is not None:
            number += 1
            heappush(frontier, (following, number, rest))
