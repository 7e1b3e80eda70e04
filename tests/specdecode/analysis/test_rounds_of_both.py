"""Two arms are compared in the rounds that both have: what a round does to both is in no ratio, cost or objective."""

import math
import random
from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest
from specdecode.analysis import Comparison, compare
from specdecode.analysis.results.pairs import Action, Verdict
from specdecode.analysis.results.run_context import DeviceGroup
from specdecode.analysis.several_runs.gate import Thresholds, gate
from specdecode.analysis.texts.decide import decided
from specdecode.analysis.texts.recommend import doubts
from specdecode.experiment.workload import PromptKind, Slo, TestCase
from specdecode.records import RequestRecord

from tests.specdecode.analysis import simulate_load
from tests.specdecode.analysis.simulate import case, context, experiment, run
from tests.specdecode.analysis.simulate_load import Server, loads

TESTED = experiment(rounds=2)
ALIKE = {"acceptance": {"repeat": 0.0, "sonnet": 0.0}, "draft_cost": 0.0, "overhead": 0.0}
SLOWER = {(arm, 1): 1.2 for arm in ("base", "sd")}
ONE_BY_ONE = (("base",), ("sd",), ("base 1",))
HELD = tuple(
    DeviceGroup(variant=arm, round=number, devices=(str((number + at) % 2),))
    for number in (0, 1)
    for at, arm in enumerate(("base", "sd"))
)


def without(left_out: Callable[[RequestRecord], bool]) -> Comparison:
    """Equal arms on a machine that is slower in the second round; without some requests of `sd`."""
    every = run(TESTED, noise=0.005, slow=SLOWER, **ALIKE)
    records = [record for record in every if record.variant == "base" or not left_out(record)]
    return compare(experiment=TESTED, records=records, context=context(device_groups=HELD))


def of_round_1(record: RequestRecord) -> bool:
    return record.round == 1


@pytest.mark.parametrize(
    "left_out",
    [
        of_round_1,
        lambda record: of_round_1(record) and record.case == "repeat",
        lambda record: of_round_1(record) and record.index % 2,
    ],
    ids=["round", "case", "prompts"],
)
def test_equal_arms_stay_equal_if_one_lacks_what_was_measured_in_slower_minutes(
    left_out: Callable[[RequestRecord], bool],
) -> None:
    found = without(left_out)
    assert decided(found).action is Action.KEEP
    for result in found.pairs[0].cases:
        assert result.verdict is Verdict.NO_DIFFERENCE
        assert [each.ratio for each in result.speedups] == pytest.approx([1.0] * len(result.speedups), abs=0.01)


def test_what_is_left_out_is_said_and_costs_are_of_the_same_rounds() -> None:
    found, pair = without(of_round_1), without(of_round_1).pairs[0]
    (told,) = (doubt for doubt in doubts(found) if doubt.startswith("Not compared"))
    assert told == "Not compared, since the other arm was not measured in it: round 1 of base (against sd)."
    before, after = found.costs(pair) or (0.0, 0.0)
    assert after / before == pytest.approx(1.0, abs=0.01)
    one = [found.cost_over(arm, pair, "repeat") or 0.0 for arm in ("base", "sd")]
    assert one[0] / one[1] == pytest.approx(1.0, abs=0.01) and one[0] != pytest.approx(before, rel=1e-3)
    base = found.arm("base", "repeat")
    assert base and base.cost_per_million and base.cost_per_million > 1.05 * one[0], "the arm's own has its slow round"
    whole = without(lambda _: False)
    assert not any(note.startswith("Measured one after the other") for note in whole.notes)
    assert not any(doubt.startswith(("Not compared", "The arms ran on different")) for doubt in doubts(whole))
    assert any("did not swap them" in doubt for doubt in doubts(found)), "in the one round that both have"


def in_waves(records: Iterable[RequestRecord], *waves: tuple[str, ...]) -> list[RequestRecord]:
    """The records of these arms (`base 1`: its second round), each wave a day after the one before."""
    at = {name: number for number, wave in enumerate(waves) for name in wave}
    named = ((each, f"{each.variant} {each.round}".removesuffix(" 0")) for each in records)
    return [
        each.model_copy(update={"session": at[name], "started_at": each.started_at + 86_400.0 * at[name]})
        for each, name in named
        if name in at
    ]


