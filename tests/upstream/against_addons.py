"""The EKS add-ons' configuration, against the charts that they are built from; and what is in the S3 driver.

EKS gives an add-on's own schema to an account only (eks:DescribeAddonConfiguration), and coredns has no chart of EKS's.
"""

import json
import re
from typing import Any

import pytest
import yaml

from tests.templates import Templates
from tests.upstream.conftest import Upstream
from tests.upstream.values import unknown

pytestmark = pytest.mark.synth
CLI = "mountpoint-s3/src/cli.rs"


def configuration(templates: Templates, name: str) -> Any:
    """An add-on's configuration values."""
    (found,) = (
        properties["ConfigurationValues"]
        for properties in templates.properties("AWS::EKS::Addon").values()
        if properties["AddonName"] == name
    )
    return json.loads(found)


def test_vpc_cni(upstream: Upstream, templates: Templates) -> None:
    """vpc-cni: every value is one of the chart's, of the same type; network policies are off unless asked for."""
    chart = yaml.safe_load(upstream.text("vpc-cni", "charts/aws-vpc-cni/values.yaml"))
    values = configuration(templates, "vpc-cni")
    assert unknown(values, chart) == []
    assert {key: type(value) for key, value in values.items()} == {key: type(chart[key]) for key in values}
    assert (chart["enableNetworkPolicy"], values["enableNetworkPolicy"]) == ("false", "true")


def test_cloudwatch_observability(upstream: Upstream, templates: Templates) -> None:
    """amazon-cloudwatch-observability: every value is one of the chart's; what we turn off is on there."""
    folder = "charts/amazon-cloudwatch-observability"
    chart = yaml.safe_load(upstream.text("cloudwatch", f"{folder}/values.yaml"))
    helpers = upstream.text("cloudwatch", f"{folder}/templates/_helpers.tpl")
    values = configuration(templates, "amazon-cloudwatch-observability")
    assert [path for path in unknown(values, chart) if f'"{path.rpartition(".")[2]}"' not in helpers] == []
    for off in ("applicationSignals", "neuronMonitor", "dcgmExporter"):
        assert (chart[off]["enabled"], values[off]["enabled"]) == (True, False)
    assert chart["otelContainerInsights"]["enabled"] is False, "a second pipeline of metrics, billed too"


def shipped(upstream: Upstream) -> str:
    """The Mountpoint that the S3 driver ships."""
    found = re.search(r"^ARG MOUNTPOINT_VERSION=(\S+)$", upstream.text("mountpoint-csi", "Dockerfile"), re.MULTILINE)
    assert found
    return found[1]


def volumes(templates: Templates) -> list[Any]:
    found = [obj for obj in templates.manifests().values() if obj["kind"] == "PersistentVolume"]
    assert found
    return found


def test_the_memory_of_mountpoint(upstream: Upstream) -> None:
    """Mountpoint takes its share of its container's memory limit, not of the host's memory, at the driver's version."""
    source = upstream.text("mountpoint", CLI)
    assert upstream.revision("mountpoint") == f"mountpoint-s3-{shipped(upstream)}"
    assert "(effective_total_memory() as f64 * 0.95)" in source


def test_volume_attributes_are_the_drivers(upstream: Upstream, templates: Templates) -> None:
    """Every attribute of our volumes is one that the driver reads; it ignores others."""
    source = upstream.text("mountpoint-csi", "pkg/driver/node/volumecontext/volume_context.go")
    known = set(re.findall(r'^\s+\w+\s+= "([^"]+)"$', source, re.MULTILINE))
    for volume in volumes(templates):
        assert set(volume["spec"]["csi"]["volumeAttributes"]) <= known


def test_mount_options_are_mountpoints(upstream: Upstream, templates: Templates) -> None:
    """Every mount option is one of Mountpoint's command line, at the version that the driver ships."""
    source = upstream.text("mountpoint", CLI)
    known = {name.replace("_", "-") for name in re.findall(r"^    pub (\w+): ", source, re.MULTILINE)}
    for volume in volumes(templates):
        assert {option.split()[0] for option in volume["spec"]["mountOptions"]} <= known
