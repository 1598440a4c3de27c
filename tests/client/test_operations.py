"""What jobs are called whose callers gave the call a name, and no id."""

from __future__ import annotations

import time
from uuid import RFC_4122, UUID

import pytest

import penstock
from penstock.client.arguments import raised
from penstock.client.newjob import NewJob
from penstock.client.operations import Naming, id_of, short
from penstock.runtime.identity import random_id, time_ordered_id


def test_an_id_that_was_made_here_is_its_own_operation() -> None:
    made = time_ordered_id()
    assert id_of(made) == made
    assert Naming(made, is_made=True).name(0, NewJob("work")) == (made, None)


def test_an_id_that_was_made_here_is_a_uuid_of_version_7_in_the_order_of_time() -> None:
    before = time.time_ns() // 1_000_000
    made = UUID(time_ordered_id())
    assert (made.version, made.variant) == (7, RFC_4122)
    assert before <= made.int >> 80 <= time.time_ns() // 1_000_000


def test_the_ids_of_a_list_count_up_and_come_again() -> None:
    made = time_ordered_id() + "+"
    first, again = (Naming(made, is_made=is_made) for is_made in (True, False))
    ids = [first.id_of(index) for index in range(1_000)]
    assert sorted(set(ids)) == sorted(ids)
    assert all(len(id) == len(made) - 1 for id in ids)
    assert [again.id_of(index) for index in range(1_000)] == ids


@pytest.mark.parametrize("form", ["{:032x}", "00000000-0000-7000-8000-{:012x}"])
async def test_operations_that_count_up_do_not_meet(form: str) -> None:
    async with penstock.open("memory://") as queue:
        for number in range(3):
            jobs = [NewJob("work") for _ in range(3)]
            receipts = await queue.enqueue_many(jobs, operation=form.format(number))
            again = await queue.enqueue_many(jobs, operation=form.format(number))
            assert [raised(one).status for one in receipts] == ["queued"] * 3
            assert [raised(one).status for one in again] == ["duplicate"] * 3


def test_any_text_makes_an_id_of_its_own() -> None:
    ids = {Naming(text, is_made=False).id_of(index) for text in ("a", "A", "0") for index in (0, 1)}
    assert len(ids) == 6
    assert {id[14] for id in ids} == {"8"}, "a UUID of version 8"


def test_an_id_of_the_callers_keeps_the_operation_beside_it() -> None:
    naming = Naming("this call", is_made=False)
    assert naming.name(0, NewJob("work", id="mine")) == ("mine", "this call")
    assert naming.name(0, NewJob("work", id="mine", operation="own")) == ("mine", "own")


def test_a_made_operation_has_128_random_bits_in_22_characters() -> None:
    assert len(short(random_id())) == 22
    assert short("00" * 15 + "01") == "AAAAAAAAAAAAAAAAAAAAAQ"
