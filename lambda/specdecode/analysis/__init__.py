"""From raw records to the answer: comparison with confidence, verdicts, cost, equality; and the report."""

from specdecode.analysis.compare import compare, compare_measured
from specdecode.analysis.results.comparison import Comparison
from specdecode.analysis.results.pairs import Verdict
from specdecode.analysis.results.run_context import Accuracy, DeviceGroup, Failure, RunContext
from specdecode.analysis.statistics.accuracy import lm_eval_scores
from specdecode.analysis.statistics.measured import AtLevel, measure

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
    "lm_eval_scores",
    "measure",
]
