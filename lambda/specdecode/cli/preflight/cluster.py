"""A cluster of yours: what EKS says about it, and what its API server says to your own kubectl."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from specdecode import names
from specdecode.cli.preflight import cluster_nodes
from specdecode.cli.preflight.check import Ask, Check, unless
from specdecode.cli.preflight.cluster_nodes import DEVICES, OBJECTS, Kubectl
from specdecode.experiment.deployment_facts import DeploymentFacts, ExistingCluster
from specdecode.experiment.kept import deploy_with
from specdecode.experiment.shapes import NodeShape

OLDEST = (1, 34)
"""Kubernetes version since which resource claims are resource.k8s.io/v1."""
MODES = ("API", "API_AND_CONFIG_MAP")
"""Authentication modes of EKS in which access entries count (eks/latest/userguide/setting-up-access-entries.html)."""
LEVEL = "pod-security.kubernetes.io/enforce"


def of_eks(ask: Ask) -> Iterator[Check]:
    """Compares the cluster in EKS with the settings, and checks its issuer in IAM and its add-ons."""
    facts, eks = ask.facts, ask.client("eks")
    if facts.existing is None:
        return
    found = unless("ResourceNotFoundException", lambda: eks.describe_cluster(name=facts.cluster)["cluster"])
    if found is None:
        fix = "look at `aws eks list-clusters`, and at account and region"
        yield Check("cluster", "fail", f"there is no EKS cluster {facts.cluster} in {ask.region}", fix)
        return
    yield described(facts, facts.existing, found)
    mode = found.get("accessConfig", {}).get("authenticationMode", "CONFIG_MAP")
    if mode in MODES:
        yield Check("access entries", "ok", f"authentication mode {mode}")
    else:
        config = "--access-config authenticationMode=API_AND_CONFIG_MAP"
        fix = f"aws eks update-cluster-config --name {facts.cluster} {config}"
        yield Check("access entries", "fail", f"authentication mode {mode}: none would count", fix)
    if facts.existing.node_role:
        yield from cluster_nodes.node_role(ask, facts.existing.node_role, found)
    if facts.existing.node_group:
        yield from cluster_nodes.of_group(ask, facts.existing.node_group)
    host = facts.existing.issuer.removeprefix("https://")
    providers = ask.client("iam").list_open_id_connect_providers()["OpenIDConnectProviderList"]
    if any(item["Arn"].endswith(f":oidc-provider/{host}") for item in providers):
        yield Check("OIDC provider", "ok", "pods can take roles by the cluster's issuer")
    else:
        fix = f"eksctl utils associate-iam-oidc-provider --cluster {facts.cluster} --region {ask.region} --approve"
        yield Check("OIDC provider", "fail", f"IAM has none of {facts.existing.issuer}: no pod could take a role", fix)
    yield policies(eks, facts)


def described(facts: DeploymentFacts, given: ExistingCluster, found: Mapping[str, Any]) -> Check:
    """Its state and version, and whether the settings describe it."""
    network = found["resourcesVpcConfig"]
    real = {
        "cluster_endpoint": (given.endpoint, found["endpoint"]),
        "cluster_security_group": (given.security_group, network["clusterSecurityGroupId"]),
        "cluster_oidc_issuer": (given.issuer, found["identity"]["oidc"]["issuer"]),
        "vpc_id": (facts.vpc, network["vpcId"]),
    }
    wrong = {key: theirs for key, (said, theirs) in real.items() if said != theirs}
    if wrong:
        detail = f"{', '.join(wrong)}: not what EKS has for {facts.cluster}"
        return Check("cluster", "fail", detail, deploy_with(wrong))
    version = tuple(map(int, found["version"].split(".")[:2]))
    if facts.describes_nodes and found["version"] != facts.kubernetes:
        detail = f"it is Kubernetes {found['version']}, and nodes are made for {facts.kubernetes}"
        if found["version"] in facts.supported:
            return Check("cluster", "fail", detail, deploy_with({"kubernetes_version": found["version"]}))
        detail = f"{detail}: AMIs are pinned for {' and '.join(facts.supported)} only"
        other = {"karpenter_node_role": "", "node_security_groups": "", "existing_node_group": "NAME"}
        fix = f"take a node group of it instead (docs/how-to/own-cluster.md): {deploy_with(other)}"
        return Check("cluster", "fail", detail, fix)
    detail = f"{facts.cluster} is {found['status']}, Kubernetes {found['version']}"
    if found["status"] not in ("ACTIVE", "UPDATING"):
        return Check("cluster", "fail", detail, "wait until it is active")
    if version < OLDEST:
        return Check("cluster", "fail", f"{detail}: resource claims need 1.34", "upgrade it")
    if found.get("computeConfig", {}).get("enabled"):
        fix = "nodes with Neuron devices must be of a node group or of your own Karpenter: its driver wants that"
        return Check("cluster", "warn", f"{detail}, in Auto Mode", fix)
    return Check("cluster", "ok", detail)


def policies(eks: Any, facts: DeploymentFacts) -> Check:
    """Whether the VPC CNI enforces network policies."""
    fix = "turn on enableNetworkPolicy of the add-on vpc-cni; where another CNI enforces policies, all is well"
    given = {"clusterName": facts.cluster, "addonName": "vpc-cni"}
    found = unless("ResourceNotFoundException", lambda: eks.describe_addon(**given)["addon"])
    if found is None:
        return Check("network policies", "warn", "vpc-cni is no add-on of EKS here: not known to be enforced", fix)
    values = found.get("configurationValues")
    try:
        is_on = str(json.loads(values or "{}").get("enableNetworkPolicy", "")).lower() == "true"
    except ValueError:  # the values may be YAML
        is_on = 'enableNetworkPolicy: "true"' in str(values)
    if is_on:
        return Check("network policies", "ok", "vpc-cni enforces them")
    return Check("network policies", "warn", "vpc-cni does not enforce them: pods could reach anything", fix)


def inside(ask: Ask, wanted: NodeShape, *, ask_kubectl: Kubectl) -> Iterator[Check]:
    """Drivers, our objects and the node, with the user's kubectl: nothing of ours may look at a whole cluster."""
    if ask.facts.existing is None:
        return
    fix = f"aws eks update-kubeconfig --region {ask.region} --name {ask.facts.cluster}, from where its API is reached"
    try:
        if not is_context(ask, ask_kubectl):
            yield Check("in the cluster", "warn", "not looked at: kubectl's context is another one, or none", fix)
            return
        yield from _drivers(ask_kubectl)
        yield from _prepared(ask_kubectl)
        if ask.facts.existing.node_role:
            yield from cluster_nodes.of_karpenter(ask.facts, ask_kubectl)
        elif not (ask.facts.existing.node_group and wanted.has_devices):
            yield from cluster_nodes.labelled(wanted, ask.facts.nodes, ask_kubectl)
    except (OSError, LookupError) as error:
        yield Check("in the cluster", "warn", f"not looked at: {error}", fix)


