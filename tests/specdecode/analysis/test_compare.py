"""What the comparison says about runs whose truth is known."""

from __future__ import annotations

import random

import pytest
from specdecode.analysis import Verdict, compare
from specdecode.analysis.loads.curve import gains_by_level
from specdecode.analysis.report import render_markdown
from specdecode.analysis.results.comparison import Comparison
from specdecode.analysis.results.run_context import DeviceGroup
from specdecode.analysis.statistics.measured import AtLevel
from specdecode.analysis.statistics.pairs import equality
from specdecode.experiment.variants import ModelRef, ServedVariant
from specdecode.experiment.workload import PromptKind, Requests, TestCase
from specdecode.measures.arm import measure_arm
from specdecode.records import Chunk

from tests.specdecode.analysis.simulate import case, context, experiment, request, run, simulated

CASES = (
    TestCase(name="repeat", label="repeat", kind=PromptKind.LINE, text="a", structured=True),
    TestCase(name="sonnet", label="__SHAKESPEARE__", kind=PromptKind.SONNET, structured=False),
)


def test_the_speedup_is_the_one_that_was_put_in() -> None:
    tested = experiment(requests=30)
    comparison = simulated(tested=tested, acceptance={"repeat": 1.0, "sonnet": 0.0})
    tpot = {e.metric: e for e in case(comparison, "repeat").speedups}["time_per_output_token"]
    assert tpot.ratio == pytest.approx(8 / (1 + 7 * 0.12 + 0.10), rel=0.02), "E = 8 at a step of 1.94"
    assert tpot.low < tpot.ratio < tpot.high
    slow = {e.metric: e for e in case(comparison, "sonnet").speedups}["time_per_output_token"]
    assert slow.ratio == pytest.approx(1 / 1.94, rel=0.02)


def test_a_group_whose_cases_disagree_is_called_mixed() -> None:
    tested = experiment(cases=(*CASES, CASES[1].model_copy(update={"name": "meaning"})))
    records = run(tested, acceptance={"repeat": 0.9, "sonnet": 0.1, "meaning": 0.95})
    answer = simulated(records, tested=tested).answer
    assert "differs between the 2 open-ended prompt types measured: costs on sonnet (" in answer
    assert "pays on meaning (" in answer


def test_too_many_failures_give_no_verdict_and_are_counted() -> None:
    records = [
        r
        if (r.variant, r.case, r.index) != ("sd", "repeat", 3)
        else request(variant="sd", case="repeat", index=3, rng=random.Random(1), failed=True, sent_s=r.sent_s)
        for r in run(experiment())
    ]
    comparison = simulated(records)
    result = case(comparison, "repeat")
    assert result.verdict is Verdict.CANNOT_TELL
    assert "1 of 8 requests of sd failed (1 reset)" in result.reason
    assert result.headline is not None, "the figure is still shown"
    assert result.headline.n == 7
    arm = comparison.arm("sd", "repeat")
    assert arm is not None
    assert (arm.requests, arm.completed, arm.failed, arm.errors) == (8, 7, 1, {"reset": 1})
    assert case(comparison, "sonnet").verdict is not Verdict.CANNOT_TELL


def test_requests_that_were_asked_for_and_never_sent_are_told() -> None:
    lost = [r for r in run(experiment()) if (r.variant, r.case, r.index) != ("sd", "repeat", 3)]
    assert "sd was sent 7 of 8 requests in repeat" in simulated(lost).answer
    assert "was sent" not in simulated().answer


def test_unknown_records_are_left_out_with_a_note() -> None:
    stray = request(variant="ghost", case="repeat", index=0, rng=random.Random(1))
    comparison = simulated([*run(experiment()), stray])
    assert any("ghost/repeat" in note for note in comparison.notes)
    assert all(arm.variant != "ghost" for arm in comparison.arms)


def test_identical_prompts_are_said_to_show_timing_noise_only() -> None:
    records = [r.model_copy(update={"prompt_sha256": "0" * 64}) for r in run(experiment())]
    result, two = (case(simulated([r for r in records if r.index < most]), "repeat") for most in (8, 2))
    assert result.distinct_prompts == 1
    assert all(each.reason.endswith("one prompt, so this is about that prompt") for each in (result, two)), two.reason
    assert result.headline is not None and "of paired requests of one prompt" in result.headline.method
    (several,) = simulated().pairs[0].cases[:1]
    assert several.headline is not None and "of paired prompts" in several.headline.method
    assert [any("one and the same prompt" in note for note in each.notes) for each in (result, several)] == [
        True,
        False,
    ]


