"""A run on several nodes: each arm against the baseline of its own node, and what nodes differ by."""

from __future__ import annotations

import csv
import io
import json
import math
import random
from pathlib import Path

import pytest
from specdecode.analysis import Comparison, Verdict, compare
from specdecode.analysis.report import documents, render_terminal
from specdecode.analysis.results.comparison import Pair
from specdecode.analysis.results.context import DeviceGroup, RunPart
from specdecode.experiment.workload import Slo
from specdecode.records import EngineCounters, RequestRecord

from tests.specdecode.analysis import recompute
from tests.specdecode.analysis.simulate import context, experiment, on_nodes, request, run
from tests.specdecode.analysis.simulate_load import Server, loads
from tests.specdecode.analysis.simulate_load import run as run_loads

KS = (3, 7, 11)
NODES = (RunPart(unit=1, node="ip-10-0-1-1"), RunPart(unit=2, node="ip-10-0-1-2"))
SHARES = (("base", "sd-k3", "sd-k7"), ("base", "sd-k11"))
TESTED = experiment(ks=KS, requests=12)


def compared(records: list[RequestRecord], **about: object) -> Comparison:
    return compare(experiment=TESTED, records=records, context=context(parts=NODES, **about))


def two(slow: tuple[float, float], **arguments: object) -> list[RequestRecord]:
    return list(on_nodes(TESTED, SHARES, slow=slow, **arguments))


def pair(comparison: Comparison, variant: str) -> Pair:
    return next(each for each in comparison.pairs if each.variant == variant)


def ratio(comparison: Comparison, variant: str) -> float:
    headline = pair(comparison, variant).cases[0].headline
    assert headline
    return headline.ratio


def test_a_slow_node_is_in_no_speedup() -> None:
    """Half as fast: compared with the other node's baseline the arm would lose half of its speed-up."""
    alike, apart = compared(two((1.0, 1.0))), compared(two((1.0, 2.0)))
    for variant in ("sd-k3", "sd-k7", "sd-k11"):
        assert ratio(apart, variant) == pytest.approx(ratio(alike, variant), rel=1e-9)
        for before, after in zip(pair(alike, variant).cases, pair(apart, variant).cases, strict=True):
            assert before.pairs == after.pairs
            assert after.cost_ratio == pytest.approx(before.cost_ratio, rel=1e-9)
        assert (apart.beside(pair(apart, variant), "base", "repeat") or 0) != apart.arm("base", "repeat")


def test_nodes_that_differ_make_intervals_longer() -> None:
    """An arm may take to its node as no other arm does: half of what nodes differ by is added."""

    def width(slow: tuple[float, float], metric: str) -> float:
        case = pair(compared(two(slow)), "sd-k11").cases[0]
        found = next(each for each in case.speedups if each.metric == metric)
        assert found.low and found.high
        return math.log(found.high / found.low)

    headline = [width((1.0, slow), "request_output_throughput") for slow in (1.0, 1.1, 1.3)]
    assert headline == sorted(headline) and headline[2] > 1.4 * headline[0]
    assert headline[0] > 2 * 0.045, "nodes that look alike may differ all the same"
    tokens = [width((1.0, slow), "tokens_per_step") for slow in (1.0, 1.05)]
    assert tokens[0] == pytest.approx(tokens[1]), "no node changes what a draft is worth"


def test_what_would_settle_a_verdict_on_several_nodes_is_another_node_where_no_request_would() -> None:
    """Equal arms: what an arm may gain on its node alone is more than ±5%, however many requests are sent."""
    tested = experiment(ks=(1,), requests=12)
    records = [
        record.model_copy(update={"variant": name, "unit": unit})
        for unit in (1, 2)
        for name in ("base", "sd")
        for record in run(tested, seed=unit + 2 * (name == "sd"))
        if record.variant == "base"
    ]
    on_two = compare(experiment=tested, records=records, context=context(parts=NODES)).pairs[0].cases[0]
    on_one = (
        compare(experiment=tested, records=[each for each in records if each.unit == 1], context=context())
        .pairs[0]
        .cases[0]
    )
    assert on_one.verdict is Verdict.NO_DIFFERENCE and on_two.verdict is Verdict.CANNOT_TELL
    assert on_two.settle.startswith("a run on other nodes, and specdecode compare RUN RUN")


