"""Every container of every pod that a run can make, the monitor beside a server included; and the exceptions that
docs/security.md states.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from specdecode.experiment import load_preset, preset_names
from specdecode.manifests import all_objects
from specdecode.names import COMPONENT_LABEL
from specdecode.planning import Inventory, make_plan

PAGE = Path(__file__).resolve().parents[3] / "docs" / "security.md"
HOST = ("hostNetwork", "hostPID", "hostIPC", "hostUsers")


@pytest.fixture(scope="module")
def objects(ctx):
    found = []
    for preset in preset_names():
        for monitored in (False, True):
            overrides = {"accuracy": True} | ({"serving.neuron_metrics": True} if monitored else {})
            try:
                plan = make_plan(load_preset(preset, overrides=overrides), inventory=Inventory())
            except ValueError:  # the embedded engine has no NeuronCores to look at
                continue
            found += all_objects(plan, ctx)
    return found


def templates(objects):
    return [obj["spec"]["template"] for obj in objects if obj["kind"] in ("Job", "Deployment")]


def containers(objects):
    """(component, container) of all."""
    for template in templates(objects):
        spec = template["spec"]
        for container in [*spec.get("initContainers", ()), *spec["containers"]]:
            yield template["metadata"]["labels"][COMPONENT_LABEL], container


def test_the_monitor_is_among_them(objects):
    assert {container["name"] for _, container in containers(objects)} == {"main", "neuron-monitor"}


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
    assert writable == excused == {("main", "compile"), ("main", "serving"), ("neuron-monitor", "serving")}


def test_services_are_of_the_cluster_alone(objects):
    services = [obj["spec"] for obj in objects if obj["kind"] == "Service"]
    assert services and all(service["type"] == "ClusterIP" for service in services)
    assert not [service for service in services if "externalIPs" in service or "nodePort" in str(service)]
