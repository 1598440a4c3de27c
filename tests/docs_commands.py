"""Stands in for `pip` and `make` where a page is pasted: says whether the real one knows it."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main(name: str, *arguments: str) -> None:
    if name == "make":
        known = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
        unknown = {one for one in arguments if "=" not in one} - known
    else:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        known = {"penstock", *(f"penstock[{extra}]" for extra in project["optional-dependencies"])}
        unknown = set(arguments) - known - {"install"}
    sys.exit(f"{name} does not know {sorted(unknown)}" if unknown else 0)


main(*sys.argv[1:])
