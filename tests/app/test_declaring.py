"""What can be a task, and under which name."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

import penstock
from penstock.errors import InvalidJob, InvalidTask
from penstock.testing.kit import in_memory


def test_a_bare_decorator_makes_a_task_of_the_functions_own_name(app: penstock.App) -> None:
    @app.task
    async def send_email(to: str) -> None:
        """Sends it."""

    assert app.tasks == {"send_email": send_email}
    assert send_email.name == "send_email"
    assert send_email.__doc__ == "Sends it."
    assert repr(send_email) == "<Task send_email>"
    assert "1 tasks" in repr(app)


def test_a_decorator_with_options_takes_a_name_too(app: penstock.App) -> None:
    @app.task(name="mail.send", priority=3)
    def send(to: str) -> None: ...

    assert list(app.tasks) == ["mail.send"]
    assert send.job("a@example.com").type == "mail.send"
    assert send.job("a@example.com").priority == 3


def test_a_task_is_still_the_function_that_it_was(app: penstock.App) -> None:
    @app.task
    def double(number: int) -> int:
        return 2 * number

    assert double(21) == 42


def test_two_tasks_of_one_name_are_refused(app: penstock.App) -> None:
    app.task(name="send")(lambda: None)
    with pytest.raises(InvalidTask, match=r"another task of that name; pass name="):
        app.task(name="send")(lambda: None)


def test_the_name_of_one_call_is_no_option_of_all_of_them(app: penstock.App) -> None:
    with pytest.raises(InvalidTask, match=r"write task\.options\(operation=…\)"):
        app.task(name="send", operation="order-17")(lambda: None)
    assert not app.tasks


async def test_apps_do_not_meet() -> None:
    first, second = penstock.App("memory://"), penstock.App("memory://")

    @first.task(name="say")
    async def say_one() -> str:
        return "one"

    @second.task(name="say")
    async def say_two() -> str:
        return "two"

    async with in_memory(first) as one, in_memory(second) as two:
        await say_one.enqueue()
        await two.assert_nothing_enqueued()
        await say_two.enqueue()
        await one.drain()
        await two.drain()
        assert [job.result for job in await one.jobs()] == ["one"]
        assert [job.result for job in await two.jobs()] == ["two"]


def takes_many(*numbers: int) -> None: ...
def takes_any_name(**options: int) -> None: ...
def takes_a_place(number: int, /) -> None: ...


@pytest.mark.parametrize("function", [takes_many, takes_any_name, takes_a_place])
def test_a_parameter_without_a_name_of_its_own_is_refused(app: penstock.App, function: Any) -> None:
    with pytest.raises(InvalidTask, match=r"has no name of its own; name it"):
        app.task(function)
    assert not app.tasks


def takes_what_nobody_knows(what: NobodyKnowsIt) -> None: ...  # type: ignore[name-defined]  # noqa: F821
def gives_what_nobody_knows() -> NobodyKnowsIt: ...  # type: ignore[name-defined]  # noqa: F821
def takes_what_is_no_type(what: "1 +") -> None: ...  # type: ignore[valid-type]  # noqa: F722
def takes_an_attribute_of_nothing(what: penstock.Nothing) -> None: ...  # type: ignore[name-defined]


@pytest.mark.parametrize(
    "function",
    [
        takes_what_nobody_knows,
        gives_what_nobody_knows,
        takes_what_is_no_type,
        takes_an_attribute_of_nothing,
    ],
)
def test_an_annotation_that_cannot_be_resolved_is_refused(app: penstock.App, function: Any) -> None:
    with pytest.raises(InvalidTask, match=r"an annotation can't be resolved"):
        app.task(function)


def takes_two_kinds_of_text(what: str | bytes) -> None: ...


def test_an_annotation_that_cannot_be_checked_is_refused(app: penstock.App) -> None:
    with pytest.raises(InvalidTask, match=r"an annotation can't be checked"):
        app.task(takes_two_kinds_of_text)


def test_an_option_that_does_not_exist_is_refused_with_those_that_do(app: penstock.App) -> None:
    with pytest.raises(
        InvalidTask,
        match=r"no option 'retries'; 'max_attempts' may be what you mean; known are queue",
    ):
        app.task(retries=3)(lambda: None)  # type: ignore[call-overload]


@pytest.mark.parametrize("name", ["a/b", " a", "", "\n"])
def test_a_name_that_no_job_may_have_is_refused(app: penstock.App, name: str) -> None:
    with pytest.raises(InvalidJob):
        app.task(name=name)(functools.partial(print))


def test_an_async_function_cannot_leave_for_a_process(app: penstock.App) -> None:
    async def work() -> None: ...

    with pytest.raises(InvalidTask, match=r"cpu=True is for plain functions"):
        app.task(cpu=True)(work)


def test_a_child_process_could_not_find_a_function_inside_another(app: penstock.App) -> None:
    def work() -> None: ...

    for function in (work, lambda: None):
        with pytest.raises(InvalidTask, match=r"needs a function at the top of a module"):
            app.task(cpu=True, name="work")(function)


def wants_its_context(context: penstock.JobContext) -> None: ...


def test_a_task_for_processes_may_take_a_context(app: penstock.App) -> None:
    app.task(cpu=True)(wants_its_context)
    assert list(app.tasks) == ["wants_its_context"]


def counts() -> Iterator[int]:
    yield 1


async def counts_later() -> AsyncIterator[int]:
    yield 1


class Mail:
    """Not a function."""


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        (counts, "'counts': a generator is no task"),
        (counts_later, "'counts_later': a generator is no task"),
        (Mail, "'Mail': a class is no task"),
        ("mail", r"@app\.task\(name='mail'\)"),
    ],
)
def test_what_no_worker_could_run_is_refused_where_it_is_written(
    app: penstock.App, declared: Any, words: str
) -> None:
    with pytest.raises(InvalidTask, match=words):
        app.task(declared)
    assert not app.tasks


@pytest.mark.parametrize("name", ["delay", "apply_async", "s"])
def test_a_task_that_is_called_as_in_celery_says_what_to_write(
    app: penstock.App, name: str
) -> None:
    task: Any = app.task(takes_two_kinds_of_text_apart)
    with pytest.raises(AttributeError, match=rf"{name}'; write .*task\.\w+\("):
        getattr(task, name)
    with pytest.raises(AttributeError, match=r"no attribute 'nothing'$"):
        _ = task.nothing


def takes_two_kinds_of_text_apart(words: str, data: bytes) -> None: ...
