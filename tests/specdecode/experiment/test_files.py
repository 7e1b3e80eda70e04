"""Documents: inheritance, overrides, names, and errors that say what to do."""

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from specdecode import assets
from specdecode.experiment import (
    ExperimentError,
    assets_dir,
    files,
    from_document,
    load,
    load_engine,
    load_file,
    load_preset,
    parse_overrides,
    preset_names,
    to_yaml,
)
from specdecode.experiment.expand import merge
from specdecode.experiment.schema import experiment_schema


def problems(document, **kwargs):
    with pytest.raises(ExperimentError) as caught:
        from_document(document, **kwargs)
    return {(p.field, p.rule): p for p in caught.value.problems}


@pytest.mark.parametrize("name", preset_names())
def test_written_out_and_read_back_it_is_equal(name, tmp_path):
    experiment = load_preset(name)
    path = tmp_path / "experiment.yaml"
    path.write_text(to_yaml(experiment))
    assert load_file(path) == experiment
    assert from_document(json.loads(experiment.model_dump_json())) == experiment


def test_schema_accepts_every_preset_as_it_is_written():
    schema = experiment_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for name in preset_names():
        document = yaml.safe_load((assets_dir() / "experiments" / f"{name}.yaml").read_text())
        assert list(validator.iter_errors(document)) == [], name
        assert not validator.is_valid({**document, "worklod": {}}), name


def test_overrides_reach_mappings_lists_by_name_and_by_number():
    k = "variants.sd.speculation.num_speculative_tokens=4"
    settings = ["workload.requests=20", k, "serving.env.VLLM_RPC_TIMEOUT='60'"]
    changed = load_preset("qwen3-32b", overrides=parse_overrides(settings))
    assert changed.workload.requests.max == 20
    assert changed.variant("sd").speculation.num_speculative_tokens == 4
    assert changed.serving.env == {"VLLM_RPC_TIMEOUT": "60"}


@pytest.mark.parametrize(
    ("given", "fix"),
    [
        ("workload.requests.precision=0.03", "--set 'workload.requests={max: 50, precision: 0.03}'"),
        ("workload.requests.max=20", "--set 'workload.requests={max: 20, precision: 0.03}'"),
        ("workload.requests.min=4", "--set 'workload.requests={max: 50, precision: 0.03, min: 4}'"),
        ("workload.output_tokens.most=4", "give a path that the document has"),
    ],
)
def test_a_key_of_what_is_one_value_is_told_how_the_whole_is_written(given, fix):
    with pytest.raises(ExperimentError) as refused:
        load_preset("rehearsal", overrides=parse_overrides([given]))
    (problem,) = refused.value.problems
    assert fix in problem.fix and "here stands " in problem.message
    if "precision" in fix:
        written = problem.fix.split("'")[1]
        assert load_preset("rehearsal", overrides=parse_overrides([written])).workload.requests.precision == 0.03


def test_override_reaches_into_cases_and_swept_variants_once_they_are_written_out():
    assert load_preset("qwen3-32b", overrides={"workload.cases.0": "meaning-of-life", "workload.cases.9": "count"})
    case = load_preset("qwen3-32b", overrides={"workload.cases.letter-a.structured": False}).workload.cases[2]
    assert (case.name, case.structured) == ("letter-a", False)
    tuning = "qwen3-32b-tuning"
    changed = load_preset(tuning, overrides={"variants.sd-qwen3-0.6b-k5.speculation.num_speculative_tokens": 4})
    assert changed.variant("sd-qwen3-0.6b-k5").speculation.num_speculative_tokens == 4
    assert len(load_preset(tuning, overrides={"variants.1.sweep.num_speculative_tokens": [5, 7]}).variants) == 5


@pytest.mark.parametrize("place", ["target", "variants.sd.speculation.draft"])
def test_another_model_inherits_neither_revision_nor_size(place):
    with pytest.raises(ExperimentError) as refused:
        load_preset("qwen3-32b", overrides={f"{place}.id": "mine/other"})
    (problem,) = refused.value.problems
    assert problem.field == f"{place}.size_gib"
    assert "a model with another id inherits neither size nor revision" in problem.fix
    given = {f"{place}.revision": "v1", f"{place}.size_gib": 9.0, f"{place}.id": "mine/other"}
    found = load_preset("qwen3-32b", overrides=given)
    model = found.target if place == "target" else found.variant("sd").speculation.draft
    assert (model.id, model.revision, model.size_gib) == ("mine/other", "v1", 9.0)


def test_a_document_that_names_another_model_inherits_neither():
    other = {"extends": "qwen3-32b", "target": {"id": "mine/other"}}
    with pytest.raises(ExperimentError, match=r"target\.size_gib"):
        from_document(other)
    found = from_document({**other, "target": {"id": "mine/other", "size_gib": 61.0}})
    assert found.target.revision == "main"
    assert (load_preset("qwen3-32b").target.family, found.target.family) == ("qwen3", None), "it may be any model"
    assert from_document({"extends": "qwen3-32b", "target": {"id": "Qwen/Qwen3-32B"}}) == load_preset("qwen3-32b")