def test_a_run_on_one_node_is_not_touched() -> None:
    """Whatever number its records have: all figures are those of a run that knows of no parts."""
    records = list(run(TESTED))
    plain = compare(experiment=TESTED, records=records, context=context())
    numbered = compare(
        experiment=TESTED, records=[each.model_copy(update={"unit": 3}) for each in records], context=context()
    )
    assert plain.parts == () and not any(each.arms for each in plain.pairs)
    same = {"timeline", "drift"}
    assert plain.model_dump(exclude=same) == numbered.model_dump(exclude=same)


def test_old_records_are_of_part_0() -> None:
    line = request(variant="base", case="repeat", index=0, rng=random.Random(1)).model_dump(exclude={"unit"})
    assert RequestRecord.model_validate(line).unit == 0


def test_the_baseline_has_figures_of_all_nodes_and_of_the_arm_s_own() -> None:
    found = compared(two((1.0, 2.0)))
    everywhere = found.arm("base", "repeat")
    here = found.beside(pair(found, "sd-k11"), "base", "repeat")
    there = found.beside(pair(found, "sd-k3"), "base", "repeat")
    assert everywhere and here and there
    assert (everywhere.requests, here.requests, there.requests) == (24, 12, 12)
    assert here.output_throughput and there.output_throughput and everywhere.output_throughput
    assert here.output_throughput == pytest.approx(there.output_throughput / 2, rel=0.02)
    assert here.output_throughput < everywhere.output_throughput < there.output_throughput
    assert everywhere.load_seconds == pytest.approx(here.load_seconds + there.load_seconds), "nodes run side by side"
    assert found.cost and found.cost.measured_seconds == pytest.approx(
        sum(arm.load_seconds for arm in found.arms), rel=1e-6
    )


def test_what_nodes_differ_by_has_an_interval_and_a_sentence_where_it_is_not_small() -> None:
    found = compared(two((1.0, 1.6)))
    one, other = found.parts
    assert (one.unit, one.node, one.variants) == (1, "ip-10-0-1-1", ("base", "sd-k3", "sd-k7"))
    assert one.against_others and other.against_others and one.against_others.low and one.against_others.high
    assert one.against_others.ratio == pytest.approx(1.6, rel=0.02)
    assert one.against_others.low < 1.6 < one.against_others.high
    assert other.against_others.ratio == pytest.approx(1 / 1.6, rel=0.02)
    said = [note for note in found.notes if note.startswith("The nodes differ")]
    assert len(said) == 1 and "part 1 (ip-10-0-1-1)" in said[0] and "not small against the effect" in said[0]
    small = compared(two((1.0, 1.03)))
    assert small.parts[0].against_others and small.parts[0].against_others.ratio == pytest.approx(1.03, rel=0.02)
    assert not [note for note in small.notes if note.startswith("The nodes differ")], "1.03 is small against 1.5 times"
    assert any("against the baseline that the same node measured" in note for note in small.notes)


def test_nodes_that_differ_far_more_than_is_assumed_get_a_note_whatever_the_gain() -> None:
    """The intervals still have the assumption of 5%, with ten degrees of freedom against the nodes' one."""

    def said(slow: float) -> list[str]:
        return [note for note in compared(two((1.0, slow))).notes if note.startswith("These nodes differ by")]

    assert said(1.0) == said(1.1) == []
    (note,) = said(1.25)
    assert note.startswith("These nodes differ by 16%, far more than the 5%") and "compare RUN RUN" in note


def test_every_form_of_the_report_has_the_nodes() -> None:
    found = compared(two((1.0, 1.6)))
    forms = documents(found) | {"terminal": render_terminal(found)}
    for name in ("report.html", "report.md", "terminal"):
        assert "ip-10-0-1-2" in forms[name].replace("\\", "") and "against the others" in forms[name], name
    rows = [row for row in csv.DictReader(io.StringIO(forms["report.csv"])) if row["kind"] == "node"]
    assert [row["case"] for row in rows] == ["part 1 (ip-10-0-1-1)", "part 2 (ip-10-0-1-2)"]
    assert float(rows[0]["low"]) < float(rows[0]["value"]) < float(rows[0]["high"])
    read = Comparison.model_validate_json(forms["report.json"])
    assert read == found


