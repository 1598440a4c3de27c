"""Whatever is wrong with a call gets one error that says what to do, and nothing is stored."""

from __future__ import annotations

import builtins
import importlib.util
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from math import inf, nan
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import msgspec
import pytest

import penstock
from penstock import NewJob, Queue, RetryPolicy, address, option_values
from penstock.engines.ledger.marker import PROBE_WRITERS
from penstock.errors import (
    InvalidInput,
    InvalidJob,
    InvalidURL,
    JobNotFound,
    LeaseLost,
    MissingExtra,
    PayloadInvalid,
    PayloadTooLarge,
    PenstockError,
    PutUnknown,
    QueueClosed,
    StoreMissing,
    StoreUnfit,
)
from penstock.runtime.services import Services
from penstock.server_url import LIBPQ_NAMES
from penstock.stores.memory import MemoryStore
from penstock.testing.clock import FakeClock
from penstock.testing.conformance.backend.steps import claimed
from penstock.testing.faults import Faults
from penstock.testing.faulty_store import FaultyStore
from tests.servers.seaweed import ACCESS_KEY, SECRET_KEY, Seaweed

ADDRESSES = {
    "empty": ("", "PENSTOCK_URL"),
    "no scheme": ("s3:bucket/queue", "s3://"),
    "unknown scheme": ("ftp://bucket/queue", "file://"),
    "bad port": ("s3://[bucket/queue", "IPv6|netloc|bracket"),
    "one slash short": ("file://queue", "as its path, queue, or file:///queue"),
    "two slashes short of a path": ("file://var/lib/queue", "file:///var/lib/queue"),
    "no folder": ("file:///", "name a folder"),
    "no folder and no slash": ("file://", "name a folder"),
    "blanks": ("   ", "name a folder"),
    "an option twice": ("memory://?layout=log&layout=single", "more than once"),
    "the root of the file system": ("/", "name a folder"),
    "a way to the root": ("file:///a/..", "name a folder"),
    "no bucket": ("s3:///queue", "s3://bucket/prefix"),
    "password in it": ("s3://me:secret@bucket/queue", "environment"),
    "user in it": ("gs://me@bucket/queue", "environment"),
    "memory with a path": ("memory://name/path", "memory://name"),
    "unknown option": ("s3://bucket?layuot=log", "layout may be what you mean"),
    "unknown layout": ("s3://bucket?layout=tree", "log, single"),
    "an option of other places": ("memory://?layout=log", "layout is one of file://, s3://"),
    "a schema on Redis": ("redis://host/0?schema=a", "schema: redis.*; prefix may be what"),
    "a prefix on PostgreSQL": ("postgresql://host/a?prefix=b", "prefix: .*; schema may be what"),
    "a mistyped option of others": ("postgresql://host/a?layuot=x", "layuot: .*layout is one of"),
    "a mistyped word for libpq": ("postgresql://host/a?sslmod=x", "sslmod: .*sslmode may be"),
    "a mistyped word for TLS": ("rediss://host?ssl_certfil=x", "ssl_certfile may be what"),
    "shards of a file": ("sqlite:///queue.db?shards=0-7", "shards: sqlite:// has no such option"),
    "fsync of a bucket": ("s3://bucket?fsync=off", "fsync is one of file://"),
    "a region of a folder": ("file:///queue?region=here", "region is one of s3://"),
    "bad number": ("memory://?result_ttl_seconds=soon", "number"),
    "not a number": ("memory://?result_ttl_seconds=nan", "number"),
    "infinite": ("memory://?result_ttl_seconds=inf", "number"),
    "infinite whole number": ("memory://?finished_jobs_max=inf", "number"),
    "infinite option": ("memory://?payload_bytes_max=inf", "number"),
    "bad switch": ("memory://?group_commit=maybe", "on or off"),
}

Use = Callable[[Queue], Awaitable[Any]]

OPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "a negative size": ({"payload_bytes_max": -1}, "1 or more"),
    "no size": ({"payload_bytes_max": 0}, "1 or more"),
    "half a byte": ({"payload_bytes_max": 1.5}, "whole number"),
    "a size that no store has": ({"payload_bytes_max": 2**60}, "whole number"),
    "a negative wait": ({"outcome_seconds_max": -5}, "0.001 to 10,000,000,000 seconds"),
    "no wait": ({"outcome_seconds_max": 0}, "0.001 to 10,000,000,000 seconds"),
    "a wait that is no number": ({"outcome_seconds_max": "long"}, "number"),
    "a wait for ever": ({"outcome_seconds_max": 10**12}, "seconds"),
    "a negative setting": ({"result_ttl_seconds": -1}, "negative"),
    "half a job": ({"finished_jobs_max": 0.5}, "whole number"),
    "no attempts": ({"default_max_attempts": 0}, "more than 0"),
    "no time for an attempt": ({"default_timeout_seconds": 0}, "more than 0"),
    "a log that is too short": ({"log_retention_seconds": 60}, "at least 3600"),
}

NAMES = {
    "with a slash": "a/b",
    "with a backslash": "a\\b",
    "with a line break": "a\nb",
    "with a null": "a\0b",
    "with a C1 control": "a\x85b",
    "with half a surrogate": "a\ud800b",
    "too long": "x" * 201,
    "empty": "",
    "padded": " a",
    "not text": 7,
    "a list": ["a"],
}
NUMBERS = {"negative": -1, "nan": nan, "infinite": inf, "text": "1", "true": True, "none": [1]}

JOBS: dict[str, tuple[dict[str, Any], str]] = {
    **{f"id {what}": ({"id": name}, "id") for what, name in NAMES.items()},
    **{f"type {what}": ({"type": name}, "type") for what, name in NAMES.items()},
    **{f"queue {what}": ({"queue": name}, "queue") for what, name in NAMES.items()},
    **{f"delay {what}": ({"delay_seconds": n}, "delay_seconds") for what, n in NUMBERS.items()},
    **{f"unique {what}": ({"unique_seconds": n}, "unique_seconds") for what, n in NUMBERS.items()},
    **{f"limit {what}": ({"timeout_seconds": n}, "timeout_seconds") for what, n in NUMBERS.items()},
    "no time at all": ({"timeout_seconds": 0}, "timeout_seconds"),
    "run_at nan": ({"run_at": nan}, "run_at"),
    "run_at without a time zone": ({"run_at": datetime(2030, 1, 1)}, "run_at"),  # noqa: DTZ001
    "run_at and a delay": ({"run_at": 2e9, "delay_seconds": 1}, "run_at"),
    "key too long": ({"key": "k" * 201}, "key"),
    "key not text": ({"key": 7}, "key"),
    "key with half a surrogate": ({"key": "\ud800"}, "key"),
    "priority not whole": ({"priority": 0.5}, "priority"),
    "priority too large": ({"priority": 2**40}, "priority"),
    "no attempts": ({"max_attempts": 0}, "max_attempts"),
    "half an attempt": ({"max_attempts": 1.5}, "max_attempts"),
    "retry not a policy": ({"retry": {"initial_seconds": 1}}, "retry"),
    "meta not a dict": ({"meta": [1]}, "meta"),
    "meta that can't be encoded": ({"meta": {"a": object()}}, "meta"),
    "meta with half a surrogate": ({"meta": {"a": "\ud800"}}, "meta"),
    "meta with keys that are not text": ({"meta": {1: "a"}}, "meta"),
    "trace not text": ({"trace": 7}, "trace"),
    "trace with half a surrogate": ({"trace": "\ud800"}, "trace"),
}

ITSELF: list[Any] = []
ITSELF.append(ITSELF)

