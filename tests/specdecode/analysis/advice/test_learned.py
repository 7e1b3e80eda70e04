"""What the advisor learns from: wholly measured arms with possible figures, of the question that is asked."""

import dataclasses
from collections.abc import Callable

import pytest
from specdecode.analysis import Comparison, compare
from specdecode.analysis.advice.learned import rows_of, taught_nothing, theories
from specdecode.analysis.advice.sweep import advice_sentence, advise_sweep, next_step, observations
from specdecode.analysis.several_runs.alike import not_learnable
from specdecode.cli.report_view import advice_document, advice_text
from specdecode.experiment.model import Experiment
from specdecode.experiment.variants import Method, ModelRef
from specdecode.experiment.workload import Load
from specdecode.records import EngineCounters, ErrorKind, RequestError, RequestRecord
from specdecode.speculation import belief
from specdecode.speculation.belief import Observation

from tests.specdecode.analysis.simulate import context, experiment, run

TESTED = experiment(ks=(3, 7, 11))
K7 = TESTED.variant("sd-k7")


def ks_of(comparison: Comparison, group: str = "all") -> set[int]:
    return {item.k for seen in observations([comparison], group=group).values() for item in seen}


def learned(records: list[RequestRecord], **around: object) -> tuple[Comparison, set[int]]:
    comparison = compare(experiment=TESTED, records=records, context=context(**around))
    return comparison, ks_of(comparison)


def changed(change: Callable[[RequestRecord], RequestRecord], variant: str, case: str) -> list[RequestRecord]:
    return [change(r) if (r.variant, r.case) == (variant, case) else r for r in run(TESTED)]


def failed(record: RequestRecord) -> RequestRecord:
    return record.model_copy(update={"error": RequestError(kind=ErrorKind.HTTP, message="503")})


def merged(record: RequestRecord) -> RequestRecord:
    """Eight chunks in one, as a proxy sends them that buffers: more tokens a step than k + 1."""
    chunks = [record.chunks[0]]
    for at in range(1, len(record.chunks), 8):
        parts = record.chunks[at : at + 8]
        sums = {"chars": sum(p.chars for p in parts), "tokens": sum(p.tokens or 0 for p in parts)}
        chunks.append(dataclasses.replace(parts[-1], **sums))
    return record.model_copy(update={"chunks": tuple(chunks)})


def test_all_arms_that_were_measured_are_learned_from() -> None:
    comparison, ks = learned(list(run(TESTED)))
    assert ks == {3, 7, 11} and advice_sentence(comparison)
    also = compare(experiment=like(quantization="fp8"), records=run(TESTED), context=context())
    assert {measured.k for theory in also.theory for measured in theory.measured} == {3, 11}, "7 differs in more than k"


def test_an_arm_that_lost_a_case_is_not_compared_with_arms_that_have_it() -> None:
    """Without its open-ended case an arm's mean is of the structured one alone: it would look the best."""
    comparison, ks = learned(changed(failed, "sd-k7", "sonnet"))
    assert ks == {3, 11}
    assert next(p for p in comparison.pairs if p.variant == "sd-k7").group("structured"), "that one stands"
    assert ks_of(comparison, "structured") == {3, 7, 11}


def test_an_arm_with_more_tokens_a_step_than_its_k_allows_is_not_learned_from() -> None:
    for case in ("repeat", "sonnet"):
        _, ks = learned(changed(merged, "sd-k7", case))
        assert ks == {3, 11}
    _, ks = learned(changed(merged, "base", "repeat"))
    assert ks == set(), "all were compared with that base"


def test_an_arm_whose_server_drafts_more_than_its_k_is_not_learned_from() -> None:
    """Its tokens per step are possible, and of another k than the one that would be learned."""
    records = list(run(TESTED))
    wrong = [
        EngineCounters(
            variant="sd-k3",
            case=case,
            round=0,
            drafts=100,
            draft_tokens=700,
            accepted_tokens=300,
            accepted_per_position=(),
            trusted=True,
        )
        for case in ("repeat", "sonnet")
    ]
    comparison, ks = learned(records, counters=tuple(wrong))
    assert ks == {7, 11}
    assert {measured.k for theory in comparison.theory for measured in theory.measured} == {7, 11}
    assert any("wrong k" in note for note in comparison.notes)


def test_a_sweep_ends_with_an_arm_of_which_nothing_can_be_learned() -> None:
    comparison, _ = learned([r for r in changed(merged, "sd-k7", "repeat") if r.variant in ("base", "sd-k7")])
    step = next_step(TESTED, [comparison])
    assert step.arm is None and "cannot be compared" in step.reason


