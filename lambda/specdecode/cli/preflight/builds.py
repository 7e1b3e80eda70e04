"""What EKS must still offer: the add-ons' builds and the nodes' AMIs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from specdecode.cli.preflight.check import Ask, Check


def addons(ask: Ask) -> Iterator[Check]:
    """Each pinned add-on build against those that EKS has for the cluster's Kubernetes version."""
    eks = ask.client("eks")
    for name, build in ask.facts.addons.items():
        pages = eks.get_paginator("describe_addon_versions").paginate(
            addonName=name, kubernetesVersion=ask.facts.kubernetes
        )
        versions = [version for page in pages for addon in page["addons"] for version in addon["addonVersions"]]
        yield addon(name, build, versions, kubernetes=ask.facts.kubernetes)


def addon(name: str, build: str, versions: Sequence[Mapping[str, Any]], *, kubernetes: str) -> Check:
    """`versions` is the answer of DescribeAddonVersions, the newest first."""
    offered = [version["addonVersion"] for version in versions]
    if build in offered:
        return Check(f"add-on {name}", "ok", build)
    default = next(
        (
            version["addonVersion"]
            for version in versions
            if any(c.get("defaultVersion") for c in version["compatibilities"])
        ),
        offered[0] if offered else "none",
    )
    detail = f"EKS has no {build} for Kubernetes {kubernetes}; its default is {default}"
    return Check(f"add-on {name}", "fail", detail, f'set "{name}": "{default}" in constructs_lib/settings/versions.py')


def ami_parameter(release: str, variant: str, kubernetes: str) -> str:
    """The SSM parameter that Karpenter reads for `al2023@release` (v1.14.1, pkg/providers/amifamily/al2023.go)."""
    image = f"amazon-eks-node-al2023-x86_64-{variant}-{kubernetes}-{release}"
    return f"/aws/service/eks/optimized-ami/{kubernetes}/amazon-linux-2023/x86_64/{variant}/{image}/image_id"


def amis(ask: Ask) -> Iterator[Check]:
    """The AMIs of the trn2 node and of the staging nodes. Without one the node class is never Ready."""
    wanted = {
        ami_parameter(ask.facts.ami, "neuron", ask.facts.kubernetes): (ask.facts.ami, "the trn2 node"),
        ami_parameter(ask.facts.staging_ami, "standard", ask.facts.kubernetes): (ask.facts.staging_ami, "staging"),
    }
    found = ask.client("ssm").get_parameters(Names=list(wanted))
    values = {item["Name"]: item["Value"] for item in found["Parameters"]}
    for name, (release, purpose) in wanted.items():
        if name in values:
            yield Check(f"AMI of {purpose}", "ok", f"{release} is {values[name]}")
        else:
            staging = purpose == "staging"
            where = "STAGING_AMI in constructs_lib/settings/neuron_amis.py" if staging else "-c neuron_ami=…"
            fix = f"choose a release that EKS has ({where}); its parameter is {name}"
            yield Check(f"AMI of {purpose}", "fail", f"{ask.region} has no {release} for {ask.facts.kubernetes}", fix)