VALUES: dict[str, tuple[Any, str | None]] = {
    "an object": (object(), None),
    "half a surrogate": ("\ud800", None),
    "text as raw": ("text", "raw"),
    "an unknown codec": (1, "cbor"),
    "a number too large for message pack": (2**70, "msgpack"),
    "itself": (ITSELF, None),
}

CALLS: dict[str, Use] = {
    "ack of a text": lambda queue: queue.ack("x"),  # type: ignore[arg-type]
    "claim of one and a half": lambda queue: queue.claim(1.5),  # type: ignore[call-overload]
    "claim of none": lambda queue: queue.claim(0),
    "claim with a negative wait": lambda queue: queue.claim(wait_seconds=-1),
    "claim with a lease that is no number": lambda queue: queue.claim(lease_seconds=nan),
    "claim of a queue's name in place of a list": lambda queue: queue.claim(queues="images"),
    "claim of a type that can't be": lambda queue: queue.claim(types=["a/b"]),
    "claim of numbers": lambda queue: queue.claim(queues=[7]),  # type: ignore[list-item]
    "claim by a worker that is no text": lambda queue: queue.claim(worker=7),  # type: ignore[call-overload]
    "claim by a worker with half a surrogate": lambda queue: queue.claim(worker="\ud800"),
    "claim by a worker with a long name": lambda queue: queue.claim(worker="w" * 201),
    "get of a number": lambda queue: queue.get(7),  # type: ignore[call-overload]
    "cancel of numbers": lambda queue: queue.cancel([7]),  # type: ignore[list-item]
    "pause of a bad name": lambda queue: queue.pause("a/b"),
    "an unknown setting": lambda queue: queue.configure(speed=11),  # type: ignore[call-arg]
    "a negative setting": lambda queue: queue.configure(result_ttl_seconds=-1),
    "a setting that is no number": lambda queue: queue.configure(result_ttl_seconds=nan),
    "an infinite setting": lambda queue: queue.configure(clock_skew_seconds=inf),
    "a setting that is text": lambda queue: queue.configure(result_ttl_seconds="1"),  # type: ignore[arg-type]
    "half a job": lambda queue: queue.configure(finished_jobs_max=0.5),  # type: ignore[arg-type]
    "a retention below an hour": lambda queue: queue.configure(log_retention_seconds=60),
    "a consumer's bad name": lambda queue: queue.move_consumer("a/b", 1),
    "a consumer's bad position": lambda queue: queue.move_consumer("a", "1"),  # type: ignore[arg-type]
    "a call that waits for less than nothing": lambda queue: queue.call("work", timeout_seconds=-1),
}

POLICIES: dict[str, dict[str, Any]] = {
    "negative": {"initial_seconds": -1},
    "nan": {"initial_seconds": nan},
    "infinite": {"max_seconds": inf},
    "shrinking": {"multiplier": 0.5},
    "nan multiplier": {"multiplier": nan},
    "infinite multiplier": {"multiplier": inf},
    "more than all": {"jitter": 1.5},
    "nan jitter": {"jitter": nan},
    "less than its beginning": {"initial_seconds": 5, "max_seconds": 1},
    "text": {"initial_seconds": "1"},
}


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
async def queue(store: MemoryStore) -> AsyncIterator[Queue]:
    async with penstock.open(store=store) as queue:
        yield queue


@pytest.mark.parametrize(("options", "words"), OPTIONS.values(), ids=OPTIONS)
def test_an_option_that_makes_no_sense_is_refused_where_it_is_written(
    options: Any, words: str
) -> None:
    [(name, value)] = options.items()
    for refuse in (
        lambda: penstock.open("memory://", **options),
        lambda: penstock.open(f"memory://?{name}={value}"),
        lambda: penstock.open_sync("memory://", **options).start(),
    ):
        with pytest.raises(InvalidURL, match=re.escape(f"{name}={value}: ") + f".*{words}"):
            refuse()


