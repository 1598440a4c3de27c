"""`import penstock`: how long it takes, and that it loads nothing of a vendor's."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Final

from bench.figures import Row, passed, series
from bench.plan import Plan

MILLISECONDS_MAX: Final = 150.0
TIMES: Final = 20
VENDORS: Final = frozenset({"obstore", "watchfiles", "uvloop", "rich", "typer", "redis", "psycopg"})

_PROGRAM: Final = """
import sys, time
started_at = time.perf_counter()
{statement}
taken = time.perf_counter() - started_at
import json
print(json.dumps([taken * 1000, sorted({{name.partition(".")[0] for name in sys.modules}})]))
"""


def measure(plan: Plan) -> list[Row]:
    # The second is what `import penstock` puts off: everything that a queue is made of.
    return [
        _row(plan, "import penstock", is_required=True),
        _row(plan, "import penstock; penstock.open", is_required=False),
    ]


def _row(plan: Plan, statement: str, *, is_required: bool) -> Row:
    plan.say(f"{statement}, {TIMES} times")
    runs = [_import(statement) for _ in range(TIMES)]
    taken = series((milliseconds for milliseconds, _ in runs), "ms")
    loaded = VENDORS & {name for _, modules in runs for name in modules}
    names = ", ".join(sorted(loaded)) or "none"
    if not is_required:
        return Row(statement, taken, "vendors loaded", names)
    return Row(
        statement,
        taken,
        "vendors loaded",
        names,
        bar=f"≤ {MILLISECONDS_MAX:g} ms, none",
        verdict=passed(taken.median <= MILLISECONDS_MAX and not loaded),
    )


def _import(statement: str) -> tuple[float, list[str]]:
    program = _PROGRAM.format(statement=statement)
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    milliseconds, modules = json.loads(ran.stdout)
    return float(milliseconds), modules