def like(**changes: object) -> Experiment:
    variant = K7.model_copy(update=changes)
    variants = tuple(variant if item.name == K7.name else item for item in TESTED.variants)
    return TESTED.model_copy(update={"variants": variants})


def loaded(**changes: object) -> Experiment:
    return TESTED.model_copy(update={"workload": TESTED.workload.model_copy(update=changes)})


def served(**changes: object) -> Experiment:
    return TESTED.model_copy(update={"serving": TESTED.serving.model_copy(update=changes)})


def speculating(**changes: object) -> Experiment:
    assert K7.speculation
    return like(speculation=K7.speculation.model_copy(update=changes))


def other_base() -> Experiment:
    base = TESTED.variant("base").model_copy(update={"neuron_config": {"qkv_kernel_enabled": True}})
    return TESTED.model_copy(update={"variants": (base, *TESTED.variants[1:])})


@pytest.mark.parametrize(
    ("measured", "says"),
    [
        (TESTED.model_copy(update={"target": ModelRef(id="Qwen/Qwen3-14B", size_gib=28)}), "target.id"),
        (TESTED.model_copy(update={"target": TESTED.target.model_copy(update={"revision": "v2"})}), "target.revision"),
        (TESTED.model_copy(update={"engine": "other"}), "engine"),
        (served(tensor_parallel_size=64), "serving.tensor_parallel_size"),
        (served(max_num_seqs=1), "serving.max_num_seqs"),
        (loaded(temperature=0.7), "workload.temperature"),
        (loaded(concurrency=(16,)), "workload.concurrency"),
        (loaded(output_tokens=50), "workload.output_tokens"),
        (loaded(load=Load.SIMULTANEOUS), "workload.load"),
        (speculating(method=Method.VANILLA_DRAFT), "variants.sd-k7.method: fused-draft -> vanilla-draft"),
        (
            speculating(draft=ModelRef(id="Qwen/Qwen3-1.7B", revision="v2", size_gib=3.4)),
            "variants.sd-k7.draft.revision",
        ),
        (like(neuron_config={"trace_tokengen_model": False}), "variants.sd-k7.arm.neuron_config"),
        (like(quantization="fp8"), "variants.sd-k7.arm.quantization"),
        (other_base(), "base.neuron_config.qkv_kernel_enabled"),
    ],
    ids=lambda item: item if isinstance(item, str) else "",
)
def test_runs_that_differ_in_what_decides_a_speed_up_are_not_learned_from(measured: Experiment, says: str) -> None:
    assert any(says in found for found in not_learnable(TESTED, measured)), not_learnable(TESTED, measured)


def test_runs_that_differ_only_in_how_often_they_ask_or_in_k_are_learned_from() -> None:
    assert not_learnable(TESTED, TESTED) == []
    assert not_learnable(TESTED, loaded(requests=50, rounds=3, seed=5)) == []
    assert not_learnable(TESTED, speculating(num_speculative_tokens=9)) == []
    assert not_learnable(experiment(ks=(7,)), TESTED) == []


def test_a_measured_arm_whose_tokens_per_step_are_unknown_counts_as_measured_and_is_named() -> None:
    """As in an import. Else `advise` names it as unmeasured, and compares with less than was measured."""
    tested = experiment(ks=(3,))
    known = compare(experiment=tested, records=run(tested), context=context())
    (pair,) = known.pairs
    groups = [
        group.model_copy(update={"speedups": tuple(one for one in group.speedups if one.metric != "tokens_per_step")})
        for group in pair.groups
    ]
    found = known.model_copy(update={"pairs": (pair.model_copy(update={"groups": tuple(groups)}),)})
    (speedup,) = [one.ratio for one in pair.group("all").speedups if one.metric == "time_per_output_token"]
    document = advice_document(advise_sweep(tested, [found]), tested, [found])
    assert document["best"]["variant"] == "sd" and document["best_speedup"] == pytest.approx(speedup)
    assert all(one["k"] != 3 for one in document["candidates"])
    assert "1.00× so far" not in document["reason"]
    assert "sd teaches nothing of other arms: its tokens per step are not known." in advice_text(document)
    assert [*taught_nothing(known)] == [] == rows_of(found) and theories(experiment=tested, pairs=found.pairs) == ()
    again = belief.merged([Observation("d", 4, 2.0, None, 0.1), Observation("d", 4, 2.0, 3.0, 0.1)])
    assert [(one.tokens_per_step, round(one.speedup, 9)) for one in again] == [(pytest.approx(3.0), 2.0)]