def is_context(ask: Ask, ask_kubectl: Kubectl) -> bool:
    """Whether kubectl speaks to the cluster of the settings. `inside` says so if not."""
    try:
        server = ask_kubectl(["config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}"]).strip()
        return ask.facts.existing is not None and server.lower() == ask.facts.existing.endpoint.lower()
    except (OSError, LookupError):
        return False


def _drivers(ask_kubectl: Kubectl) -> Iterator[Check]:
    chart = "install AWS's neuron-helm-chart with draDriver.enabled=true and devicePlugin.enabled=false"
    addon = "aws eks create-addon --addon-name aws-mountpoint-s3-csi-driver --cluster-name …"
    for name, kind, wanted, fix in (
        ("Neuron DRA driver", "deviceclass", DEVICES, chart),
        ("Mountpoint for S3", "csidriver", "s3.csi.aws.com", addon),
    ):
        there = ask_kubectl(["get", kind, wanted, "-o", "name", "--ignore-not-found"]).strip()
        yield Check(name, "ok", there) if there else Check(name, "fail", f"there is no {kind} {wanted}", fix)


def _prepared(ask_kubectl: Kubectl) -> Iterator[Check]:
    what = ["get", "role", "specdecode-deployer", "-n", names.NAMESPACE, "-o", "name", "--ignore-not-found"]
    if not ask_kubectl(what).strip():
        detail = "they have not been applied: a deployment would be refused"
        yield Check("namespace and rights", "fail", detail, OBJECTS)
        return
    yield Check("namespace and rights", "ok", f"namespace {names.NAMESPACE} is prepared")
    found = json.loads(ask_kubectl(["get", "namespace", names.NAMESPACE, "-o", "json"]))
    level = (found["metadata"].get("labels") or {}).get(LEVEL)
    if level == "restricted":
        yield Check("Pod Security", "ok", "the namespace enforces restricted")
    else:
        yield Check("Pod Security", "warn", f"the namespace enforces {level or 'nothing'}, not restricted", OBJECTS)