def test_an_arm_that_two_nodes_measured_is_compared_on_each() -> None:
    """Part 1 was lost after the first case; part 2, on a node half as fast, measured the rest with its baseline."""
    tested = experiment(ks=(7,), requests=12)
    both = on_nodes(tested, (("base", "sd"), ("base", "sd")), slow=(1.0, 2.0))
    records = [
        each
        for each in both
        if (each.unit == 1 and each.case == "repeat") or (each.unit == 2 and each.case == "sonnet")
    ]
    found = compare(experiment=tested, records=records, context=context(parts=NODES))
    assert [case.pairs for case in found.pairs[0].cases] == [12, 12]
    assert all(part.against_others is None for part in found.parts), "no prompt was asked on both"
    third = on_nodes(tested, (("base", "sd"),), slow=(3.0,), seed=2)
    again = [*records, *(each.model_copy(update={"unit": 3}) for each in third)]
    twice = compare(experiment=tested, records=again, context=context(parts=NODES))
    headline = twice.pairs[0].cases[0].headline
    assert headline and headline.n == 12, "a prompt that two nodes measured is no more evidence than one"
    assert headline.ratio == pytest.approx(ratio(found, "sd"), rel=0.02)


def test_an_arm_without_a_baseline_on_its_node_is_not_compared_and_the_answer_says_so() -> None:
    records = [each for each in two((1.0, 1.0)) if (each.unit, each.variant) != (2, "base")]
    found = compared(records)
    assert [each.variant for each in found.pairs] == ["sd-k3", "sd-k7"]
    assert "base was not measured on the node of sd-k11" in found.answer


def test_failed_requests_of_the_baseline_count_where_they_failed() -> None:
    """A third of the baseline's requests failed on node 2: that says nothing of the arms of node 1."""
    broken = request(variant="base", case="repeat", index=0, rng=random.Random(1), failed=True)
    records = [
        broken.model_copy(update={"index": each.index, "unit": 2, "sent_s": each.sent_s})
        if (each.unit, each.variant, each.case) == (2, "base", "repeat") and each.index < 4
        else each
        for each in two((1.0, 1.0))
    ]
    found = compared(records)
    assert pair(found, "sd-k7").cases[0].comparable
    assert not pair(found, "sd-k11").cases[0].comparable


def test_drift_is_told_node_by_node_and_holds_only_there() -> None:
    """The baseline of node 2 was 30% slower in its second round; node 1 was steady."""
    tested = experiment(ks=(3, 7), requests=12, rounds=2)
    records = [
        each.model_copy(update={"end_s": each.end_s * 1.3})
        if (each.unit, each.variant, each.round) == (2, "base", 1)
        else each
        for each in on_nodes(tested, (("base", "sd-k3"), ("base", "sd-k7")), slow=(1.0, 1.0))
    ]
    groups = [
        DeviceGroup(variant="base", unit=unit, round=turn, devices=(f"neuron{turn}",))
        for unit in (1, 2)
        for turn in (0, 1)
    ]
    found = compare(experiment=tested, records=records, context=context(parts=NODES, device_groups=tuple(groups)))
    shown = [(item.variant, item.unit, item.cause) for item in found.drift if item.shown]
    assert shown == [("base", 2, "device group")]
    assert [item.second for item in found.drift if item.shown] == ["round 1 on neuron1 of part 2"]
    assert "drift" not in pair(found, "sd-k3").cases[0].reason
    assert "drift" in pair(found, "sd-k7").cases[0].reason


