"""The gate on runs of several loads: each load is held to the limits, and the worst decides."""

from dataclasses import replace
from functools import cache

import pytest
from specdecode.analysis import Comparison, compare
from specdecode.analysis.report.gate import gate_junit, gate_markdown, gate_text
from specdecode.analysis.results.pairs import HEADLINE
from specdecode.analysis.several_runs.gate import GateOutcome, Unfit, gate
from specdecode.analysis.several_runs.gate_questions import Thresholds
from specdecode.analysis.texts.decide import decided

from tests.specdecode.analysis.simulate import context
from tests.specdecode.analysis.simulate_load import Server, loads, run

LEVELS = (1, 8)


@cache
def loaded(seed: int, *, slow: float = 1.0) -> Comparison:
    """Two loads; `slow`: by what each request of the arm `sd` takes longer, at the second load only."""
    tested = loads(LEVELS, requests=24)
    arm = Server(base_s=0.022, per_sequence_s=0.0009, k=5, acceptance=0.6)
    records = [
        each.model_copy(
            update={
                "end_s": each.end_s * slow,
                "chunks": tuple(replace(chunk, at_s=chunk.at_s * slow) for chunk in each.chunks),
            }
        )
        if each.level == "c8" and each.variant == "sd"
        else each
        for each in run(tested, {"base": Server(), "sd": arm}, seed=seed, noise=0.01)
    ]
    return compare(experiment=tested, records=records, context=context(run_id=f"run-{seed}"))


def test_a_regression_at_one_load_fails_the_gate_and_names_the_load() -> None:
    limits = Thresholds(max_regression=0.03)
    same = gate([loaded(1)], limits, against=[loaded(1).model_copy(update={"run_id": "copy"})])
    assert same.outcome is GateOutcome.PASSED
    found = gate([loaded(1, slow=1.3).model_copy(update={"run_id": "slow"})], limits, against=[loaded(1)])
    outcomes = {(check.arm, check.load): check.outcome for check in found.checks}
    assert outcomes == {
        ("base", "c1"): GateOutcome.PASSED,
        ("sd", "c1"): GateOutcome.PASSED,
        ("base", "c8"): GateOutcome.PASSED,
        ("sd", "c8"): GateOutcome.FAILED,
    }
    assert found.outcome is GateOutcome.FAILED
    for text in (gate_text(found), gate_markdown(found), gate_junit(found)):
        assert "sd, all prompts, 8 at a time" in text
    ratio = next(check.ratio for check in found.checks if (check.arm, check.load) == ("sd", "c8"))
    assert ratio == pytest.approx(1 / 1.3, abs=0.01)


def test_a_speedup_is_wanted_at_every_load_unless_one_is_chosen() -> None:
    run_ = loaded(1)
    first, last = (run_.at(level).pairs[0].cases[0].headline for level in run_.experiment.workload.levels)
    assert first and last and first.ratio > 1.15 * last.ratio, "the gain falls with the load"
    limit = (first.ratio * last.ratio) ** 0.5
    found = gate([run_], Thresholds(min_speedup=limit))
    assert [(check.load, check.outcome) for check in found.checks] == [
        ("c1", GateOutcome.PASSED),
        ("c8", GateOutcome.FAILED),
    ]
    assert found.checks[1].ratio == pytest.approx(last.ratio)
    chosen = gate([run_], Thresholds(min_speedup=limit, loads=(1.0,)))
    assert chosen.outcome is GateOutcome.PASSED
    assert "Of 2 loads only these are judged: 1 at a time." in gate_text(chosen)
    with pytest.raises(Unfit, match="no run was measured at a load of 4: 1 at a time, 8 at a time"):
        gate([run_], Thresholds(min_speedup=limit, loads=(4.0, 1.0)))


def test_requests_that_fail_at_one_load_fail_the_gate() -> None:
    whole = loaded(1)
    (other,) = whole.loads
    arms = tuple(arm.model_copy(update={"failed": 12, "errors": {"timeout": 12}}) for arm in other.arms)
    broken = whole.model_copy(update={"run_id": "broken", "loads": (other.model_copy(update={"arms": arms}),)})
    found = gate([broken], Thresholds(max_regression=0.03), against=[whole])
    assert {check.load for check in found.checks if check.outcome is GateOutcome.FAILED} == {"c8"}
    sooner = gate([broken], Thresholds(min_speedup=0.1))
    assert [(check.load, check.outcome) for check in sooner.checks] == [
        ("c1", GateOutcome.PASSED),
        ("c8", GateOutcome.FAILED),
    ]
    assert "12 of 24 requests of sd failed (12 timeout)" in sooner.checks[1].reason


def test_a_report_that_has_only_its_first_load_is_not_passed() -> None:
    """As earlier versions wrote them."""
    old = loaded(1).model_copy(update={"loads": (), "run_id": "old"})
    found = gate([old], Thresholds(min_speedup=0.1))
    assert found.outcome is GateOutcome.CANNOT_TELL
    assert "old has no figures at 8 at a time" in found.checks[1].reason
    against = gate([loaded(1)], Thresholds(max_regression=0.9), against=[old])
    assert {check.outcome for check in against.checks if check.load == "c8"} == {GateOutcome.CANNOT_TELL}


def test_a_report_keeps_of_each_load_what_a_gate_needs_and_no_more() -> None:
    read = Comparison.model_validate_json(loaded(1).json_document())
    assert read == loaded(1)
    (other,) = read.loads
    assert {tag for arm in other.arms for tag in arm.metrics} == {HEADLINE}
    assert all(len(arm.samples[HEADLINE]) > 8 for arm in other.arms)
    with pytest.raises(ValueError, match="load 4 at a time"):
        changed = other.model_copy(update={"level": other.level.model_copy(update={"concurrency": 4})})
        Comparison.model_validate({**dict(read), "loads": (changed,)})


def test_a_load_at_which_the_load_generator_fell_behind_is_no_pass() -> None:
    told = decided(loaded(1)).model_copy(update={"late": {"c8": ("base", "sd")}})
    run = loaded(1).model_copy(update={"decision": told})
    found = gate([run], Thresholds(min_speedup=0.5))
    assert {check.load: check.outcome for check in found.checks} == {
        "c1": GateOutcome.PASSED,
        "c8": GateOutcome.CANNOT_TELL,
    }
    assert "the load generator fell behind at 8 at a time" in found.checks[1].reason
    same = gate([run], Thresholds(max_regression=0.9), against=[loaded(2)])
    assert {check.load for check in same.checks if check.outcome is GateOutcome.CANNOT_TELL} == {"c8"}