def test_every_option_that_is_a_number_has_bounds() -> None:
    defaults = msgspec.structs.asdict(address.Options()).items()
    assert {name for name, value in defaults if type(value) in (int, float)} == set(
        option_values.NUMBERS
    )


@pytest.mark.parametrize(("url", "advice"), ADDRESSES.values(), ids=ADDRESSES)
def test_a_bad_address_is_refused_with_the_right_form(
    url: str, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PENSTOCK_URL", raising=False)
    with pytest.raises(InvalidURL, match=advice):
        penstock.open(url)


def test_a_password_in_an_address_is_not_repeated() -> None:
    with pytest.raises(InvalidURL) as raised:
        penstock.open("s3://me:secret@bucket/queue")
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("options", [{"tenant": "a/b"}, {"tenant": ""}, {"speed": 11}])
def test_a_bad_option_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        penstock.open("memory://", **options)


def test_a_url_and_a_store_are_one_too_many() -> None:
    with pytest.raises(InvalidInput, match="not both"):
        penstock.open("memory://", store=MemoryStore())


def test_something_that_is_no_store_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"can't take a builtins.dict; it takes"):
        penstock.open(store={"a": b"dict"})


@pytest.mark.parametrize(("given", "field"), JOBS.values(), ids=JOBS)
async def test_a_bad_job_is_refused_by_the_name_of_what_is_wrong(
    queue: Queue, store: MemoryStore, given: dict[str, Any], field: str
) -> None:
    given = {"type": "work", **given}
    before = await _contents(store)
    with pytest.raises(InvalidJob) as raised:
        await queue.enqueue(**given)
    assert raised.value.field == field
    with pytest.raises(InvalidJob):
        await queue.enqueue_many([NewJob("work"), NewJob(**given)])
    assert await _contents(store) == before
    await _is_sound(queue, store)


@pytest.mark.parametrize(("value", "codec"), VALUES.values(), ids=VALUES)
async def test_a_value_that_can_not_be_encoded_is_refused(
    queue: Queue, store: MemoryStore, value: Any, codec: str | None
) -> None:
    before = await _contents(store)
    with pytest.raises(PayloadInvalid, match="codec"):
        await queue.enqueue("work", value, codec=codec)
    assert await _contents(store) == before
    job = await claimed(queue)
    with pytest.raises(PayloadInvalid):
        await queue.ack(job, value, codec=codec)
    await queue.ack(job)
    await _is_sound(queue, store)


@dataclass
class Picture:
    name: str
    data: bytes
    tags: set[int]
    sizes: dict[int, str]


CHANGED_BY_JSON: list[Any] = [
    {"x": b"a"},
    [bytearray(b"a")],
    {"x": {1}},
    {7},
    {8: "key"},
    [{"x": (1, {2.5: "key"})}],
    {b"k": 1},
    {"long": ["y" * 300, {"x": b"a"}]},
]


@pytest.mark.parametrize("value", CHANGED_BY_JSON, ids=lambda value: repr(value)[:20])
async def test_a_payload_that_json_would_change_is_refused(queue: Queue, value: Any) -> None:
    with pytest.raises(PayloadInvalid, match="JSON makes"):
        await queue.enqueue("work", value)
    with pytest.raises(PayloadInvalid, match="JSON makes"):
        await queue.import_jobs("run", [NewJob("work", value)])
    # Of a result the work is done: it is stored as JSON has it.
    job = await claimed(queue)
    await queue.ack(job, value)
    done = await queue.get(job.id)
    assert done is not None
    assert done.result is not None


async def test_what_a_type_brings_back_is_no_change(queue: Queue) -> None:
    value = Picture("a", b"\x00\xff", {1}, {2: "two"})
    await queue.enqueue("work", value)
    await queue.enqueue("work", [value, (1, datetime(2026, 1, 1, tzinfo=UTC), uuid4())])
    [job] = await queue.claim(payload=Picture)
    assert job.payload == value


