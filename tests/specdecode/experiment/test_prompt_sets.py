"""`workload.prompts` becomes one case for each category of a set."""

from __future__ import annotations

from typing import Any

import pytest
from specdecode.experiment import Experiment, ExperimentError, from_document, to_yaml
from specdecode.experiment.documents import parse_yaml
from specdecode.experiment.prompt_sets import set_names, shipped

OWN = "a" * 64


def experiment(*entries: Any, cases: Any = ("meaning-of-life",), **overrides: Any) -> Experiment:
    workload = {"cases": list(cases), "prompts": list(entries)}
    return from_document({"extends": "qwen3-32b", "workload": workload}, overrides=overrides)


def problems(*entries: Any) -> list[tuple[str, str]]:
    with pytest.raises(ExperimentError) as refused:
        experiment(*entries)
    return [(problem.field, problem.rule) for problem in refused.value.problems]


def test_a_set_that_ships_gives_all_its_categories_with_its_hash() -> None:
    work = shipped("work")
    assert work is not None
    given = experiment({"set": "work", "length": "short", "per_category": 20})
    first, *cases = given.workload.cases
    assert (first.name, given.workload.requests_of(first)) == ("meaning-of-life", 8)
    assert [case.name for case in cases] == list(work.categories)
    assert {case.prompts.sha256 for case in cases if case.prompts} == {work.sha256}
    requests = {case.name: given.workload.requests_of(case) for case in cases}
    assert requests["code"] == 20
    assert requests["retrieval"] == len(work.of("retrieval", "short")) < 20
    assert {case.name for case in cases if case.structured} == {"code-editing", "extraction", "tool-calls"}
    assert {case.group for case in given.workload.cases} == {"sample", "work"}


def test_what_a_run_stores_is_read_back_equal() -> None:
    given = experiment(
        "work", {"set": f"tickets@{OWN}", "categories": ["code", "triage"]}, **{"serving.max_model_len": 8192}
    )
    assert from_document(parse_yaml(to_yaml(given), origin="x")) == given
    assert [case.name for case in given.workload.cases][-2:] == ["tickets-code", "triage"]
    assert given.workload.cases[-1].requests is None


def test_a_set_alone_needs_no_cases_and_an_override_reaches_it() -> None:
    given = from_document(
        {"extends": "qwen3-32b", "workload": {"cases": [], "prompts": [{"set": "work", "categories": ["math"]}]}},
        overrides={"workload.prompts.0.per_category": 3},
    )
    assert [(case.name, case.requests) for case in given.workload.cases] == [("math", 3)]


def test_what_is_wrong_with_an_entry_is_said_at_once() -> None:
    assert problems("wrok", {"set": f"own@{OWN}"}, {"set": "work", "size": 3}, 7) == [
        ("workload.prompts.0.set", "prompt-set"),
        ("workload.prompts.1.categories", "prompt-set"),
        ("workload.prompts.2.size", "schema"),
        ("workload.prompts.3", "schema"),
    ]
    assert problems({"set": "work", "categories": ["cooking"]}) == [("workload.cases.cooking.prompts", "prompt-set")]


def test_the_prompt_that_does_not_fit_is_named() -> None:
    with pytest.raises(ExperimentError, match=r"long has at least 5600 tokens, with 600 for the answer 6200.*1024"):
        text = {"name": "long", "label": "long", "kind": "text", "text": "word " * 5600, "structured": False}
        experiment(cases=[text])


def test_sets_that_ship_are_listed() -> None:
    assert "work" in set_names()
