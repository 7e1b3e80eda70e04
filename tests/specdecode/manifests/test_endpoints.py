"""The objects of a run on servers that already run: only clients, on an ordinary node, with the keys from Secrets."""

import itertools
import json
import re
import shlex

import pytest
from specdecode import names
from specdecode.experiment import BenchmarkSpec, from_document
from specdecode.manifests import all_objects
from specdecode.planning import needed_prefixes

from tests import kubernetes_schema
from tests.plans import plan_for

DOCUMENT = {
    "name": "chat",
    "title": "Two servers",
    "target": {"id": "Qwen/Qwen3-32B"},
    "variants": [
        {"name": "base", "label": "Base", "endpoint": "https://chat.example/$(id)", "api_key_secret": "endpoint-chat"},
        {
            "name": "sd-k7",
            "label": "SD",
            "compare_to": "base",
            "endpoint": "http://vllm.chat.svc:8000/v1",
            "served_model_name": "it's;the-other",
            "speculation": {"draft": {"id": "Qwen/Qwen3-1.7B"}, "num_speculative_tokens": 7},
        },
    ],
    "workload": {"cases": ["count"], "input_tokens": 64, "output_tokens": 128, "requests": 8, "concurrency": 3},
    "accuracy": True,
}


@pytest.fixture(scope="module")
def plan():
    return plan_for(from_document(DOCUMENT))


@pytest.fixture(scope="module")
def objects(plan, ctx):
    return [obj for obj in all_objects(plan, ctx) if obj["kind"] != "NetworkPolicy"]


def jobs(objects):
    found = {obj["metadata"]["labels"][names.COMPONENT_LABEL]: obj for obj in objects if obj["kind"] == "Job"}
    return {component: job["spec"]["template"]["spec"] for component, job in found.items()}


def test_the_plan_holds_no_node_and_makes_nothing(plan):
    assert needed_prefixes(plan.experiment, plan.engine) == []
    assert (plan.models, plan.artifacts, plan.node_hours.high, plan.cost.high) == ((), (), 0, 0)
    assert [step.name for step in plan.steps] == [
        "Plan", "AcquireCapacity", "Smoke", "Benchmark", "Accuracy", "StopArms", "ReleaseCapacity", "Report"
    ]  # fmt: skip
    assert [[arm.variant for arm in wave.arms] for wave in plan.waves] == [["base", "sd-k7"]]
    assert any(names.BENCHMARKABLE_LABEL in warning for warning in plan.warnings)
    assert not any("Qwen" in warning for warning in plan.warnings), "nobody stages the models: no revision to pin"


def test_rounds_reverse_the_order_of_the_arms():
    many = {**DOCUMENT, "workload": {**DOCUMENT["workload"], "rounds": 2}}
    waves = plan_for(from_document(many)).waves
    assert [[arm.variant for arm in wave.arms] for wave in waves] == [["base", "sd-k7"], ["sd-k7", "base"]]


def test_there_are_only_clients_and_they_need_no_accelerator(objects):
    kinds = [obj["kind"] for obj in objects]
    assert kinds == ["Secret", "Secret", "Secret", "ConfigMap", "Job", "ConfigMap", "Job", "Job"], "each Job's session"
    for obj in objects:
        kubernetes_schema.validate(obj)
    for spec in jobs(objects).values():
        assert spec["nodeSelector"] == {"karpenter.sh/nodepool": names.STAGING_NODEPOOL}
        assert [each["key"] for each in spec["tolerations"]] == [names.DYNAMIC_TAINT] and "resourceClaims" not in spec
        assert not any("persistentVolumeClaim" in volume for volume in spec["volumes"])


def test_keys_come_from_the_secrets_and_are_nowhere_else(objects):
    for component, spec in jobs(objects).items():
        (container,) = spec["containers"]
        secret = [item for item in container["env"] if "secretKeyRef" in item.get("valueFrom", {})]
        reference = {"name": "endpoint-chat", "key": "api-key"}
        assert secret == [{"name": "OPENAI_API_KEY_BASE", "valueFrom": {"secretKeyRef": reference}}], component


def test_clients_are_told_each_endpoint_as_it_is_written(objects):
    """A URL or a name with shell in it stays text."""
    for component, spec in jobs(objects).items():
        script = spec["containers"][0]["command"][2].replace("$$", "$")  # as the kubelet does
        command = shlex.split(script.rpartition("exec python3 -m ")[2])
        arms = [word for before, word in itertools.pairwise(command) if before == "--arm"]
        assert arms == ["base=https://chat.example/$(id)", "sd-k7=http://vllm.chat.svc:8000/v1"], component
        if component != "benchmark":
            assert command[command.index("--arm-model") + 1] == "sd-k7=it's;the-other"
        if component == "accuracy":
            assert command[command.index("--concurrency") + 1] == "3"


def test_the_benchmark_is_told_the_models_and_believes_consistent_counters(objects):
    longest, config = [obj for obj in objects if obj["kind"] == "ConfigMap"]
    assert json.loads(longest["data"]["prompt.json"])["room"] is None, "nobody knows the servers' window"
    spec = BenchmarkSpec.model_validate_json(config["data"]["spec.json"])
    assert (spec.model, [arm.model for arm in spec.arms]) == ("Qwen/Qwen3-32B", [None, "it's;the-other"])
    assert [arm.num_speculative_tokens for arm in spec.arms] == [None, 7]
    assert spec.trusted_counters and spec.tokenizer is None
    assert not re.search("endpoint-chat|api.key", json.dumps(config))
