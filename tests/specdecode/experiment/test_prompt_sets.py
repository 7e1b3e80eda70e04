"""`workload.prompts` becomes one case for each category of a set."""

from typing import Any

import pytest
from specdecode.experiment import Experiment, ExperimentError, Problem, from_document, load_preset, to_yaml
from specdecode.experiment.documents import parse_yaml
from specdecode.experiment.prompt_sets import mean_input_tokens, shipped
from specdecode.prompts import about_tokens

OWN = "a" * 64


def test_the_flagship_keeps_the_samples_cases_and_measures_the_kinds_of_work_too() -> None:
    load = load_preset("qwen3-32b").workload
    sample = [case for case in load.cases if case.group == "sample"]
    assert [case.name for case in load.cases[:10]] == [case.name for case in sample]
    assert [case.name for case in sample] == [
        *("counting-numbers", "shakespeare", "letter-a", "hello-world", "cat-on-mat", "json-fixed-keys"),
        *("python-skeleton", "list-numbers", "repeat-line", "meaning-of-life"),
    ]
    assert all(load.requests_of(case) == 8 and load.output_tokens_of(case) == 600 for case in sample)
    work = shipped("work")
    assert work is not None
    kinds = {case.name: load.requests_of(case) for case in load.cases[10:]}
    assert set(kinds) == set(work.categories)
    assert {kinds.pop("chat"), *kinds.values()} == {30, 10}


MATH = [{"set": "work", "categories": ["math"], "length": "short"}]


@pytest.mark.parametrize(
    ("changes", "overrides", "names"),
    [
        ({"cases": ["letter-a"]}, {}, ["letter-a"]), ({}, {"workload.cases": ["letter-a"]}, ["letter-a"]),
        ({"prompts": []}, {}, 10), ({}, {"workload.prompts": []}, 10), ({"requests": 3}, {}, 23),
        ({"cases": ["letter-a"], "prompts": MATH}, {}, ["letter-a", "math"]),
        ({}, {"workload.cases": [], "workload.prompts": MATH}, ["math"]),
    ],
)  # fmt: skip
def test_who_names_cases_of_a_preset_pays_for_no_others(
    changes: dict[str, Any], overrides: dict[str, Any], names: list[str] | int
) -> None:
    given = from_document({"extends": "qwen3-32b", "workload": changes}, overrides=overrides).workload.cases
    assert (len(given) if isinstance(names, int) else [case.name for case in given]) == names


def experiment(*entries: Any, cases: Any = ("meaning-of-life",), **overrides: Any) -> Experiment:
    workload = {"cases": list(cases), "prompts": list(entries)}
    return from_document({"extends": "qwen3-32b", "workload": workload}, overrides=overrides)


def refused(*entries: Any) -> tuple[Problem, ...]:
    with pytest.raises(ExperimentError) as caught:
        experiment(*entries)
    return caught.value.problems


def problems(*entries: Any) -> list[tuple[str, str]]:
    return [(problem.field, problem.rule) for problem in refused(*entries)]


