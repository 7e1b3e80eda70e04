"""`specdecode manifests --complete`: whole, accepted by a bare cluster, no credentials, nothing runs by itself."""

import json
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import yaml
from specdecode import names
from specdecode.cli.standalone_view import COMMAND
from specdecode.experiment import load_preset, preset_names

from tests.network import reaches
from tests.pods import containers
from tests.rehearsal.kubernetes.conftest import double, kubectl, kubectl_binary, shared_double  # noqa: F401 (fixtures)
from tests.specdecode.cli.calling import call

Json = dict[str, Any]


@cache
def printed(preset: str, *options: str) -> str:
    return call("manifests", preset, "--complete", *options).output


def test_compiling_on_cpu_nodes_is_refused_where_nobody_compiles_again_what_does_not_load() -> None:
    cpu = ["manifests", "qwen3-32b", "--set", "compile.on=cpu"]
    refused = call(*cpu, "--complete", code=2)
    assert "kind:" not in refused.stdout
    assert "compile.on: --complete compiles on the node that serves" in refused.output
    assert "fix: --set compile.on=accelerator" in refused.output
    call(*cpu)  # the pipeline compiles again


def parsed(text: str) -> list[Json]:
    return list(yaml.load_all(text, Loader=yaml.CSafeLoader))


@cache
def objects(preset: str, *options: str) -> list[Json]:
    return parsed(printed(preset, *options))


def commands(text: str) -> list[str]:
    return [line.removeprefix(COMMAND) for line in text.splitlines() if line.startswith(COMMAND)]


def templates(found: list[Json]) -> Iterator[tuple[Json, Json]]:
    """Jobs and Deployments with their pods' templates."""
    return ((obj, obj["spec"]["template"]) for obj in found if obj["kind"] in ("Job", "Deployment"))


OF_EACH_ENGINE = {load_preset(name).engine: name for name in preset_names()}.values()


@pytest.mark.parametrize("preset", OF_EACH_ENGINE)
def test_a_bare_cluster_takes_it_as_it_is(double, kubectl, preset):  # noqa: F811
    """The namespace first, really; then the rest by the server's dry run, for which it must be there."""
    text = printed(preset, "--set", "accuracy=true")
    first, *others = parsed(text)
    assert first["kind"] == "Namespace"
    kubectl("apply", "-f", "-", stdin=yaml.safe_dump(first))
    said = kubectl("apply", "--dry-run=server", "-f", "-", stdin=text).stdout.splitlines()
    assert len(said) == 1 + len(others)
    assert all(line.endswith("(server dry run)") for line in said)


@pytest.mark.parametrize("preset", preset_names())
def test_it_refers_to_nothing_that_is_not_in_it_but_the_secrets_that_its_comments_name(preset):
    text, found = printed(preset), objects(preset)
    there = {(obj["kind"], obj["metadata"]["name"]) for obj in found}
    wanted = set()
    for _, template in templates(found):
        spec = template["spec"]
        wanted.add(("ServiceAccount", spec["serviceAccountName"]))
        wanted |= {("ResourceClaimTemplate", c["resourceClaimTemplateName"]) for c in spec.get("resourceClaims", ())}
        for volume in spec["volumes"]:
            assert set(volume) - {"name"} <= {"emptyDir", "configMap", "secret"}
            wanted |= {("ConfigMap", volume[kind]["name"]) for kind in ("configMap",) if kind in volume}
            wanted |= {("Secret", volume[kind]["secretName"]) for kind in ("secret",) if kind in volume}
        for container in containers(template).values():
            keys = [each["valueFrom"]["secretKeyRef"] for each in container["env"] if "secretKeyRef" in str(each)]
            wanted |= {("Secret", key["name"]) for key in keys}
    missing = wanted - there
    assert {kind for kind, _ in missing} <= {"Secret"}
    assert all(f"create secret generic {name} " in text for _, name in missing)


@pytest.mark.parametrize("preset", preset_names())
def test_nothing_runs_by_itself_and_each_thing_is_started_once_and_in_order(preset):
    text, found = printed(preset), objects(preset)
    done = "\n".join(commands(text))
    started = re.findall(r"^step (?!\()(.+)$|^kubectl -n specdecode scale deployment (\S+) --replicas=1$", done, re.M)
    names_started = [name for jobs, server in started for name in (jobs or server).split()]
    assert names_started == [obj["metadata"]["name"] for obj, _ in templates(found)]
    for obj, _ in templates(found):
        assert obj["spec"].get("suspend") is True or obj["spec"].get("replicas") == 0
    assert subprocess.run(["bash", "-n"], input=done, text=True, check=False).returncode == 0


