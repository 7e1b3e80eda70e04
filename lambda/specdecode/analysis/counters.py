"""The engines' own counters, as a benchmark noted them in its summary.json."""

from __future__ import annotations

from typing import Any

from specdecode.analysis.context import EngineCounters


def engine_counters(summary: Any) -> tuple[EngineCounters, ...]:
    """The counters in a summary.json (None: there is none), one for each block that has some."""
    return tuple(
        EngineCounters(
            variant=block["variant"],
            case=block["case"],
            round=block["round"],
            **{key: value for key, value in block["counters"].items() if key in EngineCounters.model_fields},
        )
        for block in (summary or {}).get("blocks", [])
        if block.get("counters")
    )