def test_a_set_that_ships_gives_all_its_categories_with_its_hash() -> None:
    work = shipped("work")
    assert work is not None
    given = experiment({"set": "work", "length": "short", "per_category": 20, "output_tokens": 200})
    first, *cases = given.workload.cases
    assert (first.name, given.workload.requests_of(first)) == ("meaning-of-life", 8)
    assert [case.name for case in cases] == list(work.categories)
    assert {case.prompts.sha256 for case in cases if case.prompts} == {work.sha256}
    requests = {case.name: given.workload.requests_of(case) for case in cases}
    assert (requests["code"], requests["chat"]) == (20, 20 * 3), "each turn of a conversation is a request"
    assert {given.workload.output_tokens_of(case) for case in cases} == {200}
    assert given.workload.output_tokens_of(first) == 600
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
    given = from_document(
        {"extends": "qwen3-32b", "workload": {"cases": [], "prompts": MATH}},
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
    assert problems({"set": "work", "categories": ["cooking"]}) == [("workload.prompts.0.categories", "prompt-set")]
    hub = {"repo": "a/b", "revision": "main", "file": "x.jsonl"}
    assert problems(
        {"set": "work", "categories": ["cooking"], "hub": hub},
        {"set": "work", "categories": ["cooking"], "structured": ["math"], "hub": {**hub, "revision": "a" * 40}},
        {"set": f"own@{OWN}", "structured": ["a"]},
    ) == [
        ("workload.prompts.0.hub.revision", "schema"),
        ("workload.prompts.0.categories", "prompt-set"),
        ("workload.prompts.1.hub", "prompt-set"),
        ("workload.prompts.1.structured", "prompt-set"),
        ("workload.prompts.1.categories", "prompt-set"),
        ("workload.prompts.2.categories", "prompt-set"),
        ("workload.prompts.2.structured", "prompt-set"),
    ]


def test_the_prompt_that_does_not_fit_is_named() -> None:
    with pytest.raises(ExperimentError, match=r"long has at least 5600 tokens, with 600 for the answer 6200.*1024"):
        text = {"name": "long", "label": "long", "kind": "text", "text": "word " * 5600, "structured": False}
        experiment(cases=[text])
    # Three turns of at least 50 tokens together: 3 x 320 leave no room for them, 3 x 300 do.
    with pytest.raises(ExperimentError, match=r"chat/.* with 330 for each answer 10\d\d.*max_model_len is 1024"):
        experiment({"set": "work", "categories": ["chat"], "length": "short", "output_tokens": 330})
    assert experiment({"set": "work", "categories": ["chat"], "length": "short", "output_tokens": 300})
    with pytest.raises(ExperimentError, match="max_model_len"):
        experiment({"set": "work", "categories": ["summarization"]})
    assert experiment({"set": "work", "categories": ["summarization"], "per_category": 5})


@pytest.mark.parametrize(
    ("workload", "says"),
    [
        ({"load": "simultaneous"}, "is a conversation.*set workload.load to interleaved or sequential"),
        ({"endpoint": "completions", "thinking": None}, "has a system message.*set workload.endpoint to chat"),
    ],
)
def test_what_cannot_be_sent_so_is_refused(workload: dict[str, Any], says: str) -> None:
    overrides = {f"workload.{key}": value for key, value in workload.items()}
    with pytest.raises(ExperimentError, match=f"(?s){says}"):
        experiment({"set": "work", "categories": ["chat", "role-play"], "output_tokens": 200}, **overrides)


HUB = {"repo": "acme/tickets", "revision": "c0ffee" * 6 + "abcd", "file": "data/tickets.jsonl"}


def test_a_set_of_the_hub_is_named_by_commit_and_hash() -> None:
    given = experiment({"set": f"tickets@{OWN}", "categories": ["a", "b"], "hub": HUB}, cases=[])
    assert [(case.prompts.key, str(case.prompts.hub)) for case in given.workload.cases if case.prompts] == [
        (f"prompts/tickets@{OWN}.jsonl", "acme/tickets@c0ffeec0ffee:data/tickets.jsonl")
    ] * 2
    assert from_document(parse_yaml(to_yaml(given), origin="x")) == given


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("revision", "main"), ("revision", "c0ffee"), ("revision", "C0FFEE" * 6 + "ABCD"), ("revision", "a" * 41),
        ("repo", "https://huggingface.co/datasets/acme/tickets"), ("repo", "../acme"), ("repo", "a/b/c"), ("repo", ""),
        ("file", "/etc/passwd.json"), ("file", "../tickets.jsonl"), ("file", "data/../../tickets.jsonl"),
        ("file", "data\\tickets.jsonl"), ("file", "tickets.parquet"), ("file", "a.jsonl?token=1"),
        ("file", "a b.jsonl"), ("file", ""), ("gated", "perhaps"), ("branch", "main"),
    ],
)  # fmt: skip
def test_what_names_no_file_at_a_commit_is_refused(field: str, value: str) -> None:
    (told,) = refused({"set": f"tickets@{OWN}", "categories": ["a"], "hub": {**HUB, field: value}})
    assert (told.field, told.rule) == (f"workload.prompts.0.hub.{field}", "schema")
    if field == "revision":
        assert told.fix == "write the commit, 40 hexadecimal digits: a branch or a tag moves"


def test_a_set_of_the_hub_needs_its_hash_a_name_of_its_own_and_a_staging() -> None:
    assert problems({"set": "tickets", "categories": ["a"], "hub": HUB}) == [("workload.prompts.0.set", "prompt-set")]
    assert problems({"set": "work", "categories": ["math"], "hub": HUB}) == [("workload.prompts.0.hub", "prompt-set")]
    entry = {"set": f"tickets@{OWN}", "categories": ["a"], "hub": HUB}
    with pytest.raises(ExperimentError, match=r"(?s)nobody fetches a set from the hub.*specdecode prompts add FILE"):
        arms = [{"name": name, "label": name, "endpoint": f"http://{name}.svc"} for name in ("base", "sd")]
        arms[1]["compare_to"] = "base"
        load = {"cases": [], "prompts": [entry], "input_tokens": 8, "output_tokens": 8, "requests": 2}
        from_document({"name": "there", "title": "x", "target": {"id": "m"}, "variants": arms, "workload": load})


def test_a_set_that_does_not_ship_says_in_the_entry_which_categories_are_structured() -> None:
    own = {"set": f"tickets@{OWN}", "categories": ["json", "chat"]}
    cases = experiment({**own, "structured": ["json"]}, cases=()).workload.cases
    assert {case.name: case.structured for case in cases} == {"json": True, "chat": False}
    assert problems({**own, "structured": ["xml"]}) == [("workload.prompts.0.structured", "prompt-set")]
    assert problems({"set": "work", "structured": ["math"]}) == [("workload.prompts.0.structured", "prompt-set")]


def test_a_requests_length_is_that_of_the_prompts_that_are_sent() -> None:
    """The first ones. A later turn holds the turns and the answers before it."""
    case = next(case for case in load_preset("qwen3-32b").workload.cases if case.prompts)
    given = case.prompts
    rows = shipped(given.set).of(given.category, given.length)
    one, all_of_them = (mean_input_tokens(case.model_copy(update={"requests": n}), 8) for n in (1, None))
    assert one == about_tokens(rows[0].text) != all_of_them
    talk = given.model_copy(update={"category": "chat", "length": "all"})
    turns = shipped(given.set).of("chat")[0].turns
    two = mean_input_tokens(case.model_copy(update={"requests": 2, "prompts": talk}), 8)
    assert 2 * two == sum(map(about_tokens, (turns[0], *turns[:2]))) + 8