def test_different_output_lengths_are_said() -> None:
    tested = experiment()
    records = [
        request(variant=v, case=c, index=i, rng=random.Random(i), tokens=100 if v == "sd" else 200)
        for v in ("base", "sd")
        for c in ("repeat", "sonnet")
        for i in range(4)
    ]
    result = case(simulated(records, tested=tested), "repeat")
    assert any("different length (200 and 100" in note for note in result.notes)
    assert not any("different length" in note for note in case(simulated(), "repeat").notes)


def of_lengths(base: list[int], other: list[int], *, sonnet: list[int] | None = None) -> Comparison:
    """The arm is slower at each token, and as fast to the first. `sonnet`: lengths of both arms there."""
    return simulated(
        request(variant=v, case=c, index=i, rng=random.Random(i), tokens=tokens, step_s=step_s, ttft_s=0.1)
        for v, step_s, lengths in (("base", 0.020, base), ("sd", 0.021, other))
        for c in ("repeat", "sonnet")
        for i, tokens in enumerate(sonnet if sonnet and c == "sonnet" else lengths)
    )


def test_an_arm_gains_nothing_from_a_baseline_that_answers_shorter() -> None:
    """Tokens per second have the time to the first token in them: 1.31× of an arm that accepts nothing."""
    found = of_lengths([8] * 8, [64] * 8)
    result = case(found, "repeat")
    assert result.verdict is Verdict.CANNOT_TELL and not result.comparable
    assert "its answers have 8.00× (95% CI 8.00–8.00) the tokens of the baseline's" in result.reason
    whole = found.pairs[0].group("all")
    assert whole is not None and whole.headline is None and found.pairs[0].among is None
    assert found.costs(found.pairs[0]) is None
    assert "Use sd" not in found.answer


def test_a_case_that_can_be_compared_keeps_its_cost_beside_one_that_cannot() -> None:
    found = of_lengths([8] * 8, [64] * 8, sonnet=[64] * 8)
    (pair,) = found.pairs
    assert [found.cost_over("sd", pair, name) is None for name in ("repeat", "sonnet")] == [True, False]
    assert found.costs(pair) is None


def test_lengths_that_differ_by_chance_are_compared() -> None:
    result = case(of_lengths([100, 200] * 3 + [100, 100], [200, 100] * 3 + [200, 200]), "repeat")
    assert result.comparable and "its answers have" not in result.reason


def test_a_load_at_which_answers_differ_in_length_is_no_point_of_a_curve() -> None:
    long, short = ([request(variant=v, case="repeat", index=i, rng=random.Random(i), tokens=n) for i in range(8)]
                   for v, n in (("sd", 64), ("base", 8)))  # fmt: skip
    base, other = measure_arm(short), measure_arm(long)
    at = AtLevel(
        level=experiment().workload.levels[0], arms={("base", "repeat"): base, ("sd", "repeat"): other}, unknown=()
    )
    gains = {"levels": [at], "variant": "sd", "baseline": "base", "cases": ["repeat"]}
    assert gains_by_level(experiment=experiment(), **gains) == {}


@pytest.mark.parametrize("hidden", [0, 200])
def test_an_arm_that_counts_equal_texts_twice_is_distrusted(hidden: int) -> None:
    """Nothing of a token can be compared then: not the speed, not the cost. Hidden reasoning counts too."""
    records = [
        r.model_copy(update={"completion_tokens": 400, "reasoning_tokens": hidden}) if r.variant == "sd" else r
        for r in run(experiment())
    ]
    comparison = simulated(records)
    result = case(comparison, "repeat")
    assert result.verdict is Verdict.DISTRUST and result.headline is None
    costs, trusted = (
        [
            line
            for line in render_markdown(each).splitlines()
            if "\\$" in line and ("→" in line or "million output tokens cost" in line)
        ]
        for each in (comparison, simulated())
    )
    assert costs == [] and len(trusted) == 4
    assert "the arms count 1,600 and 3,200 tokens in 8 answers that are the same text" in result.reason
    assert case(simulated(), "repeat").equality.identical_tokens == (1600, 1600)
    sampled = experiment().model_copy(
        update={"workload": experiment().workload.model_copy(update={"temperature": 0.7})}
    )
    assert "the same text" not in case(simulated(records, tested=sampled), "repeat").reason


