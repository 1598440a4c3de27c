"""What `penstock pipeline report` says on the terminal."""

from __future__ import annotations

import msgspec
import pytest

from penstock.cli.pipeline.report_summary import show, spark_line
from penstock.pipeline.report.buckets import Bucket
from penstock.pipeline.report.figures import figures
from penstock.pipeline.report.rows import Rows
from tests.pipeline.report_sample import HOSTILE, sample

SHOWN = """\
2026-03-02 09:30 to 2026-03-02 11:00 UTC: 1 hour, 30 minutes, by the minute.
234,818 enqueued, 215,530 completed, 362 failed, 1,704 retried: 99.83 % success
completed a minute  ▁▁▁▁▁▁▁▂▂▃▄▄▄▅▆▆▆▇▇██████▇▇▇▆▆▆▅▄▄▃▃▂▂▂▂▁▁▁▁▁▁▂▂▂▃▃▄▄▅▅▆▇▇▇▇│ at most 4,654
wait 12 ms (p50), 310 ms (p95), 1.9 s (p99); run 45 ms (p50), 380 ms (p95), 2.2 s (p99)
99.63 % in time, the target is 99.50 %
$0.17 per million jobs, $0.011 in all; 2,100 writes, 18.9 MB

type            queue    completed  failed  retried  wait p95  run p50  run p95
───────────────────────────────────────────────────────────────────────────────
thumbnail       images     409,000       0        0    200 ms    30 ms   200 ms
send_email      default    204,500      37      211    400 ms    90 ms   600 ms
transcode       media      136,333      24      422    600 ms   270 ms    1.8 s
index_document  search     102,250      11      633    800 ms   810 ms    5.4 s
export_csv      default     81,800      48      844       1 s   2.43 s   16.2 s
bill            money       68,166      35    1,055     1.2 s   7.29 s   48.6 s

error                                              kind                attempts  last seen
────────────────────────────────────────────────────────────────────────────────────────────────────
timed out after 5 s: smtp.example.org:587          ConnectTimeout         4,181  2026-03-02 10:59:29
cannot identify image file 'upload-81723'          ValueError             1,393  2026-03-02 10:58:58
the lease ran out                                  expired                  464  2026-03-02 10:58:27
'utf-8' codec can't decode byte 0xe4 in position…  UnicodeDecodeError       154  2026-03-02 10:57:56
"""


def test_the_summary_says_the_most_important(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    show(figures(sample(Bucket.MINUTE, 90), Bucket.MINUTE))
    shown = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert shown == SHOWN.splitlines()


def test_an_empty_warehouse_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    show(figures(Rows(), Bucket.MINUTE))
    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith("The tables are empty")


def test_control_characters_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    rows = sample(Bucket.MINUTE, 2)
    failure = msgspec.structs.replace(rows.failures[0], kind=HOSTILE, example=HOSTILE)
    kind = msgspec.structs.replace(rows.kinds[0], type=HOSTILE, queue=HOSTILE)
    show(figures(msgspec.structs.replace(rows, failures=(failure,), kinds=(kind,)), Bucket.MINUTE))
    assert not {"\x1b", "\x00", "\u202e"} & set(capsys.readouterr().out)


def test_a_line_of_throughput_is_folded_and_never_hides_a_little() -> None:
    assert spark_line([]) == ""
    assert spark_line([0, 0]) == "  "
    assert spark_line([0, 1, 50, 100]) == " ▁▄█"
    assert spark_line([0, 0, 9, 0, 0, 1], columns=3) == " █▁"