async def test_a_value_that_is_too_large_is_refused_with_its_size(
    queue: Queue, store: MemoryStore
) -> None:
    before = await _contents(store)
    with pytest.raises(PayloadTooLarge, match=r"300,002 bytes.*262,144.*offload"):
        await queue.enqueue("work", "x" * 300_000)
    assert await _contents(store) == before


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_a_bad_call_is_refused(queue: Queue, store: MemoryStore, call: Use) -> None:
    await queue.enqueue("work", queue="images")
    before = await _contents(store)
    with pytest.raises(InvalidInput) as raised:
        await call(queue)
    assert len(str(raised.value)) > 15, "it should say what to do"
    assert await _contents(store) == before
    await _is_sound(queue, store)


async def test_an_unknown_option_of_a_call_is_refused_as_by_any_function(queue: Queue) -> None:
    with pytest.raises(TypeError, match="colour"):
        await queue.call("work", colour="red")  # type: ignore[call-arg]


@pytest.mark.parametrize("given", POLICIES.values(), ids=POLICIES)
def test_a_bad_retry_policy_can_not_be_made(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidJob, match="retry"):
        RetryPolicy(**given)


BEATS: dict[str, dict[str, Any]] = {
    "progress nan": {"progress": nan},
    "progress infinite": {"progress": inf},
    "progress text": {"progress": "half"},
    "lease negative": {"lease_seconds": -1},
    "lease nan": {"lease_seconds": nan},
}


@pytest.mark.parametrize("given", BEATS.values(), ids=BEATS)
async def test_a_bad_heartbeat_is_refused_and_the_lease_stays(
    queue: Queue, store: MemoryStore, given: dict[str, Any]
) -> None:
    job = await claimed(queue)
    with pytest.raises(InvalidInput):
        await queue.heartbeat(job, **given)
    await queue.ack(job)
    await _is_sound(queue, store)


NACKS: dict[str, dict[str, Any]] = {
    "delay negative": {"delay_seconds": -1},
    "delay nan": {"delay_seconds": nan},
    "kind not text": {"kind": 7},
    "kind with half a surrogate": {"kind": "\ud800"},
}


@pytest.mark.parametrize("given", NACKS.values(), ids=NACKS)
async def test_a_bad_nack_is_refused_and_the_lease_stays(
    queue: Queue, store: MemoryStore, given: dict[str, Any]
) -> None:
    job = await claimed(queue)
    with pytest.raises(InvalidInput):
        await queue.nack(job, "boom", **given)
    await queue.ack(job)
    await _is_sound(queue, store)


async def test_an_error_in_any_bytes_can_be_told(queue: Queue, store: MemoryStore) -> None:
    """It comes from whatever the handler raised: refusing it would lose the job's failure."""
    job = await claimed(queue)
    await queue.nack(job, "file \udcff\ud800 is missing", retry=False)
    failed = await queue.get(job.id)
    assert failed is not None
    assert "is missing" in failed.errors[0].message
    await _is_sound(queue, store)


@pytest.mark.parametrize("until", [nan, inf, -1, "noon", datetime(2030, 1, 1)])  # noqa: DTZ001
async def test_a_bad_snooze_is_refused_and_the_lease_stays(
    queue: Queue, store: MemoryStore, until: Any
) -> None:
    job = await claimed(queue)
    with pytest.raises(InvalidInput):
        await queue.snooze(job, until)
    await queue.ack(job)
    await _is_sound(queue, store)


async def test_a_job_that_was_not_claimed_can_not_be_acked(
    queue: Queue, store: MemoryStore
) -> None:
    receipt = await queue.enqueue("work")
    job = await queue.get(receipt.id)
    assert job is not None
    before = await _contents(store)
    with pytest.raises(InvalidInput, match="`claim` returned"):
        await queue.ack(job)
    assert await _contents(store) == before


