"""From raw records to the answer: comparison with confidence, verdicts, cost, equality; and the report."""

from specdecode.analysis.accuracy import lm_eval_scores
from specdecode.analysis.compare import compare, compare_measured
from specdecode.analysis.context import (
    Accuracy,
    DeviceGroup,
    Failure,
    RunContext,
)
from specdecode.analysis.measured import AtLevel, measure
from specdecode.analysis.result import Comparison, Verdict, json_schema

__all__ = [
    "Accuracy",
    "AtLevel",
    "Comparison",
    "DeviceGroup",
    "Failure",
    "RunContext",
    "Verdict",
    "compare",
    "compare_measured",
    "json_schema",
    "lm_eval_scores",
    "measure",
]
