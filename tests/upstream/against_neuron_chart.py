"""The Neuron chart as its registry has it: what our values install, and that claims, namespaces and taints fit it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from specdecode import names
from specdecode.experiment.shapes import ACCELERATED

from constructs_lib.capacity.neuron_dra import NAMESPACES
from rehearsal.kubernetes.software import charts
from tests.templates import Templates
from tests.upstream.conftest import show_values
from tests.upstream.values import unknown

pytestmark = pytest.mark.synth
Manifest = dict[str, Any]


@pytest.fixture
def rendered(neuron_chart: Path, templates: Templates, render: Callable[..., list[Manifest]]) -> list[Manifest]:
    """The objects."""
    release = templates.charts()["neuron"]
    return render(neuron_chart, release=release["Release"], namespace=release["Namespace"], values=release["Values"])


def test_every_value_is_one_of_the_charts(neuron_chart: Path, helm: Path, templates: Templates) -> None:
    """No value of ours is unknown to the Neuron chart; its device plugin and problem detector are on by default."""
    chart = yaml.safe_load(show_values(helm, neuron_chart))
    values = templates.charts()["neuron"]["Values"]
    assert unknown(values, chart) == []
    assert {part: chart[part]["enabled"] for part in values} == {"draDriver": False, "devicePlugin": True, "npd": True}


def test_only_the_dra_driver_is_installed(rendered: list[Manifest]) -> None:
    """One workload, the DRA driver's DaemonSet, and no object in a namespace that we do not make."""
    workloads = [obj for obj in rendered if obj["kind"] in ("DaemonSet", "Deployment", "StatefulSet")]
    assert [(obj["kind"], obj["metadata"]["name"]) for obj in workloads] == [("DaemonSet", charts.DRA_DAEMON)]
    assert {obj["metadata"]["namespace"] for obj in rendered if "namespace" in obj["metadata"]} <= set(NAMESPACES)
    assert not [obj for obj in rendered if obj["kind"] == "Namespace"]


def test_the_driver_runs_on_our_node(rendered: list[Manifest]) -> None:
    """The DaemonSet tolerates the node's taint and selects every instance type that a deployment can have."""
    (daemon,) = (obj for obj in rendered if obj["kind"] == "DaemonSet")
    spec = daemon["spec"]["template"]["spec"]
    assert any(t.get("key") == names.NEURON_TAINT and t["operator"] == "Exists" for t in spec["tolerations"])
    terms = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert any(
        set(ACCELERATED) <= set(part.get("values", ()))
        for term in terms
        for part in term["matchExpressions"]
        if part["key"] == "node.kubernetes.io/instance-type"
    )


def test_our_claims_ask_for_its_device_class(rendered: list[Manifest], templates: Templates) -> None:
    """The chart installs the DeviceClass that every claim template names."""
    classes = {obj["metadata"]["name"] for obj in rendered if obj["kind"] == "DeviceClass"}
    claims = [obj for obj in templates.manifests().values() if obj["kind"] == "ResourceClaimTemplate"]
    asked = {
        request["exactly"]["deviceClassName"]
        for claim in claims
        for request in claim["spec"]["spec"]["devices"]["requests"]
    }
    assert asked
    assert asked <= classes
