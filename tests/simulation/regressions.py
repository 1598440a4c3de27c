"""Seeds that once failed, by layout (None: the seed's own), and what they found."""

from __future__ import annotations

REGRESSIONS: dict[tuple[int, str | None], str] = {
    (6, "log"): "one altered bit in a commit's header was believed, and its reader was stuck",
    (327, "log"): "one altered bit in a checkpoint's head was believed",
    (17, "single"): "one altered bit in queue.json was believed, and written back",
    (118, "log"): "altered bytes that are no text raised UnicodeDecodeError instead of Corrupt",
    (72, "log"): "a follower was shown a commit that a late writer had left in a vacated slot",
    (484, "log"): "a 404 was believed for half of a retention that somebody had shortened since",
    (216, "log"): "an answer that was slept over was taken for a comparison of clocks",
    (20, "single"): "a job that left while the archive was read was missing from the events",
    (11196, None): "a put that was applied, slept over and vacuumed was taken for one that was not",
    (13304, None): "the same",
    (22652, None): "the history of a job that left while it was looked up raised KeyError",
    (2767, "log"): "the simulation ended while a replay was still on its way",
    (32, "tasks"): "a claim that had won a job was told of trouble with the next one instead",
    (138, "tasks"): "a job that was opened for another and replaced since was to be replaced again",
    (233, "tasks"): "a put that was refused as an echo, and then not read, was called certain",
    (830, "tasks"): "processes that follow one that is ahead counted in step: two equal fences",
    (103, "log"): "a snooze by a clock a day ahead waited for that day, since nobody committed",
    (298, "tasks"): "the same, since its entry lay in the next day",
    (309, "tasks"): "leases that a clock a day ahead gave did not end",
    (135, None): "a key that passed to the next life of its id was called held",
    (56, "tasks"): "a key was called held for the day that a clock had been ahead",
}