def test_override_of_nothing_is_refused_with_what_there_is():
    found = problems({"extends": "qwen3-32b"}, overrides={"variants.spec.label": "X", "name.x": 1})
    assert "there are base, sd" in found["variants.spec.label", "override"].message
    assert ("name.x", "override") in found
    # As Python gets it from a terminal that is not UTF-8.
    with pytest.raises(ExperimentError) as refused:
        load_preset("rehearsal", overrides=parse_overrides(["name.\udcff.=1"]))
    assert "which has no `\\udcff`" in str(refused.value)
    str(refused.value).encode()


def test_extends_merges_mappings_and_replaces_lists():
    own = {"extends": "qwen3-32b", "name": "mine", "workload": {"cases": ["letter-a"], "requests": 3}}
    changed = from_document(own)
    assert (changed.name, changed.workload.requests.max, changed.workload.concurrency) == ("mine", 3, (4,))
    assert [case.name for case in changed.workload.cases] == ["letter-a"]


@pytest.mark.parametrize("parent", ["qwen-32b", 7, ["qwen3-32b"]])
def test_extends_of_nothing(parent):
    with pytest.raises(ExperimentError):
        from_document({"extends": parent})


def test_a_preset_that_extends_itself_is_told_so(tmp_path, monkeypatch):
    root = tmp_path / "assets"
    (root / "experiments").mkdir(parents=True)
    (root / "experiments" / "a.yaml").write_text("extends: b")
    (root / "experiments" / "b.yaml").write_text("extends: a")
    for module in (assets, files):
        monkeypatch.setattr(module, "assets_dir", lambda: root)
    with pytest.raises(ExperimentError, match="circle"):
        load_preset("a")


def test_unknown_names_are_errors_with_a_suggestion():
    found = problems({"extends": "qwen3-32b", "workload": {"request": 3}, "servng": {}})
    assert "did you mean 'requests'?" in found["workload.request", "schema"].message
    assert "did you mean 'serving'?" in found["servng", "schema"].message
    for text, call in (
        ("did you mean 'qwen3-32b'?", lambda: load_preset("qwen3-32")),
        ("did you mean '0.9.1-sdk2.26.1'?", lambda: load_engine("0.9.1-sdk2.26")),
        ("did you mean 'rehearsal'?", lambda: load("rehersal")),
    ):
        with pytest.raises(ExperimentError) as caught:
            call()
        assert text in str(caught.value)
    case = problems({"extends": "qwen3-32b", "workload": {"cases": ["letter-b"]}})
    assert "letter-a" in case["workload.cases.0", "case-known"].fix


