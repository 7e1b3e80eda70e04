"""Experiments on servers that already run: what they need not say, and which addresses a pod may be sent to."""

import json
from typing import Any

import pytest
import yaml
from pydantic import TypeAdapter
from specdecode.experiment import Capacity, ExperimentError, from_document, load_preset, to_yaml
from specdecode.experiment.model import AnyExperiment, EndpointExperiment, Experiment
from specdecode.experiment.schema import experiment_schema

SMALLEST = """
name: chat
title: Does speculation pay on the team's servers?
target: {id: Qwen/Qwen3-32B}
variants:
  - {name: base, label: Base, endpoint: "https://chat.example"}
  - {name: sd, label: SD, compare_to: base, endpoint: "https://chat-sd.example/v1"}
workload: {cases: [count], input_tokens: 64, output_tokens: 128, requests: 8}
"""


def document(**changes):
    return {**yaml.safe_load(SMALLEST), **changes}


def with_endpoint(url, **more):
    base, sd = document()["variants"]
    return document(variants=[base, {**sd, "endpoint": url, **more}])


def problems(plain):
    with pytest.raises(ExperimentError) as caught:
        from_document(plain)
    return caught.value.problems


def test_the_smallest_document_says_where_and_with_what_load():
    experiment = from_document(document())
    assert isinstance(experiment, EndpointExperiment)
    assert [variant.endpoint for variant in experiment.variants] == [
        "https://chat.example",
        "https://chat-sd.example/v1",
    ]
    assert from_document(with_endpoint("https://chat.example", served_model_name="chat-sd"))
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.Draft202012Validator(experiment_schema()).validate(document())


def test_what_a_person_reads_again_has_nothing_that_was_filled_in():
    draft = {"draft": {"id": "Qwen/Qwen3-1.7B"}, "num_speculative_tokens": 7}
    experiment = from_document(
        with_endpoint("https://chat-sd.example", speculation=draft, served_model_name="/models/chat:v2")
    )
    text = to_yaml(experiment)
    assert not {"engine", "serving", "size_gib"} & set(text.replace(":", " ").split())
    assert from_document(yaml.safe_load(text)) == experiment


def test_nothing_of_the_node_is_held_against_it():
    """An AMI that suits no engine, a shape that no node has: neither is used."""
    extended = document(extends="qwen3-32b", serving={"devices": 3, "tensor_parallel_size": 7})
    assert isinstance(from_document(extended, capacity=Capacity(ami="v20200101")), EndpointExperiment)


@pytest.mark.parametrize(
    "url",
    [
        "https://chat.example:8443/team/v1", "http://vllm.chat.svc:8000", "http://vllm.chat.svc.cluster.local",
        "http://10.0.3.4:8000", "http://100.64.7.1:8000", "http://[fd12::1]:8000",
    ],
)  # fmt: skip
def test_addresses_that_a_pod_can_reach_are_taken(url):
    assert from_document(with_endpoint(url)).variant("sd").endpoint == url


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("ftp://chat.example", "no http:// or https:// URL"), ("https://", "no http:// or https:// URL"),
        ("https://chat.example/a b", "no http:// or https:// URL"), ("https://chat.example:99999", "no URL"),
        ("https://[::1", "no URL"), ("https://me@chat.example", "stored with the run"),
        ("https://chat.example?model=chat", "query or fragment"), ("http://chat.example", "clear text"),
        ("http://8.8.8.8", "clear text"), ("http://169.254.169.254/latest", "machine's own services"),
        ("https://169.254.170.23", "machine's own services"), ("http://[fd00:ec2::254]", "machine's own services"),
        ("http://[::ffff:169.254.169.254]", "machine's own services"), ("http://[fe80::1]", "machine's own services"),
        ("https://0.0.0.0", "machine's own services"), ("https://metadata.google.internal", "machine's own services"),
        ("https://instance-data.ec2.internal.", "machine's own services"), ("http://2852039166", "unusual form"),
        ("https://0xa9fea9fe", "unusual form"), ("http://0251.0376.0251.0376", "unusual form"),
        ("https://169.254.43518", "unusual form"),
    ],
)  # fmt: skip
def test_other_addresses_are_refused_with_the_reason(url, says):
    (problem,) = problems(with_endpoint(url))
    assert (problem.field, problem.rule) == ("variants.sd.endpoint", "endpoint-url")
    assert says in problem.message and problem.fix