def test_a_base_that_took_turns_with_an_arm_was_not_measured_before_it() -> None:
    """Two arms at a time, one round: the second wave, in which all is slower, has the base once more."""
    tested = experiment(ks=(3, 5))
    slower = {("base", 1): 1.2, ("sd-k5", 1): 1.2}
    every = run(experiment(ks=(3, 5), rounds=2), noise=0.005, slow=slower, **ALIKE)
    records = in_waves(every, ("base", "sd-k3"), ("sd-k5 1", "base 1"))
    found = compare(experiment=tested, records=records, context=context())
    for result in (result for pair in found.pairs for result in pair.cases):
        assert result.headline and result.headline.ratio == pytest.approx(1.0, abs=0.01)
        assert result.verdict is Verdict.NO_DIFFERENCE
    assert any("round 1 of base (against sd-k3)" in doubt for doubt in doubts(found))


@pytest.mark.parametrize(("slow", "reach"), [(1.1, 0.03), (1.3, 0.12)])
def test_a_base_that_was_measured_before_and_after_an_arm_takes_what_drifts_evenly_out_of_the_ratio(
    slow: float, reach: float
) -> None:
    """A-B-A, as a node has it whose arms fit on it one at a time; the arm is half as slow as the base at its end."""
    tested = experiment(rounds=1)
    every = run(TESTED, noise=0.005, slow={("base", 1): slow, ("sd", 0): slow**0.5}, **ALIKE)
    found = compare(experiment=tested, records=in_waves(every, *ONE_BY_ONE), context=context())
    assert not any(doubt.startswith("Not compared") for doubt in doubts(found))
    for result in found.pairs[0].cases:
        assert result.headline and result.headline.low and result.headline.high
        assert result.headline.ratio == pytest.approx(1.0, abs=0.01)
        assert result.headline.high - result.headline.low > reach, "it may have been anywhere between"
    sudden = run(TESTED, noise=0.005, slow={("base", 1): slow}, **ALIKE)
    found = compare(experiment=tested, records=in_waves(sudden, *ONE_BY_ONE), context=context())
    assert found.pairs[0].cases[0].verdict is not Verdict.COSTS


@pytest.mark.parametrize(
    "waves",
    [ONE_BY_ONE, ONE_BY_ONE[:2], (*ONE_BY_ONE[:2], ("base 1",), ("sd 1",)), (("sd-k3",), ("base",), ("sd-k5",))],
    ids=["A-B-A", "one by one", "two rounds", "two arms"],
)
def test_what_one_wave_differs_by_is_in_the_interval_of_arms_of_two(waves: tuple[tuple[str, ...], ...]) -> None:
    """Equal arms; whatever has the node at a time is slower or faster by 4%, for all prompt types at once."""
    plan = experiment(rounds=1 + any("sd 1" in wave for wave in waves), ks=(3, 5) if len(waves[0][0]) > 4 else (7,))
    twice, rng, held, runs = plan.model_copy(update={"rounds": 2}), random.Random(5), 0, 16
    for seed in range(runs):
        slow = {(v.name, number): math.exp(rng.gauss(0.0, 0.04)) for v in plan.variants for number in (0, 1)}
        every = run(twice, seed=seed, noise=0.005, slow=slow, **ALIKE)
        found = compare(experiment=plan, records=in_waves(every, *waves), context=context())
        shown = [pair.among.speedup for pair in found.pairs if pair.among]
        assert len(shown) == len(found.pairs)
        held += sum((each.low or 9.0) <= 1.0 <= (each.high or 0.0) for each in shown) / len(shown)
        for result in (result for pair in found.pairs for result in pair.cases):
            assert result.headline and result.headline.off > 0.05
        told = [note for note in found.notes if note.startswith("Measured one after the other: ")]
        assert all(any(f"{pair.variant} and base" in note for note in told) for pair in found.pairs)
    assert held >= 0.9 * runs


