"""The page: figures in, one HTML file out, which needs nothing else."""

from __future__ import annotations

from importlib.resources import files
from string import Template
from typing import Final

from penstock.pipeline.report import sections
from penstock.pipeline.report.figures import Figures
from penstock.pipeline.report.markup import html, joined

ORDER: Final = (
    sections.headline,
    sections.throughput,
    sections.times,
    sections.failures,
    sections.kinds,
    sections.rhythm,
    sections.workers,
    sections.objectives,
    sections.costs,
)
COLOPHON: Final = (
    "All times are in UTC. Percentiles come from merged KLL sketches: near the true ones in rank, "
    "not exact. Workers and cost are kept by the hour, errors and objectives by the day; the first "
    "hour and day of a report count in full. A job has failed when it was given up; an attempt "
    "that was retried has not failed it."
)


def page(figures: Figures, name: str) -> str:
    """`name` is what the report is about: the warehouse."""
    return Template(_file("page.html")).substitute(
        title=html(f"{name} – penstock report"),
        heading=html(name),
        lede=html(figures.period),
        style=_file("page.css"),
        sections=joined((section(figures) for section in ORDER if figures.first), "\n"),
        colophon=html(COLOPHON),
    )


def _file(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")