@pytest.mark.parametrize("preset", preset_names())
def test_it_holds_no_credentials(preset):
    found = objects(preset)
    assert not [obj for obj in found if obj["kind"] == "Secret"]
    assert "secretsmanager" not in json.dumps(found) and "HF_TOKEN_SECRET" not in json.dumps(found)


def test_a_gated_models_token_comes_from_the_users_secret():
    text = printed("llama-3.1-8b-eagle3")
    assert load_preset("llama-3.1-8b-eagle3").target.gated
    (job, *_) = [obj for obj, _ in templates(objects("llama-3.1-8b-eagle3")) if "stage" in obj["metadata"]["name"]]
    (main,) = job["spec"]["template"]["spec"]["containers"]
    (token,) = [each for each in main["env"] if each["name"] == "HF_TOKEN"]
    assert token["valueFrom"] == {"secretKeyRef": {"name": "specdecode-huggingface", "key": "token"}}
    assert "create secret generic specdecode-huggingface --from-literal=token=TOKEN" in text


def test_a_server_loads_from_the_nodes_disk_what_a_container_without_the_engine_has_fetched():
    found = objects("qwen3-32b")
    servers = [template for obj, template in templates(found) if obj["kind"] == "Deployment"]
    assert len(servers) == 4
    for template in servers:
        (fetch,) = template["spec"]["initContainers"]
        main = containers(template)["main"]
        assert "specdecode.pod.fetch" in fetch["command"][2] and fetch["image"] != main["image"]
        read = {mount["name"]: mount.get("readOnly") for mount in main["volumeMounts"]}
        assert read["models"] is True and read["compiled"] is True and "aws" not in read
        assert template["metadata"]["annotations"]["eks.amazonaws.com/skip-containers"] == "main"
        needed = [int(c["resources"]["requests"]["ephemeral-storage"][:-2]) for c in (fetch, main)]
        assert needed[0] > needed[1] + 2 * 65


@pytest.mark.parametrize("preset", preset_names())
def test_what_the_servers_of_a_wave_fetch_has_room_on_the_node(preset):
    found, shape = objects(preset), load_preset(preset).shape
    servers = [template for obj, template in templates(found) if obj["kind"] == "Deployment"]
    waves: dict[str, int] = {}
    for template in servers:
        (fetch,) = template["spec"]["initContainers"]
        wave = template["metadata"]["labels"][names.WAVE_LABEL]
        waves[wave] = waves.get(wave, 0) + int(fetch["resources"]["requests"]["ephemeral-storage"][:-2])
    assert all(gib < shape.disk_gib for gib in waves.values()), waves


def test_no_engine_has_the_accounts_role():
    for obj, template in templates(objects("qwen3-32b", "--set", "accuracy=true")):
        skipped = template["metadata"]["annotations"].get("eks.amazonaws.com/skip-containers", "")
        names_of = containers(template)
        if obj["kind"] == "Deployment":
            assert skipped == "main"
        elif "compile" in names_of:
            assert skipped == "compile"
        else:
            assert skipped == ""


def test_each_pod_reaches_the_bucket_through_the_policies_that_come_with_it():
    found = objects("qwen3-32b")
    policies = [obj for obj in found if obj["kind"] == "NetworkPolicy"]
    for _, template in templates(found):
        assert reaches(policies, template["metadata"]["labels"], "3.5.128.1", 443)


def test_an_adaptive_sweep_has_all_its_arms():
    arms = {variant.name for variant in load_preset("qwen3-32b-tuning").variants}
    servers = [obj for obj, _ in templates(objects("qwen3-32b-tuning")) if obj["kind"] == "Deployment"]
    assert {obj["metadata"]["labels"][names.VARIANT_LABEL] for obj in servers} == arms


def test_a_set_of_the_hub_is_copied_to_where_the_benchmark_looks():
    hub = {"repo": "org/sets", "revision": "b" * 40, "file": "x.jsonl"}
    given = [{"set": f"mt@{'a' * 64}", "categories": ["chat"], "hub": hub}]
    options = ("--set", f"workload.prompts={json.dumps(given)}", "--run-id", "mine", "--bucket", "b")
    text = printed("rehearsal", *options)
    key = f"prompts/mt@{'a' * 64}.jsonl"
    assert f"aws s3 cp s3://b/{key} s3://b/runs/mine/{key}" in commands(text)


def test_a_wave_is_gone_before_the_next_begins():
    told = commands(printed("qwen3-32b"))
    gone = [at for at, each in enumerate(told) if "--for=delete" in each]
    starts = [at for at, each in enumerate(told) if each.endswith("--replicas=1")]
    assert len(gone) == 2 and max(starts[:2]) < gone[0] < min(starts[2:])
