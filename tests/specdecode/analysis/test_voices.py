"""No two outputs of a report contradict each other: generated comparisons, read by a checker of its own (voices.py)."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
from specdecode.analysis.report import tiles
from specdecode.analysis.results.pairs import Action, Decision, Pair, Verdict
from specdecode.analysis.several_runs import gate_questions
from specdecode.analysis.texts import decide, recommend

from tests.specdecode.analysis import generated as made
from tests.specdecode.analysis.generated import REACHED, generated
from tests.specdecode.analysis.voices import contradictions

FEW, PARTS = 32, 2
BROKEN_SEEN = 120
"""A broken decision contradicts itself within so many comparisons."""
MANY = int(os.environ.get("VOICES", "2000"))
"""A thousand reach every state. Ten thousand take half an hour of a core."""


def wrong(seeds: range, folder: Path) -> tuple[dict[int, list[str]], Counter[str]]:
    """Seed -> contradictions, and how often each state was reached."""
    found, reached = {}, Counter[str]()
    for seed in seeds:
        comparison, truth = generated(seed)
        reached.update(truth.reached)
        if told := contradictions(comparison, truth, folder):
            found[seed] = told
    return found, reached


def test_no_output_contradicts_another(tmp_path: Path) -> None:
    found, reached = wrong(range(FEW), tmp_path)
    assert found == {}
    assert reached["use"] and reached["one server"] and reached["import"]
    assert reached["faster together, and on no type by itself"]


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_no_output_of_thousands_contradicts_another(tmp_path: Path, part: int) -> None:
    found, reached = wrong(range(part * MANY // PARTS, (part + 1) * MANY // PARTS), tmp_path)
    print(*(f"{reached[state]:6} {state}" for state in REACHED), sep="\n")
    assert found == {}
    assert set(reached) == set(REACHED)


def faster_is_enough(pair: Pair, at_first: Verdict | None = None, lacks: str = "") -> tuple[Verdict, str]:
    found = OF_ALL(pair, at_first, lacks)
    return (Verdict.PAYS, "") if found[0] is Verdict.CANNOT_TELL and pair.among and pair.among.faster else found


def serves_the_other(comparison: made.Comparison) -> Decision:
    found = DECIDE(comparison)
    return found.model_copy(update={"serve": found.baseline if found.serve == found.variant else found.variant})


def trusts_all(comparison: made.Comparison) -> Decision:
    return decide.decided(comparison).model_copy(update={"distrusted": {}})


OF_ALL, DECIDE = decide.of_all, decide.decide
BREAKS = {
    "an arm that pays on no type is used": (decide, "of_all", faster_is_enough),
    "what costs is used": (decide, "OF_VERDICT", {**decide.OF_VERDICT, Verdict.COSTS: Action.USE}),
    "the other arm is served": (recommend, "decide", serves_the_other),
    "impossible at one load is trusted at the others": (
        made,
        "trusted_everywhere",
        lambda pairs, loads: (pairs, loads),
    ),
    "the gate trusts all": (gate_questions, "decided", trusts_all),
    "the gate does not ask the decision": (gate_questions, "Action", SimpleNamespace(MEASURE=None)),
    "every tile is green": (tiles, "CLASSES", dict.fromkeys(Verdict, "pays")),
    "an arm is used that lacks prompts, or fails": (decide, "lacking", lambda *_: ""),
    "arms over another first baseline are ranked too": (decide, "at_fastest", lambda _, __, pairs: pairs),
    "a slow first baseline is none": (decide, "chain_of", lambda tested, name: [tested.variant(name).compare_to]),
    "what pays at another load is not said": (recommend, "_others", lambda *_: ""),
    "an arm is praised that is not decided about": (recommend, "_open", lambda _: " The cheapest is sd-k3."),
    "a figure is said of other prompts": (recommend, "_types", lambda *_: "the 11 prompt types measured together"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BREAKS)
def test_the_checker_sees_a_broken_decision(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*BREAKS[name])
    first = {"the gate does not ask the decision": 540, "a slow first baseline is none": 420}.get(name, 0)
    assert any(contradictions(*generated(seed), tmp_path) for seed in range(first, first + BROKEN_SEEN))