def test_thoughts_that_are_not_shown_may_differ_in_length() -> None:
    thought = {"base": 800, "sd": 900}
    records = [
        r.model_copy(update={"completion_tokens": 200 + thought[r.variant], "reasoning_tokens": thought[r.variant]})
        for r in run(experiment())
    ]
    equal = case(simulated(records), "repeat").equality
    assert (equal.identical_tokens, equal.hidden_tokens, equal.counted) == ((8000, 8800), 7200, 8)
    assert "the same text" not in case(simulated(records), "repeat").reason


def test_an_arm_without_counts_is_named_as_what_is_missing() -> None:
    records = [
        r.model_copy(update={"completion_tokens": None, "usage_problem": "the server sent no usage"})
        if r.variant == "sd"
        else r
        for r in run(experiment())
    ]
    result = case(simulated(records), "repeat")
    assert result.verdict is Verdict.CANNOT_TELL
    assert result.reason == "the tokens per second are not known of sd: the server sent no usage"


def test_prompts_that_one_arm_counts_otherwise_are_said() -> None:
    def notes(tokens: int) -> list[str]:
        counted = {"prompt_tokens": tokens}
        records = [r.model_copy(update=counted) if r.variant == "sd" else r for r in run(experiment())]
        return [note for note in case(simulated(records), "repeat").notes if "count the same prompts" in note]

    assert [len(notes(tokens)) for tokens in (64, 115, 116)] == [0, 0, 1]
    assert "as 64 and 9,000 tokens" in notes(9000)[0]


def test_doubtful_times_and_merged_chunks_are_said() -> None:
    records = list(run(experiment()))
    lagging = [r.model_copy(update={"time_doubt_s": 0.02}) if r.index == 0 else r for r in records]
    assert any("4 of 32 requests have doubtful times: the load" in note for note in simulated(lagging).notes)
    merged = [
        r.model_copy(update={"chunks": (r.chunks[0], *r.chunks[2::2])}) if r.variant == "base" else r for r in records
    ]
    (told,) = [note for note in simulated(merged).notes if note.startswith("IMPOSSIBLE")]
    assert "base in repeat" in told and "does not speculate gives 1 a step at most" in told


def test_prompts_that_are_sent_again_count_once_and_it_is_said() -> None:
    """Repeats, and prompts of other ids with the same text, which are sent under the first one's id."""
    records = [r.model_copy(update={"prompt_id": f"p{r.index % 3}"}) for r in run(experiment())]
    result = case(simulated(records), "repeat")
    assert result.headline is not None
    assert result.headline.n == 3
    assert any("8 prompts were sent, 3 of them different" in note for note in result.notes)
    unlike = [r.model_copy(update={"prompt_id": f"p{r.index}"}) for r in records]
    assert not any("of them different" in note for note in case(simulated(unlike), "repeat").notes)


def groups(*, swapped: bool) -> tuple[DeviceGroup, ...]:
    halves = (("neuron0", "neuron7"), ("neuron8", "neuron15"))
    return tuple(
        DeviceGroup(variant=name, round=r, devices=halves[(n + (r if swapped else 0)) % 2])
        for r in (0, 1)
        for n, name in enumerate(("base", "sd"))
    )


def test_what_device_groups_differ_by_cancels_where_the_arms_swap_them() -> None:
    tested = experiment(rounds=2)
    # Device group 2 is 30% slower; the arms swap. Speculation does nothing: it must not be said to pay or cost.
    slow = {("base", 1): 1.3, ("sd", 0): 1.3}
    records = list(run(tested, acceptance={}, draft_cost=0.0, overhead=0.0, slow=slow, noise=0.005))
    records = [r for r in records if r.variant == "base"] + [
        r.model_copy(update={"variant": "sd"})
        for r in run(experiment(rounds=2), acceptance={}, slow={("base", 0): 1.3}, noise=0.005, seed=9)
        if r.variant == "base"
    ]
    comparison = compare(experiment=tested, records=records, context=context(device_groups=groups(swapped=True)))
    drift = {item.variant: item for item in comparison.drift}
    assert drift["base"].cause == "time and device group"
    assert drift["base"].ratio == pytest.approx(1 / 1.3, rel=0.02)
    assert drift["sd"].ratio == pytest.approx(1.3, rel=0.02)
    assert {result.verdict for result in comparison.pairs[0].cases} == {Verdict.NO_DIFFERENCE}