async def test_anothers_job_is_unknown(store: MemoryStore, queue: Queue) -> None:
    job = await claimed(queue, id="secret")
    async with penstock.open(store=store, tenant="other") as other:
        before = await _contents(store)
        with pytest.raises(JobNotFound, match="for this tenant"):
            await other.replay("secret")
        with pytest.raises(LeaseLost):
            await other.ack(job)
        assert await other.get("secret") is None
        assert await _contents(store) == before


async def test_a_closed_queue_says_to_open_it_again(store: MemoryStore) -> None:
    async with penstock.open(store=store) as queue:
        await queue.enqueue("work")
    before = await _contents(store)
    with pytest.raises(QueueClosed, match="open it again"):
        await queue.enqueue("work")
    assert await _contents(store) == before


async def test_a_queue_that_was_never_opened_says_so() -> None:
    with pytest.raises(QueueClosed):
        await penstock.open("memory://").enqueue("work")


async def test_shards_of_a_queue_that_has_none_are_refused(tmp_path: Path) -> None:
    async with penstock.open(f"file://{tmp_path}/q?layout=single"):
        pass
    with pytest.raises(InvalidInput, match=r"shards: only layout tasks has that.*layout single"):
        async with penstock.open(f"file://{tmp_path}/q", shards="0-7"):
            pass


@pytest.mark.parametrize(
    ("store", "options", "words"),
    [
        (MemoryStore(), {"fsync": False}, "a store of your own has no such option"),
        (MemoryStore(), {"schema": "a"}, "schema is one of postgresql://"),
        (MemoryStore(), {"layuot": None}, "layout may be what you mean"),
    ],
)
def test_a_store_of_ones_own_has_no_options_of_others(
    store: MemoryStore, options: Any, words: str
) -> None:
    with pytest.raises(InvalidInput, match=words):
        penstock.open(store=store, **options)


@pytest.mark.parametrize(
    ("view", "way"),
    [("scheduled", r"job\.run_at > time\.time\(\)"), ("retrying", r"job\.failures > 0")],
)
async def test_a_view_of_pending_jobs_is_no_state_and_says_how_to_have_it(
    view: str, way: str
) -> None:
    async with penstock.open("memory://") as queue:
        with pytest.raises(InvalidInput, match=f"one of blocked, pending, .*'pending'.* {way}"):
            [job async for job in queue.jobs(state=view)]


def test_every_word_that_libpq_knows_may_stand_in_a_url() -> None:
    pq = pytest.importorskip("psycopg").pq
    known = {option.keyword.decode() for option in pq.Conninfo.get_defaults()}
    assert known <= set(LIBPQ_NAMES)


async def test_the_wrong_layout_is_told_the_right_one(tmp_path: Path) -> None:
    async with penstock.open(f"file://{tmp_path}/q?layout=single"):
        pass
    with pytest.raises(InvalidURL, match="single"):
        async with penstock.open(f"file://{tmp_path}/q?layout=log"):
            pass
    async with penstock.open(f"file://{tmp_path}/q") as queue:
        assert (await queue.enqueue("work")).status == "queued"


async def test_a_store_that_ignores_conditions_is_refused_before_it_takes_a_queue() -> None:
    store = MemoryStore()
    careless = FaultyStore(store, FakeClock(), Random(1), Faults(conditions_ignored=True))
    with pytest.raises(StoreUnfit, match="create-only"):
        async with penstock.open(store=careless):
            pass
    assert await _contents(store) == {}


async def test_a_store_that_answers_no_probe_yet_is_asked_again() -> None:
    class WarmingUp(MemoryStore):
        refused = 0

        async def put(self, key: str, data: bytes, mode: Any) -> Any:
            if self.refused < 2 * PROBE_WRITERS:
                self.refused += 1
                raise PutUnknown(self.name, key, "no room for it yet")
            return await super().put(key, data, mode)

    clock = FakeClock(autojump=True)
    services = Services(clock=clock)
    async with penstock.open(store=WarmingUp(now=clock.now), services=services) as queue:
        assert (await queue.enqueue("work")).status == "queued"


