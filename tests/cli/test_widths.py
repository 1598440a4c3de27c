"""What tables give up where a terminal is narrow, and what they never do."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from rich.console import Console, RenderableType

from penstock.cli.fitted import FittedTable, cut_middle
from penstock.cli.list import job_table
from penstock.cli.stats import stats_table
from penstock.cli.top_frame import Curve, Frame, rendered
from penstock.cli.worker_table import worker_table
from penstock.insights.rates import Looks
from penstock.kernel.job import AttemptError, Job, State
from penstock.ports.backend import QueueStats, Stats, WorkerRecord
from penstock.testing.factories import a_job

ID = "01935c6e-8a11-7c40-9d2b-8a3f5e6b7c8d"
NOW = 1_794_868_784.0


def drawn(what: RenderableType, columns: int) -> list[str]:
    page = io.StringIO()
    Console(file=page, width=columns, highlight=False, markup=False).print(what)
    return [line.rstrip() for line in page.getvalue().splitlines()]


def failed_job() -> Job:
    error = AttemptError(1, NOW, "OSError", "the disk is on fire and nobody is there to see it")
    return a_job("resize", id=ID, queue="images", state=State.FAILED, errors=(error,), attempt=4)


def pending_job() -> Job:
    return a_job("resize", id=ID, queue="images", state=State.PENDING)


def worker() -> WorkerRecord:
    return WorkerRecord(
        id="worker-of-a-long-name-7f3a", host="h", pid=1, tenant="default",
        queues=["images", "mail"], concurrency=16, started_at=NOW - 90_000, seen_at=NOW - 2,
        state="running", running=[], counters={"completed": 1_234_567, "failed": 12}, busy=16,
    )  # fmt: skip


def stats(*, paused: bool = False) -> Stats:
    totals = {**{state.value: 0 for state in State}, "completed": 1_234_567, "failed": 12}
    queue = QueueStats("thumbnails-large", totals, 5, 2, 1, paused, NOW - 7_000)
    return Stats(totals, [queue], 5, 1, NOW)


def frame(*, paused: bool = False) -> Frame:
    address = "file:///var/lib/shop/of-a-customer/with-a-long-name/queue?layout=log"
    return Frame(address, "default", Looks().add(stats(paused=paused)), [worker()])


TABLES: dict[str, tuple[Callable[[], RenderableType], dict[int, str]]] = {
    "failed jobs": (
        lambda: job_table([failed_job()]),
        {
            60: "queue type state try error",
            80: "id queue type state try error",
            100: "id queue type state try error",
        },
    ),
    "waiting jobs": (
        lambda: job_table([pending_job()]),
        {
            60: "queue type state try due (UTC)",
            80: "id queue type state try",
            100: "id queue type state try due (UTC)",
        },
    ),
    "both": (
        lambda: job_table([failed_job(), pending_job()]),
        {
            60: "queue type state try error",
            80: "id queue type state try error",
            100: "id queue type state try error",
        },
    ),
    "stats": (
        lambda: stats_table(stats()),
        {
            60: "queue ready running completed failed oldest",
            80: "queue ready scheduled running completed failed oldest",
            100: "queue ready scheduled running completed failed cancelled total oldest",
        },
    ),
    "workers": (
        lambda: worker_table([worker()], NOW),
        {
            60: "worker state busy failures seen",
            80: "worker state queues busy completed failures seen",
            100: "worker state queues busy completed failures up seen",
        },
    ),
    "top": (
        lambda: rendered(frame()),
        {
            60: "queue ready running done/s failed/s oldest",
            80: "queue ready scheduled running in/s done/s failed/s oldest",
            100: "queue ready scheduled running in/s done/s failed/s oldest",
        },
    ),
}
WHOLE = {
    "failed jobs": ["images", "resize", "failed", "the disk is"],
    "waiting jobs": ["images", "resize", "pending"],
    "both": ["images", "resize", "failed", "pending", "the disk is"],
    "stats": ["thumbnails-large", "12", "1h56m"],
    "workers": ["running", "16/16", "2.0s ago"],
    "top": ["2026-11-16 22:39:44 UTC", "thumbnails-large", "1h56m", "2.0s ago", "12 failed"],
}


@pytest.mark.parametrize("columns", [60, 80, 100])
@pytest.mark.parametrize("name", TABLES)
def test_a_narrow_table_keeps_what_identifies_a_row_and_what_was_asked_for(
    name: str, columns: int
) -> None:
    draw, headers = TABLES[name]
    shown = drawn(draw(), columns)
    assert headers[columns] in [" ".join(line.split()) for line in shown]
    assert max(map(len, shown)) <= columns
    for words in WHOLE[name]:
        assert words in "\n".join(shown)


@pytest.mark.parametrize("columns", [40, 60, 80, 100])
@pytest.mark.parametrize("id", [ID, "an-id-of-my-own" * 4])
def test_an_id_is_whole_however_little_room_there_is(id: str, columns: int) -> None:
    ended = a_job("send_email", id=id, queue="default", state=State.COMPLETED)
    shown = drawn(job_table([failed_job(), ended]), columns)
    assert max(map(len, shown)) <= columns
    for each in (ID, id):
        assert each in "".join(shown), "what is longer than a line goes on in the next"
    assert "the dis" in "\n".join(shown)


def test_an_id_has_a_line_of_its_own_only_where_errors_would_be_cut_too_short() -> None:
    job = a_job("send_email", id=ID, queue="default", state=State.COMPLETED)
    assert drawn(job_table([failed_job(), job]), 80)[2].startswith(f"{ID}  images")
    assert drawn(job_table([failed_job(), job]), 70)[3] == ID


def test_a_name_is_cut_in_its_middle() -> None:
    assert cut_middle("日本語日本語", 6) == "日…語"


def test_a_state_is_never_cut() -> None:
    job = a_job("a-very-long-type" * 4, id=ID, queue="q" * 60, state=State.RUNNING, expired=True)
    assert "running (lease expired)" in "\n".join(drawn(job_table([job]), 60))


def test_a_table_without_rows_or_room_is_drawn_all_the_same() -> None:
    assert drawn(FittedTable("a", "b", giving_way={"a": 4}), 60)[0] == "a  b"
    assert drawn(job_table([failed_job()]), 10)


def test_top_speaks_of_pauses_only_where_something_is_paused() -> None:
    assert "paused" not in "\n".join(drawn(rendered(frame()), 80))
    assert drawn(rendered(frame(paused=True)), 80)[-1] == "q quits   ‖ paused"


def test_the_newest_of_a_curve_are_those_that_fit() -> None:
    assert drawn(Curve([8.0] * 50 + [1.0]), 10) == ["█████████▂"]