def test_each_way_of_holding_devices_counts_the_same_though_three_rounds_have_one_of_them_twice() -> None:
    """Round 1 is twice as slow for the arm alone: half of the mean, not a third."""
    tested = experiment(rounds=3)
    held = (*groups(swapped=True), *(each.model_copy(update={"round": 2}) for each in groups(swapped=True)[:2]))
    both = ({}, {("sd", 1): 2.0})
    even, slow = (
        case(compare(experiment=tested, records=run(tested, slow=own), context=context(device_groups=held)), "repeat")
        for own in both
    )
    assert even.headline is not None and slow.headline is not None
    assert slow.headline.ratio / even.headline.ratio == pytest.approx(2**-0.5, rel=1e-6)
    drift = compare(experiment=tested, records=run(tested, slow=both[1]), context=context(device_groups=held)).drift
    assert drift[1].ratio == pytest.approx(1.0, abs=0.03), "the last round against the first"
    assert not any(each.shown for each in drift)


def test_a_ratio_that_moves_between_rounds_on_the_same_devices_cannot_be_judged() -> None:
    tested = experiment(rounds=2)
    slow = {("base", 1): 1.10, ("sd", 0): 0.97, ("sd", 1): 0.97}
    records = list(
        run(tested, acceptance={"repeat": 0.0, "sonnet": 0.0}, draft_cost=0.0, overhead=0.0, noise=0.004, slow=slow)
    )
    comparison = simulated(records, tested=tested)
    result = case(comparison, "repeat")
    assert result.headline is not None
    assert result.headline.low is not None
    assert result.headline.low < 1.0 < result.headline.high
    assert result.verdict is Verdict.CANNOT_TELL
    assert comparison.drift[0].cause == "time"
    assert any("base was 8.9% slower in" in note for note in comparison.notes), comparison.notes


def test_unswapped_device_groups_are_warned_of() -> None:
    tested = experiment()
    comparison = compare(experiment=tested, records=run(tested), context=context(device_groups=groups(swapped=False)))
    assert any("did not swap" in note for note in comparison.notes)


def test_quantization_and_speculation_are_told_apart() -> None:
    """As the llama-3.1-405b preset: bf16 to FP8 is 1.4x, speculation on top 3x; published was the product."""
    tested = experiment()
    fp8 = ModelRef(id="meta-llama/Llama-3.1-405B-Instruct-FP8", size_gib=380)
    variants = (
        ServedVariant(name="bf16", label="Base"),
        ServedVariant(name="fp8", label="BaseFP8", compare_to="bf16", quantization="fp8", target=fp8),
        tested.variants[1].model_copy(
            update={"name": "sd-fp8", "compare_to": "fp8", "quantization": "fp8", "target": fp8}
        ),
    )
    tested = tested.model_copy(update={"variants": variants})
    step = {"bf16": 0.045, "fp8": 0.045 / 1.4, "sd-fp8": 0.045 / 1.4 / 3}
    rng = random.Random(2)
    records = [
        request(variant=name, case=c, index=i, rng=rng, step_s=seconds, ttft_s=seconds, noise=0.01)
        for name, seconds in step.items()
        for c in ("repeat", "sonnet")
        for i in range(8)
    ]
    comparison = simulated(records, tested=tested)
    chain = comparison.chains[0]
    assert (chain.root, chain.variant) == ("bf16", "sd-fp8")
    assert [link.changes for link in chain.links] == [("quantization",), ("speculation",)]
    gains = [link.group("all").headline.ratio for link in (*chain.links, chain.total)]
    assert gains == pytest.approx([1.4, 3.0, 4.2], rel=0.02)
    assert comparison.answer.startswith("sd-fp8 against fp8 pays")
    first, second = comparison.answer.split(" sd-fp8 against bf16 pays")
    assert "3.0" in first and "4.2" not in first, "not the product with quantization"
    assert "4.2" in second, "which is said beside it"


