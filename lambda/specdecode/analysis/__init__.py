"""From raw records to the answer: comparison with confidence, verdicts, cost, equality; and the report."""

from specdecode.analysis.context import (
    Accuracy,
    DeviceGroup,
    EngineCounters,
    Failure,
    RunContext,
)

__all__ = ["Accuracy", "DeviceGroup", "EngineCounters", "Failure", "RunContext"]
