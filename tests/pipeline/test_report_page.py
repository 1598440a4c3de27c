"""The page stands alone, is well formed, and lets nothing from a queue become markup."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import msgspec
import pytest

from penstock.pipeline.report.buckets import Bucket
from penstock.pipeline.report.figures import figures
from penstock.pipeline.report.markup import CELL_CHARACTERS_MAX
from penstock.pipeline.report.page import page
from penstock.pipeline.report.rows import CostHour, Rows
from tests.pipeline.report_sample import HOSTILE, START, sample

VOID = {"meta", "br", "hr", "img", "input", "link"}
LOADING = {"src", "srcset", "data", "poster", "action", "background"}


class Page(HTMLParser):
    """Keeps what a browser would; fails on tags that do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.words = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        self.ids += [value for name, value in attrs if name == "id" and value]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


SPANS = [
    (Bucket.MINUTE, 1),
    (Bucket.MINUTE, 200),
    (Bucket.HOUR, 170),
    (Bucket.DAY, 90),
]


@pytest.mark.parametrize(("bucket", "buckets"), SPANS)
def test_a_page_is_well_formed_and_loads_nothing(bucket: Bucket, buckets: int) -> None:
    text = page(figures(sample(bucket, buckets), bucket), "warehouse")
    read = Page(text)
    assert not {"script", "link", "img", "iframe", "image", "object"} & set(read.tags)
    assert not LOADING & {name for name, _ in read.attributes}
    assert not [value for name, value in read.attributes if name.startswith("on")]
    links = {value for name, value in read.attributes if name == "href"}
    assert all(link is not None and link.startswith("#") for link in links)
    assert "://" not in text
    assert not re.search(r"@import|url\((?!#)", text)
    assert len(read.ids) == len(set(read.ids))
    assert read.tags.count("svg") == 7 - (1 if bucket is Bucket.MINUTE else 0)
    for title in ("Throughput", "Waiting and running", "Failures", "Queues and types", "Cost"):
        assert title in read.words


def test_every_link_into_the_page_leads_somewhere() -> None:
    text = page(figures(sample(Bucket.HOUR, 30), Bucket.HOUR), "warehouse")
    assert set(re.findall(r'(?:href="|url\()#([^")]+)', text)) <= set(Page(text).ids)


def test_every_picture_has_a_name_and_every_colour_is_the_page_s() -> None:
    text = page(figures(sample(Bucket.HOUR, 30), Bucket.HOUR), "warehouse")
    for picture in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        [(label,)] = [
            match.groups() for match in re.finditer(r'aria-labelledby="([^"]+)"', picture)
        ]
        assert all(f'id="{id}"' in picture for id in label.split())
        assert not re.search(r"#[0-9a-f]{6}", picture)


def test_the_same_figures_give_the_same_bytes() -> None:
    told = figures(sample(Bucket.HOUR, 30), Bucket.HOUR)
    assert page(told, "warehouse") == page(told, "warehouse")


def test_what_a_queue_says_stays_text() -> None:
    rows = sample(Bucket.MINUTE, 3)
    failure = msgspec.structs.replace(
        rows.failures[0], kind=HOSTILE, fingerprint=HOSTILE, types=(HOSTILE,), example=HOSTILE * 99,
        example_id=HOSTILE,
    )  # fmt: skip
    hostile = msgspec.structs.replace(
        rows,
        failures=(failure,),
        kinds=(msgspec.structs.replace(rows.kinds[0], queue=HOSTILE, type=HOSTILE),),
        workers=(msgspec.structs.replace(rows.workers[0], worker=HOSTILE),),
        objectives=(msgspec.structs.replace(rows.objectives[0], queue=HOSTILE, type=HOSTILE),),
    )
    text = page(figures(hostile, Bucket.MINUTE), HOSTILE)
    read = Page(text)
    assert "script" not in read.tags
    assert "<script>alert('x')</script> & \"$name\" \ufffdreversed\ufffd\ufffd[31m" in read.words
    assert not {"\u202e", "\x00", "\x1b"} & set(text)
    [example] = re.findall(r">([^<>]*alert[^<>]*…)<small>", text)
    assert len(example) < CELL_CHARACTERS_MAX * len("&lt;")


def test_an_empty_warehouse_says_so() -> None:
    read = Page(page(figures(Rows(), Bucket.MINUTE), "warehouse"))
    assert "The tables are empty" in read.words
    assert "svg" not in read.tags


@pytest.mark.parametrize(
    ("left_out", "words"),
    [
        ("failures", "No attempt has failed"),
        ("kinds", "There are no jobs"),
        ("hours", "No job was completed"),
        ("workers", "No worker has ended an attempt"),
        ("cost", "No request was counted"),
        ("objectives", "No job was measured"),
    ],
)
def test_a_table_without_rows_says_so(left_out: str, words: str) -> None:
    rows = msgspec.structs.replace(sample(Bucket.MINUTE, 2), **{left_out: ()})
    assert words in Page(page(figures(rows, Bucket.MINUTE), "warehouse")).words


def test_long_tables_are_cut_and_say_so() -> None:
    rows = sample(Bucket.MINUTE, 2)
    many = tuple(
        msgspec.structs.replace(rows.failures[0], fingerprint=f"{number:016x}")
        for number in range(1_050)
    )
    told = figures(msgspec.structs.replace(rows, failures=many), Bucket.MINUTE)
    assert "And 1,000 more." in Page(page(told, "warehouse")).words


def test_nothing_but_zeros_can_be_drawn() -> None:
    rows = sample(Bucket.MINUTE, 2)
    nothing = msgspec.structs.replace(
        rows,
        moments=tuple(
            type(moment)(at=moment.at, wait=moment.wait and type(moment.wait)(0.0, 0.0, 0.0))
            for moment in rows.moments
        ),
        hours=tuple(type(hour)(hour.at, 0) for hour in rows.hours),
        workers=tuple(
            msgspec.structs.replace(hour, busy_seconds=0.0, last_at=hour.first_at)
            for hour in rows.workers
        ),
        cost=(CostHour(at=START, put_requests=0, bytes_written=0, jobs_ended=0, dollars=0.0),),
    )
    Page(page(figures(nothing, Bucket.MINUTE), "warehouse"))
