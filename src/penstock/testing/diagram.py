"""The life of a job as a picture, drawn from the table of transitions."""

from __future__ import annotations

from penstock.kernel.transitions import TABLE


def lifecycle_diagram() -> str:
    """The transitions as a Mermaid state diagram: one arrow for all that lead the same way."""
    arrows: dict[tuple[str, str], list[str]] = {}
    for (before, event), after in TABLE.items():
        start = "[*]" if before is None else before.value
        arrows.setdefault((start, after.value), []).append(event)
    ended = [state for state in dict.fromkeys(TABLE.values()) if state.is_terminal]
    return "\n".join(
        [
            "stateDiagram-v2",
            *(
                f"    {start} --> {end}: {', '.join(events)}"
                for (start, end), events in arrows.items()
            ),
            *(f"    {state.value} --> [*]: its time is up" for state in ended),
        ]
    )
