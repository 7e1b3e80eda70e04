"""The Helm releases: pinned charts, and values that mean what they say."""

import json

import pytest

from constructs_lib.settings.versions import KARPENTER_CHART, NEURON_CHART
from tests.templates import Templates

pytestmark = pytest.mark.synth


def test_charts_are_pinned_and_come_from_public_ecr(templates: Templates) -> None:
    assert {
        release: (chart["Repository"], chart["Version"], chart["Namespace"])
        for release, chart in templates.charts().items()
    } == {
        "karpenter-crd": ("oci://public.ecr.aws/karpenter/karpenter-crd", KARPENTER_CHART, "kube-system"),
        "karpenter": ("oci://public.ecr.aws/karpenter/karpenter", KARPENTER_CHART, "kube-system"),
        "neuron": ("oci://public.ecr.aws/neuron/neuron-helm-chart", NEURON_CHART, "neuron-dra-driver"),
    }


def test_add_ons_are_pinned(templates: Templates) -> None:
    add_ons = {item["AddonName"]: item for item in templates.properties("AWS::EKS::Addon").values()}
    assert set(add_ons) == {
        "vpc-cni",
        "kube-proxy",
        "coredns",
        "aws-mountpoint-s3-csi-driver",
        "amazon-cloudwatch-observability",
    }
    for name, add_on in add_ons.items():
        assert "eksbuild" in add_on["AddonVersion"], name
    assert '"enableNetworkPolicy": "true"' in add_ons["vpc-cni"]["ConfigurationValues"]
    observability = json.loads(add_ons["amazon-cloudwatch-observability"]["ConfigurationValues"])
    assert observability["containerInsights"] == {"enabled": True}
    for off in ("applicationSignals", "neuronMonitor", "dcgmExporter"):
        assert observability[off] == {"enabled": False}
    assert "ServiceAccountRoleArn" in add_ons["amazon-cloudwatch-observability"]
    # Mountpoint uses the pods' own credentials.
    assert "ServiceAccountRoleArn" not in add_ons["aws-mountpoint-s3-csi-driver"]