async def test_a_store_that_never_answers_a_probe_is_not_called_unfit() -> None:
    class Silent(MemoryStore):
        async def put(self, key: str, data: bytes, mode: Any) -> Any:
            raise PutUnknown(self.name, key, "it is silent")

    services = Services(clock=FakeClock(autojump=True))
    with pytest.raises(PutUnknown, match="no clear answer in 20 tries"):
        async with penstock.open(store=Silent(), services=services):
            pass


async def test_a_store_that_forgets_is_refused() -> None:
    class Forgetful(MemoryStore):
        async def put(self, key: str, data: bytes, mode: Any) -> Any:
            written = await super().put(key, data, mode)
            await self.delete(key)
            return written

    with pytest.raises(StoreUnfit, match="read back"):
        async with penstock.open(store=Forgetful()):
            pass


@pytest.mark.xdist_group("s3")
async def test_a_bucket_that_does_not_exist_is_told_to_be_made(
    seaweed: Seaweed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    url = f"s3://no-such-{uuid4().hex}/q?region=us-east-1&endpoint={seaweed.endpoint}"
    with pytest.raises(StoreMissing, match="create it"):
        async with penstock.open(url):
            pass


async def test_a_cloud_without_its_library_says_which_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _without(monkeypatch, "obstore")
    with pytest.raises(MissingExtra, match=r"pip install 'penstock\["):
        async with penstock.open("s3://bucket/queue"):
            pass


async def test_a_folder_works_without_the_library_that_watches_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _without(monkeypatch, "watchfiles")
    async with penstock.open(f"file://{tmp_path}/q", services=Services()) as queue:
        assert not queue.capabilities.push
        assert (await queue.enqueue("work")).status == "queued"


async def _contents(store: MemoryStore) -> dict[str, bytes]:
    return {entry.key: (await store.get(entry.key)).data async for entry in store.list("")}


async def _is_sound(queue: Queue, store: MemoryStore) -> None:
    """The queue still works, and whoever opens it now can read all of it."""
    receipt = await queue.enqueue("after")
    async with penstock.open(store=store) as fresh:
        assert await fresh.get(receipt.id) is not None
        async for event in fresh.events("beginning"):
            if getattr(event, "id", None) == receipt.id:
                return


def _without(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    """As if it were not installed."""
    find_spec, import_it = importlib.util.find_spec, builtins.__import__

    def find(name: str, *rest: Any) -> Any:
        return None if name.partition(".")[0] == package else find_spec(name, *rest)

    def refuse(name: str, *rest: Any, **named: Any) -> Any:
        if name.partition(".")[0] == package:
            raise ModuleNotFoundError(f"No module named {package!r}", name=package)
        return import_it(name, *rest, **named)

    for name in list(sys.modules):
        if name.startswith((f"{package}.", "penstock.stores.cloud")) or name == package:
            monkeypatch.delitem(sys.modules, name)
    # A loaded submodule is found as an attribute of its package, without being imported.
    monkeypatch.delattr("penstock.stores.cloud", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", find)
    monkeypatch.setattr(builtins, "__import__", refuse)


def test_every_error_of_a_bad_call_is_of_one_tree() -> None:
    assert issubclass(InvalidInput, PenstockError)
    assert issubclass(InvalidInput, ValueError)
    assert all(issubclass(kind, InvalidInput) for kind in (InvalidURL, InvalidJob, PayloadInvalid))


async def test_a_setting_that_does_not_exist_is_refused_with_what_may_be_meant() -> None:
    async with penstock.open("memory://") as queue:
        with pytest.raises(InvalidJob, match="'result_ttl_seconds' may be what you mean"):
            await queue.configure(result_ttl=3)  # type: ignore[call-arg]
