"""Several loads in a plan: within the pipeline's limits, whatever their number."""

from __future__ import annotations

from specdecode.experiment import load_preset
from specdecode.experiment.documents import MAX_JSON_BYTES

from tests.plans import plan_for

HISTORY = 25_000
"""Events of one execution (Step Functions, service quotas)."""


def test_six_loads_of_ten_cases_and_22_arms_stay_within_the_pipelines_limits() -> None:
    cases = [case.name for case in load_preset("qwen3-32b").workload.cases if case.group == "sample"]
    overrides = {"sweep": "grid", "workload.cases": cases, "workload.rounds": 1}
    one = plan_for(load_preset("qwen3-32b-tuning", overrides=overrides))
    levels = {"workload.concurrency": [1, 2, 4, 8, 16, 32]}
    six = plan_for(load_preset("qwen3-32b-tuning", overrides={**overrides, **levels}))
    assert len(cases) == 10 and len(six.experiment.variants) == 23 and len(six.levels) == 6
    assert len(six.steps) == len(one.steps), "a load adds no state: a wave is one Job"
    assert max(six.worst_case_events, one.worst_case_events) < HISTORY
    assert len(six.experiment.model_dump_json()) < MAX_JSON_BYTES // 2
    assert len(six.model_dump_json()) < MAX_JSON_BYTES