def test_every_problem_is_reported_at_once_and_by_name():
    found = problems(
        {"extends": "qwen3-32b", "workload": {"requests": 0, "temperature": "hot"}},
        overrides={"variants.sd.speculation.num_speculative_tokens": 99},
    )
    assert set(found) == {
        ("workload.requests", "schema"),
        ("workload.temperature", "schema"),
        ("variants.sd.speculation.num_speculative_tokens", "schema"),
    }
    document = {"extends": "qwen3-32b", "workload": {"requests": -3, "cases": ["nope", "letter-a"]}, "speculation": 3}
    assert set(problems(document)) == {
        ("speculation", "schema"), ("workload.cases.0", "case-known"), ("workload.requests", "schema"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: [1, 2", "not valid YAML"), ("a: 1\na: 2", "given twice (line 2"), ("a: &x 1\nb: *x", "aliases"),
        ("1: 2", "not text"), ("a: !!python/object/apply:os.system ['true']", "not valid YAML"),
        ("a: !!binary aGVsbG8=", "that JSON cannot"), ("? [a, b]\n: c", "not valid YAML"),
        ("a: \x00", "not valid YAML"), ("--- a\n--- b", "another document"), ("[" * 40 + "]" * 40, "nested"),
        ("[" * 3000 + "]" * 3000, "nested"), ("a: " + "x" * 300_000, "larger than 256 KiB"),
        ("- just\n- a list", "mapping of keys"), ("", "mapping of keys"),
    ],
    ids=range(14),
)  # fmt: skip
def test_what_is_not_a_plain_document_is_refused_in_one_line(text, says, tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text(text)
    with pytest.raises(ExperimentError) as caught:
        load_file(path)
    (problem,) = caught.value.problems
    assert says in problem.message
    assert "\n" not in problem.message


def test_unreadable_files(tmp_path):
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    for path, says in (
        (tmp_path / "none.yaml", "no such file"),
        (tmp_path / "binary.yaml", "not UTF-8"),
        (tmp_path, "a folder, not a file"),
    ):
        with pytest.raises(ExperimentError, match=says):
            load_file(path)


def test_yaml_1_1_surprises_stay_text():
    value = load_preset("qwen3-32b", overrides={"title": "no", "description": "2026-01-01"})
    assert value.title == "no"
    assert parse_overrides(["a=no", "b=2026-01-01", "c=true", "d=1.5", "e=null"]) == {
        "a": "no", "b": "2026-01-01", "c": True, "d": 1.5, "e": None,
    }  # fmt: skip
    for path, value in (("workload.requests", "8"), ("workload.requests", True), ("accuracy", "yes"), ("name", 5)):
        with pytest.raises(ExperimentError):
            load_preset("qwen3-32b", overrides={path: value})


@pytest.mark.parametrize("setting", ["workload.requests", "=3", ".=3"])
def test_malformed_settings(setting):
    with pytest.raises(ExperimentError, match="path=value"):
        parse_overrides([setting])


def test_sweeps_and_variants_that_extend():
    def variants(*items):
        return from_document({"extends": "qwen3-32b", "variants": [{"name": "base", "label": "Base"}, *items]}).variants

    draft = {"id": "Qwen/Qwen3-0.6B", "family": "qwen3", "size_gib": 1.4}
    one = {"name": "a-k{k}", "label": "A{k}", "compare_to": "base", "speculation": {"draft": draft}}
    swept = variants({**one, "sweep": {"num_speculative_tokens": [3, 5]}})
    assert [(v.name, v.label, v.speculation.num_speculative_tokens) for v in swept[1:]] == [
        ("a-k3", "A3", 3),
        ("a-k5", "A5", 5),
    ]
    first = {**one, "name": "a", "speculation": {"draft": draft, "num_speculative_tokens": 3}}
    second = {"name": "b", "label": "B", "extends": "a", "speculation": {"num_speculative_tokens": 9}}
    _, a, b = variants(first, second)
    assert b.speculation.draft == a.speculation.draft and b.speculation.num_speculative_tokens == 9
    for wrong in ({"name": "b", "extends": "z"}, {"name": "b", "sweep": {}}, {"name": "b", "sweep": {"k": 3}},
                  {"name": "b", "sweep": {"num_speculative_tokens": list(range(1000))}}):  # fmt: skip
        with pytest.raises(ExperimentError):
            variants(wrong)


@pytest.mark.parametrize(
    "also",
    [
        {"workload": {"cases": ["nonsense"]}}, {"workload": {"concurrency": "x", "requests": -1}}, {"workload": 3},
        {"name": "Bad Name", "nope": 1, "target": None}, {"variants": [{"name": "base", "label": 1}]},
    ],
)  # fmt: skip
def test_a_problem_of_one_kind_hides_none_of_another(also: dict[str, Any]) -> None:
    """What is left when the first kind is mended was told before."""
    wrong = {"extends": "qwen3-32b", "serving": {"tensor_parallel_size": 7, "max_num_seqs": 4}}
    with pytest.raises(ExperimentError) as alone:
        from_document(wrong)
    with pytest.raises(ExperimentError) as together:
        from_document({**wrong, **also})
    told = {problem.rule: problem.message for problem in together.value.problems}
    assert told["tensor-parallel"] == alone.value.problems[0].message
    assert len(told) > 1 and not any("Value error" in text or "pattern" in text for text in told.values())


MISTAKES: dict[str, Any] = {
    "extends": {"extends": "nosuch"}, "engine": {"engine": "nosuch"}, "key": {"nme": "x"},
    "shape": {"serving": {"max_num_seqs": "many"}},
    "token": {"serving": {"env": {"A": "hf_abcdefghijklmnopqrstuvwxyz"}}},
    "case": {"workload": {"cases": ["nonsense"]}}, "load": {"workload": {"requests": 0}},
    "parallel": {"serving": {"tensor_parallel_size": 7}}, "node": {"node": "nosuch"}, "setting": ["x"],
    "path": ["title.sub=1"],
}  # fmt: skip
"""One of each kind, at several levels: a part of the document, or settings of the command line."""


def refusals(tmp_path: Path, *names: str) -> set[tuple[str, str]]:
    document: Any = {"extends": "qwen3-32b"}
    for name in names:
        document = merge(document, MISTAKES[name]) if isinstance(MISTAKES[name], dict) else document
    (tmp_path / "x.yaml").write_text(json.dumps(document))
    settings = [each for name in names if isinstance(MISTAKES[name], list) for each in MISTAKES[name]]
    with pytest.raises(ExperimentError) as refused:
        load(str(tmp_path / "x.yaml"), settings=settings)
    assert not any("hf_abc" in str(problem) for problem in refused.value.problems)
    return {(problem.field, problem.rule) for problem in refused.value.problems}


@pytest.mark.parametrize(("one", "other"), combinations(MISTAKES, 2))
def test_no_mistake_hides_another(one: str, other: str, tmp_path: Path) -> None:
    """Only what a preset that is not known would have had beside it cannot be told."""
    expected = refusals(tmp_path, one) | refusals(tmp_path, other)
    if "extends" in (one, other) or {one, other} == {"node", "parallel"}:  # how many cores a device has is the node's
        expected = {(field, rule) for field, rule in expected if rule != "tensor-parallel"}
    assert expected <= refusals(tmp_path, one, other)