def test_counters_are_believed_node_by_node() -> None:
    tested = experiment(ks=(7,), requests=8)
    records = list(on_nodes(tested, (("base", "sd"), ("base", "sd")), slow=(1.0, 1.0)))
    counters = []
    for unit in (1, 2):
        own = [r for r in records if (r.unit, r.variant, r.case) == (unit, "sd", "repeat")]
        steps = sum(len(r.chunks) - 1 for r in own)
        tokens = sum(chunk.tokens or 0 for r in own for chunk in list(r.chunks)[1:])
        counters.append(
            EngineCounters(
                variant="sd",
                case="repeat",
                unit=unit,
                drafts=steps,
                draft_tokens=7 * steps,
                accepted_tokens=tokens - steps,
            )
        )
    whole = compare(experiment=tested, records=records, context=context(parts=NODES, counters=tuple(counters)))
    half = compare(experiment=tested, records=records, context=context(parts=NODES, counters=tuple(counters[:1])))
    arm, other = whole.arm("sd", "repeat"), half.arm("sd", "repeat")
    assert arm and arm.drafted_by_counters and arm.drafted_by_counters.drafts == sum(item.drafts for item in counters)
    assert other and other.drafted_by_counters is None, "counters of one node are of a part of the requests"


def test_dollars_of_two_nodes_are_not_compared() -> None:
    """On a node half as fast everything costs twice as much: the cheapest arm is told by shares of its baseline."""
    shares = (("base", "sd-k7", "sd-k11"), ("base", "sd-k3"))
    found = compared(list(on_nodes(TESTED, shares, slow=(1.0, 2.0))))
    least = min(found.arms, key=lambda arm: arm.cost_per_million or 0.0)
    assert least.variant != "sd-k3", "by dollars alone"
    assert found.recommendation and found.recommendation.startswith("Use sd-k3")
    assert "The cheapest" not in found.recommendation, "it is the recommended one"
    other = compared(two((1.0, 2.0))).recommendation
    assert other and "The cheapest is sd-k3" in other and "of what base costs on the same node" in other


def test_over_the_load_each_arm_is_compared_on_its_own_node() -> None:
    """The second node is 6% slower: curve and crossover are those of two nodes alike."""
    tested = loads((1, 4, 16, 32), ks=(3, 5), slo=Slo(tpot_s=0.021, share=0.7))
    arm = Server(base_s=0.026, per_sequence_s=0.0022, k=5, acceptance=0.55)

    def of(slow: float) -> Comparison:
        first = run_loads(tested, {"base": Server(), "sd-k3": arm}, seed=3)
        second = run_loads(tested, {"base": Server().slower(slow), "sd-k5": arm.slower(slow)}, seed=4)
        records = [
            each.model_copy(update={"unit": number}) for number, own in ((1, first), (2, second)) for each in own
        ]
        return compare(experiment=tested, records=records, context=context(parts=NODES))

    alike, apart = of(1.0), of(1.06)
    for before, after in zip(alike.curve, apart.curve, strict=True):
        assert [point.speedup.ratio for point in after.points] == pytest.approx(
            [point.speedup.ratio for point in before.points], rel=1e-6
        )
        assert [found.direction for found in after.crossovers] == [found.direction for found in before.crossovers]
        assert [found.load for found in after.crossovers] == pytest.approx(
            [found.load for found in before.crossovers], rel=0.02
        )
    slow, fast = (next(curve for curve in apart.curve if curve.variant == name) for name in ("sd-k5", "sd-k3"))
    assert slow.points[0].base.tpot_p50 == pytest.approx(1.06 * (fast.points[0].base.tpot_p50 or 0), rel=0.02)
    assert "At your SLO" not in apart.answer, "what arms of two nodes carry is not compared"
    assert {each.variant for each in apart.objective} == {"base", "sd-k3", "sd-k5"}


def test_an_independent_script_finds_the_same_figures(tmp_path: Path) -> None:
    tested = experiment(ks=KS, requests=12, rounds=2)
    records = list(on_nodes(tested, SHARES, slow=(1.0, 1.1)))
    for record in records:
        path = tmp_path / "raw" / record.variant / f"{record.case}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as out:
            out.write(record.model_dump_json() + "\n")
    found = compare(experiment=tested, records=records, context=context(parts=NODES))
    assert found.pairs[0].arms and len(found.parts) == 2
    (tmp_path / "report.json").write_text(found.json_document())
    check = recompute.recompute(tmp_path)
    assert check.wrong == [] and check.checked > 500
    report = json.loads((tmp_path / "report.json").read_text())
    report["parts"][1]["against_others"]["low"] *= 1.001
    report["pairs"][0]["arms"][0]["load_seconds"] *= 1.001
    (tmp_path / "report.json").write_text(json.dumps(report))
    assert len(recompute.recompute(tmp_path).wrong) == 2
