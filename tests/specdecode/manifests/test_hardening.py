"""Every container of every pod that a run can make, the monitor beside a server included; and the exceptions that
docs/security.md states.
"""

import re
from pathlib import Path

import pytest
from specdecode.experiment import load_preset, preset_names
from specdecode.manifests import all_objects
from specdecode.names import COMPONENT_LABEL, PLAIN_ACCOUNT

from tests.plans import PRICED, plan_for
from tests.pods import containers as containers_of

PAGE = Path(__file__).resolve().parents[3] / "docs" / "security.md"
HOST = ("hostNetwork", "hostPID", "hostIPC", "hostUsers")


@pytest.fixture(scope="module")
def objects(ctx):
    found = []
    for preset in preset_names():
        for monitored in (False, True):
            overrides = {"accuracy": True} | ({"serving.neuron_metrics": True} if monitored else {})
            try:
                plan = plan_for(load_preset(preset, overrides=overrides), capacity=PRICED)
            except ValueError:  # the embedded engine has no NeuronCores to look at
                continue
            found += all_objects(plan, ctx)
    return found


def templates(objects):
    return [obj["spec"]["template"] for obj in objects if obj["kind"] in ("Job", "Deployment")]


def containers(objects):
    for template in templates(objects):
        spec = template["spec"]
        for container in [*spec.get("initContainers", ()), *spec["containers"]]:
            yield template["metadata"]["labels"][COMPONENT_LABEL], container


def test_the_monitor_is_among_them(objects):
    assert {container["name"] for _, container in containers(objects)} == {
        *("main", "neuron-monitor", "fetch", "tiny-model", "compile", "store")
    }


def test_no_container_can_gain_rights(objects):
    for component, container in containers(objects):
        security = container["securityContext"]
        assert security["allowPrivilegeEscalation"] is False, component
        assert security["capabilities"] == {"drop": ["ALL"]}, component
        assert set(security) == {"allowPrivilegeEscalation", "capabilities", "readOnlyRootFilesystem"}, component
    for template in templates(objects):
        spec = template["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert spec["automountServiceAccountToken"] is False
        assert not [field for field in HOST if field in spec]
        assert not [volume for volume in spec["volumes"] if "hostPath" in volume]


def test_the_containers_with_a_writable_root_are_those_that_the_page_excuses(objects):
    section = PAGE.read_text().split("| container | why its root is writable |")[1].split("\n\n")[0]
    excused = {tuple(cell.split(" of ")) for cell in re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)}
    writable = {
        (container["name"], component)
        for component, container in containers(objects)
        if container["securityContext"]["readOnlyRootFilesystem"] is not True
    }
    engines = {("compile", "compile"), ("main", "start-check"), ("main", "serving")}
    assert writable == excused == engines | {("neuron-monitor", "serving")}


def test_no_engine_has_the_credentials_of_its_pods_role(objects):
    """What it runs may be anybody's: no token is mounted for it, and it writes nothing that one with a token runs."""
    kinds, watched = set(), set()
    for template in templates(objects):
        found, component = containers_of(template), template["metadata"]["labels"][COMPONENT_LABEL]
        skipped = template["metadata"]["annotations"].get("eks.amazonaws.com/skip-containers", "").split(",")
        has_role = template["spec"]["serviceAccountName"] != PLAIN_ACCOUNT
        given = {name for name, one in found.items() if "aws" in {mount["name"] for mount in one["volumeMounts"]}}
        engines = {name for name, one in found.items() if "vllm serve" in one["command"][2] and name != "store"}
        assert not engines & given and (engines <= set(skipped) or not has_role), component
        takes_token = set(found) - set(skipped) if has_role else set()
        assert takes_token <= {"neuron-monitor"}, "a token gives the whole role: a session is for one step of one run"
        kinds |= {(component, *engines)} if engines else set()
        assert not (engines and template["spec"].get("shareProcessNamespace")), f"{component}: /proc shows tokens"
        for name in set(found) - engines:
            written = {m["name"] for e in engines for m in found[e]["volumeMounts"] if not m.get("readOnly")}
            watched |= {name} if engines else set()
            mounted = {m["mountPath"]: m for m in found[name]["volumeMounts"]}
            runs_from = {
                mounted[path]["name"] for path in ("/specdecode", "/tmp", "/specdecode/bundle") if path in mounted
            }
            assert not written & runs_from, f"{name} of {component} runs from what the engine writes"
    assert kinds == {("compile", "compile"), ("start-check", "main"), ("serving", "main")}
    assert watched == {"fetch", "tiny-model", "store", "neuron-monitor"}


def test_variables_of_ours_come_last_and_take_the_place_of_others(ctx):
    """Whatever an experiment would set, rules or not: what decides what is run and where it talks to is ours."""
    ours = {"POD_IP": "6.6.6.6", "HF_HUB_OFFLINE": "0", "TRANSFORMERS_OFFLINE": "0"}
    taken = {
        **ours,
        "BUNDLE_URI": "s3://evil/b.zip",
        "AWS_ENDPOINT_URL": "http://6.6.6.6",
        "BUCKET": "evil",
        "PATH": "/e",
    }
    plan = plan_for(load_preset("qwen3-32b"))
    served = plan.experiment.serving.model_copy(update={"env": taken})
    plan = plan_for(plan.experiment.model_copy(update={"serving": served}))
    for template in templates(all_objects(plan, ctx)):
        for name, container in containers_of(template).items():
            names = [variable["name"] for variable in container["env"]]
            assert len(names) == len(set(names)), "the API server takes the last of two, server-side apply neither"
            engine = "vllm serve" in container["command"][2] and name != "store"
            values = {variable["name"]: variable.get("value") for variable in container["env"]}
            assert not {key for key in ours if values.get(key) == ours[key]}
            if not engine:
                assert not {key for key in taken if values.get(key) == taken[key]}, "only the engine sees them"
            elif "POD_IP" in names:
                assert names.index("POD_IP") > names.index("PATH")


def test_services_are_of_the_cluster_alone(objects):
    services = [obj["spec"] for obj in objects if obj["kind"] == "Service"]
    assert services and all(service["type"] == "ClusterIP" for service in services)
    assert not [service for service in services if "externalIPs" in service or "nodePort" in str(service)]
