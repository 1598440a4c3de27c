"""What is kept of a traceback: the innermost frames, causes and groups, in 4 KiB."""

from __future__ import annotations

from penstock.client.tracebacks import TRACEBACK_BYTES_MAX, traceback_of


def caught(depth: int, error: BaseException) -> BaseException:
    def deeper(left: int) -> None:
        if left == 0:
            raise error
        deeper(left - 1)

    try:
        deeper(depth)
    except BaseException as raised:  # noqa: BLE001  # whatever it is, it is looked at
        return raised
    raise AssertionError


def caused(error: Exception, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return caught(0, error)


def text_of(error: BaseException) -> str:
    text = traceback_of(error)
    assert text is not None
    assert len(text.encode()) <= TRACEBACK_BYTES_MAX
    return text


def test_a_deep_stack_keeps_its_innermost_frames_and_its_error() -> None:
    text = text_of(caught(400, ValueError("the words")))
    assert text.endswith("ValueError: the words\n")
    assert "raise error" in text


def test_causes_and_members_of_groups_are_shown() -> None:
    group = BaseExceptionGroup("several", [caught(1, KeyError("a")), caught(1, OSError("b"))])
    text = text_of(caused(RuntimeError("outer"), caught(3, group)))
    for words in ("RuntimeError: outer", "several", "KeyError", "OSError: b"):
        assert words in text


def test_words_without_end_are_cut() -> None:
    assert text_of(caught(3, ValueError("ä" * 100_000))).endswith("ä…\n")


def test_a_long_message_leaves_room_for_the_frames_of_its_error_and_its_causes() -> None:
    cause = caught(2, KeyError("k" * 100_000))
    cause.add_note("n" * 100_000)
    text = text_of(caused(ValueError("é" * 100_000), cause))
    assert "ValueError: éé" in text
    assert "KeyError: 'kk" in text
    assert text.count("raise error") == 2


def test_what_cannot_be_stored_is_escaped() -> None:
    assert r"\udcff" in text_of(caught(0, ValueError("\udcff")))


def test_an_error_that_was_never_raised_has_none() -> None:
    assert traceback_of(ValueError("made up")) is None
