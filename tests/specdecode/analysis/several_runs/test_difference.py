"""Runs against runs: only what each run's own report judges, at every load."""

from collections.abc import Callable

import pytest
from specdecode.analysis import Comparison, compare
from specdecode.analysis.several_runs.difference import Repeated, RunDifference, difference, left_out_text, trend
from specdecode.cli.report_view import difference_text
from specdecode.records import ErrorKind, RequestError, RequestRecord

from tests.specdecode.analysis.simulate import context, experiment, run
from tests.specdecode.analysis.simulate_load import Server, loads
from tests.specdecode.analysis.simulate_load import run as run_loads

Change = Callable[[RequestRecord], dict[str, object]]


def fails(record: RequestRecord) -> dict[str, object]:
    error = RequestError(kind=ErrorKind.RESET, message="connection reset by peer")
    return {"error": error} if record.variant == "sd" and record.index % 2 else {}


def late(record: RequestRecord) -> dict[str, object]:
    return {"time_doubt_s": 0.5}


def two(version: str, change: Change = lambda record: {}) -> list[Comparison]:
    """Two runs of a version of which `change` changes the records of the prompts `repeat`."""
    return [
        compare(
            experiment=experiment(),
            records=[
                record.model_copy(update=change(record) if record.case == "repeat" else {})
                for record in run(experiment(), seed=seed)
            ],
            context=context(run_id=f"{version}-{seed}", versions={"engine image": version}),
        )
        for seed in (1, 2)
    ]


def test_what_a_report_does_not_judge_is_no_change_and_has_its_reason() -> None:
    old, new = two("old"), two("new", fails)
    found = difference([*old, *new])
    assert isinstance(found, RunDifference)
    assert [each.case for each in found.cases] == ["sonnet"]
    assert found.only_before == found.only_after == ()
    reason = "sd/repeat: 4 of 8 requests of sd failed (4 reset): the rest is no fair sample"
    assert found.left_out == (f"new-1: {reason}", f"new-2: {reason}")
    assert f"  new-1: {reason}\n" in left_out_text(found) and left_out_text(difference(old)) == ""
    again = difference(new)
    assert isinstance(again, Repeated) and list(again.cases) == ["sd/sonnet"]
    assert again.left_out == found.left_out


def test_figures_of_a_late_load_generator_are_in_no_figure_over_runs() -> None:
    behind = two("new", late)
    found = difference(behind)
    assert isinstance(found, Repeated) and found.cases == {}
    (said, _) = found.left_out
    assert said.startswith("new-1: sd/repeat, sd/sonnet: the load generator fell behind")
    fine, bad = trend([two("old")[0], behind[0]])
    assert set(fine.speedups) == set(fine.over_runs) == {"sd/all", "sd/structured", "sd/open-ended"}
    assert bad.speedups == bad.over_runs == {}
    whole = two("old")[0].pairs[0].group("all")
    assert whole and whole.headline and fine.speedups["sd/all"] == pytest.approx(whole.headline.ratio)


def test_every_load_is_compared_and_named() -> None:
    def of(version: str, arm: Server) -> list[Comparison]:
        tested = loads((8, 1))
        return [
            compare(
                experiment=tested,
                records=list(run_loads(tested, {"base": Server(), "sd": arm}, seed=seed, noise=0.01)),
                context=context(run_id=f"{version}-{seed}", versions={"engine image": version}),
            )
            for seed in (1, 2, 3)
        ]

    old = of("old", Server(base_s=0.03, k=5, acceptance=0.6))
    new = of("new", Server(base_s=0.03, per_sequence_s=0.004, k=5, acceptance=0.6))
    found = difference([*old, *new])
    assert isinstance(found, RunDifference)
    cases = [case.name for case in old[0].experiment.workload.cases]
    ratios = {each.case: each.change.ratio for each in found.cases}
    assert list(ratios) == [f"{case}, {load} at a time" for load in (8, 1) for case in cases]
    assert ratios[f"{cases[0]}, 8 at a time"] == pytest.approx((0.03 + 8 * 0.0002) / (0.03 + 8 * 0.004), rel=0.1)
    assert ratios[f"{cases[0]}, 1 at a time"] == pytest.approx((0.03 + 0.0002) / (0.03 + 0.004), rel=0.1)
    assert f"{cases[0]}, 8 at a time" in difference_text(found)
    again = difference(new)
    assert isinstance(again, Repeated) and f"sd/{cases[0]}, 1 at a time" in again.cases