@pytest.mark.parametrize(
    ("chunks", "at", "from_start"),
    [
        ((Chunk(at_s=0.1, chars=12, tokens=3),), 3, 1),
        ((Chunk(at_s=0.1, chars=12, tokens=3),), 4, 0),
        ((Chunk(at_s=0.1, chars=2, tokens=3),), 0, 1),
        ((Chunk(at_s=0.1, chars=2, tokens=3),), 1, 0),
        ((Chunk(at_s=0.1, chars=12),), 0, 1),
        ((Chunk(at_s=0.1, chars=12),), 1, 0),
        ((), 0, 1),
        ((), 1, 0),
    ],
)
def test_answers_differ_from_the_start_within_the_characters_of_the_first_token(
    chunks: tuple[Chunk, ...], at: int, from_start: int
) -> None:
    """As many as the tokens of the first chunk have on average; one if that is not known."""
    base = request(variant="base", case="repeat", index=0, rng=random.Random(1), output="x" * 150)
    base = base.model_copy(update={"chunks": chunks})
    other = base.model_copy(update={"variant": "sd", "output": "x" * at + "y" + "x" * (149 - at)})
    found = equality(base=[base], other=[other], temperature=0.0)
    assert found.first and (found.compared, found.identical, found.from_start, found.first.at) == (1, 0, from_start, at)
    assert found.expected and not equality(base=[base], other=[other], temperature=0.5).expected
    late = other.model_copy(update={"output": "x" * 100 + "y" * 90})
    first = equality(base=[base], other=[late], temperature=0.0).first
    assert first and (first.index, first.before, first.base, first.other) == (0, "x" * 60, "x" * 50, "y" * 60)
    again = other.model_copy(update={"round": 1})
    assert equality(base=[base], other=[again], temperature=0.0).compared == 1, "with the first round's"
    longer = base.model_copy(update={"variant": "sd", "output": base.output + "y"})
    last = equality(base=[base], other=[longer], temperature=0.0).first
    assert last and last.at == 150


def test_outputs_of_different_prompts_are_not_compared() -> None:
    records = [r.model_copy(update={"prompt_sha256": r.variant}) for r in run(experiment())]
    assert case(simulated(records), "repeat").equality.compared == 0


def test_a_case_that_ended_early_has_the_wider_interval_and_says_so() -> None:
    tested = experiment(requests=30)
    until = tested.workload.model_copy(update={"requests": Requests(max=30, precision=0.05)})
    tested = tested.model_copy(update={"workload": until})
    records = [record for record in run(tested) if record.case != "repeat" or record.index < 12]
    found = simulated(records, tested=tested)
    fixed = compare(experiment=experiment(requests=30), records=records, context=context())
    early, ordinary = case(found, "repeat"), case(fixed, "repeat")
    assert early.headline is not None and ordinary.headline is not None
    assert early.headline.ratio == ordinary.headline.ratio and early.headline.n == 12
    assert early.headline.low < ordinary.headline.low and early.headline.high > ordinary.headline.high  # type: ignore[operator]
    assert "anytime-valid" in early.headline.method and "anytime-valid" not in ordinary.headline.method
    whole = [record for record in run(tested) if record.case != "repeat"]
    sent = case(compare(experiment=tested, records=whole, context=context()), "sonnet")
    assert "All 30 requests were sent: the speed-up was not settled before." in sent.notes
    assert sent.headline is not None and "anytime-valid" not in sent.headline.method
    why = "its whole interval is above 1"
    assert f"Measuring ended after 12 of at most 30 requests: the speed-up was settled, {why}." in early.notes
    slower = [
        r.model_copy(update={"round": 1, "end_s": r.end_s * (30 if r.variant == "sd" and r.index % 2 else 1)})
        for r in records
    ]
    both = case(compare(experiment=tested, records=[*records, *slower], context=context()), "repeat")
    (note,) = (note for note in both.notes if note.startswith("Measuring ended"))
    assert note.endswith("was settled, by its first round, and no longer by all of them.")
    assert "All 30 requests were sent: the speed-up was not settled before." in case(found, "sonnet").notes
    assert not [note for note in case(fixed, "repeat").notes if "requests were sent" in note or "ended after" in note]
    assert case(found, "sonnet").speedups[1:] == case(fixed, "sonnet").speedups[1:], "what went to the end lost nothing"
    alike = {"acceptance": {"repeat": 0.0, "sonnet": 0.0}, "draft_cost": 0.0, "overhead": 0.0}
    slightly = list(run(tested, slow={("sd", 0): 1.08}, noise=0.005, **alike))
    lost, whole_lost = (
        case(compare(experiment=each, records=slightly, context=context()), "repeat")
        for each in (tested, experiment(requests=30))
    )
    assert (lost.verdict, whole_lost.verdict) == (Verdict.CANNOT_TELL, Verdict.COSTS)
    assert lost.speedups[0] == lost.headline and lost.speedups[1] == whole_lost.speedups[1]
    assert lost.headline is not None and lost.headline.high is not None and lost.headline.high > 1.05
    assert r"8 to 30 requests \(until ±5\.0% or a verdict\)" in render_markdown(found)