@pytest.mark.parametrize("when", ["uniform", "early", "late"])
def test_a_base_that_moved_did_so_for_all_prompt_types_at_once(when: str) -> None:
    """Equal arms, five types; the base takes 10% longer after the arm. It does not average out over the types."""
    types = tuple(
        TestCase(name=f"t{n}", label=f"t{n}", kind=PromptKind.LINE, text=f"{n}", structured=True) for n in range(5)
    )
    plans = [experiment(cases=types, requests=6, rounds=rounds) for rounds in (1, 2)]
    tested, twice = (
        plan.model_copy(update={"workload": plan.workload.model_copy(update={"output_tokens": 20})}) for plan in plans
    )
    alike = ALIKE | {"acceptance": {each.name: 0.0 for each in types}}
    runs, rng, held, by_kind = 12, random.Random(1), 0, 0
    for seed in range(runs):
        met = {"uniform": rng.random(), "early": 1.0, "late": 0.0}[when]
        every = run(twice, seed=seed, slow={("base", 1): 1.1, ("sd", 0): 1.1**met}, **alike)
        found = compare(experiment=tested, records=in_waves(every, *ONE_BY_ONE), context=context())
        (pair,) = found.pairs
        whole, kind = (pair.among and pair.among.speedup), pair.group("all")
        assert whole and whole.low and whole.high and kind and kind.headline and kind.headline.low and kind.next
        held += whole.low <= 1.0 <= whole.high
        by_kind += kind.headline.low <= 1.0 <= (kind.headline.high or 0.0) and kind.next[0] <= 1.0 <= kind.next[1]
        assert decided(found).action is not Action.USE
        (checked,) = gate([found], Thresholds(min_speedup=0.9)).checks
        assert checked.low and checked.high and checked.low <= 1.0 <= checked.high
    assert min(held, by_kind) >= 0.8 * runs


def test_arms_that_share_no_round_cannot_be_compared() -> None:
    every = run(TESTED, noise=0.005, **ALIKE)
    records = [record for record in every if record.round == (record.variant == "sd")]
    found = compare(experiment=TESTED, records=records, context=context())
    result = case(found, "repeat")
    assert result.verdict is Verdict.CANNOT_TELL and result.speedups == () and found.costs(found.pairs[0]) is None
    assert result.reason == "no prompt was completed by both arms in the same round"
    assert decided(found).action is Action.MEASURE


def test_the_same_holds_at_each_load_and_at_the_objective() -> None:
    tested = loads((1, 4, 16), rounds=2, slo=Slo(tpot_s=0.03, share=0.9))
    server = Server()
    every = list(simulate_load.run(tested, {"base": server, "sd": server}, seed=3, noise=0.005))

    def slower(record: RequestRecord) -> RequestRecord:
        late = tuple(replace(chunk, at_s=1.5 * chunk.at_s) for chunk in record.chunks)
        return record.model_copy(update={"end_s": 1.5 * record.end_s, "chunks": late}) if record.round else record

    records = [slower(record) for record in every if record.variant == "base" or not record.round]
    found = compare(experiment=tested, records=records, context=context())
    for point in found.curve[0].points:
        assert point.speedup.ratio == pytest.approx(1.0, abs=0.01)
        for name in ("output_throughput", "user_speed", "cost_per_million", "tpot_p50", "goodput"):
            assert getattr(point.base, name) == pytest.approx(getattr(point.other, name), rel=0.02), name
    base, sd = found.objective
    assert [each.good for each in base.loads] == [each.good for each in sd.loads]


def test_costs_loads_and_the_objective_have_both_times_of_a_base_that_was_measured_around_an_arm() -> None:
    server, slow, slo = Server(), {("base", 1): 1.21, ("sd", 0): 1.1}, Slo(tpot_s=0.03, share=0.9)
    every = simulate_load.run(loads((1, 4, 16), rounds=2), {"base": server, "sd": server}, seed=3, noise=0.005)

    def slower(record: RequestRecord) -> RequestRecord:
        factor = slow.get((record.variant, record.round), 1.0)
        late = tuple(replace(chunk, at_s=factor * chunk.at_s) for chunk in record.chunks)
        times = {"sent_s": factor * record.sent_s, "end_s": factor * record.end_s}
        return record.model_copy(update={"chunks": late, **times})

    records = in_waves(map(slower, every), *ONE_BY_ONE)
    found = compare(experiment=loads((1, 4, 16), slo=slo), records=records, context=context())
    base, sd = found.objective
    assert [each.requests for each in base.loads] == [2 * each.requests for each in sd.loads]
    assert all(each.goodput for each in (*base.loads, *sd.loads))
    for point in found.curve[0].points:
        assert point.speedup.ratio == pytest.approx(1.0, abs=0.01)
        for name in ("output_throughput", "user_speed", "cost_per_million", "tpot_p50"):
            assert getattr(point.base, name) == pytest.approx(getattr(point.other, name), rel=0.02), name
    before, after = found.costs(found.pairs[0]) or (0.0, 0.0)
    assert after / before == pytest.approx(1.0, abs=0.02)