def test_a_password_in_an_address_is_refused_and_not_repeated():
    found = problems(with_endpoint("https://me:hunter22@chat.example"))
    assert found and "hunter22" not in str(found)


def test_only_secrets_that_are_meant_to_be_sent_can_be_named():
    """A document must not be able to send another Secret of the namespace to a server of its author's."""
    (problem,) = problems(with_endpoint("https://chat-sd.example", api_key_secret="run-1234-api-keys"))
    assert problem.field == "variants.sd.api_key_secret"
    assert from_document(with_endpoint("https://chat-sd.example", api_key_secret="endpoint-chat"))
    found = problems({"extends": "rehearsal", "variants": [{"name": "base", "label": "Base", "price_per_hour": 3}]})
    assert [problem.rule for problem in found] == ["endpoint-all-or-none"]


def older(plain, **added):
    """A document as versions before the two kinds wrote it: every arm with the fields of both."""
    both = {"neuron_config": {}, "extra_args": [], "env": {}, "endpoint": None, "served_model_name": None, **added}
    return {**plain, "variants": [{**both, **variant} for variant in plain["variants"]]}


def test_plans_and_reports_of_older_versions_are_read():
    held = TypeAdapter(AnyExperiment)
    served = load_preset("qwen3-32b")
    before = older(served.model_dump(mode="json"), price_per_hour=None)
    assert held.validate_json(json.dumps(before)) == served
    elsewhere = from_document(document())
    serving = {"tensor_parallel_size": 1, "devices": 0, "max_num_seqs": 1, "max_model_len": 1048576}
    before = older({**elsewhere.model_dump(mode="json"), "engine": "0.9.1-sdk2.26.1", "serving": serving})
    assert held.validate_json(json.dumps(before)) == elsewhere


def test_what_is_said_of_the_other_kind_and_every_other_problem_are_told_at_once():
    found = problems(with_endpoint("ftp://chat.example", env={"A": "b"}, extra_args=["--x"]))
    assert {(problem.field, problem.rule) for problem in found} == {
        ("variants.sd", "endpoint-settings"),
        ("variants.sd.endpoint", "endpoint-url"),
    }
    assert "extra_args and env cannot be set" in found[0].message
    assert {problem.rule for problem in problems(document(sweep="adaptive"))} == {"endpoint-settings"}


K5 = {"draft": {"id": "a/draft"}, "num_speculative_tokens": 5}
BY_LOAD = {**K5, "num_speculative_tokens_per_batch_size": [[1, 4, 5], [5, 8, 0]]}


def elsewhere(speculation: dict[str, Any] | None = None) -> Experiment:
    arm: dict[str, Any] = {"name": "b", "label": "B", "compare_to": "a", "endpoint": "https://b.example"}
    arm |= {"speculation": speculation} if speculation else {"price_per_hour": 7}
    variants = [{"name": "a", "label": "A", "endpoint": "https://a.example"}, arm]
    return from_document({"extends": "rehearsal", "name": "elsewhere", "title": "t", "variants": variants})


def test_k_and_cost_of_an_arm_that_the_run_serves_and_of_a_server_that_already_runs() -> None:
    assert load_preset("rehearsal").variant("base").k == 0
    assert elsewhere().variant("b").k is None
    assert load_preset("rehearsal").variant("base").dollars_per_hour(9.0) == 9.0
    assert elsewhere().variant("b").dollars_per_hour(9.0) == 7
    assert elsewhere().variant("a").dollars_per_hour(9.0) is None, "no price is given"


@pytest.mark.parametrize(("speculation", "k"), [(K5, 5), (BY_LOAD, None)])
def test_k_is_not_one_number_if_it_depends_on_the_load(speculation: dict[str, Any], k: int | None) -> None:
    assert elsewhere(speculation).variant("b").k == k


def test_a_run_holds_a_node_and_stages_weights_only_for_arms_that_it_serves() -> None:
    here, there = load_preset("rehearsal"), elsewhere(K5)
    assert (here.holds_node, there.holds_node) == (True, False)
    assert here.staged and there.staged == ()
    assert (here.served_by, there.served_by, there.batch) == ("rehearsal-cpu", None, None)
    assert (here.variant("base").address, there.variant("b").address) == (None, "https://b.example")
