"""From raw records to the answer: comparison with confidence, verdicts, cost, equality; and the report."""

from specdecode.analysis.accuracy import lm_eval_scores
from specdecode.analysis.compare import compare
from specdecode.analysis.context import (
    Accuracy,
    DeviceGroup,
    EngineCounters,
    Failure,
    RunContext,
)
from specdecode.analysis.counters import engine_counters
from specdecode.analysis.result import Comparison, Verdict, json_schema

__all__ = [
    "Accuracy",
    "Comparison",
    "DeviceGroup",
    "EngineCounters",
    "Failure",
    "RunContext",
    "Verdict",
    "compare",
    "engine_counters",
    "json_schema",
    "lm_eval_scores",
]
