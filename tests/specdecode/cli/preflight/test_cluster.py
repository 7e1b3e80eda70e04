"""A cluster of yours: what it lacks is said before anything is deployed, each with what to do."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from specdecode.cli.preflight import cluster
from specdecode.cli.preflight.check import Check
from specdecode.cli.preflight.cluster_nodes import kubectl
from specdecode.experiment.deployment_facts import ExistingCluster
from specdecode.experiment.shapes import CPU, SHAPES

from tests.specdecode.cli.preflight.aws import ACCOUNT, Aws, error, verdicts

TRN2 = SHAPES["trn2.48xlarge"]
ENDPOINT, HOST = "https://0123.gr7.us-east-2.eks.amazonaws.com", "oidc.eks.us-east-2.amazonaws.com/id/0123"
GIVEN = ExistingCluster(endpoint=ENDPOINT, security_group="sg-1", issuer=f"https://{HOST}")


def described(**changes: Any) -> dict[str, Any]:
    known = {
        "status": "ACTIVE",
        "version": "1.35",
        "endpoint": ENDPOINT,
        "identity": {"oidc": {"issuer": f"https://{HOST}"}},
        "resourcesVpcConfig": {"clusterSecurityGroupId": "sg-1", "vpcId": "vpc-1"},
        "accessConfig": {"authenticationMode": "API_AND_CONFIG_MAP"},
    }
    return {"DescribeCluster": {"cluster": known | changes}}


def providers(host: str) -> dict[str, Any]:
    return {"OpenIDConnectProviderList": [{"Arn": f"arn:aws:iam::{ACCOUNT}:oidc-provider/{host}"}]}


def addon(values: str | None = None) -> dict[str, Any]:
    return {"DescribeAddon": {"addon": {"configurationValues": values} if values else {}}}


def world(**answers: Any) -> Aws:
    policies = addon('{"enableNetworkPolicy": "true"}')
    return Aws(**described() | policies | {"ListOpenIDConnectProviders": providers(HOST)} | answers)


def of_eks(aws: Aws) -> dict[str, Check]:
    ask = aws.ask(cluster="theirs", existing=GIVEN, vpc="vpc-1")
    return {check.name: check for check in cluster.of_eks(ask)}


def test_a_cluster_on_which_nothing_would_fail():
    looked_at = ("cluster", "access entries", "OIDC provider", "network policies")
    assert verdicts(of_eks(world()).values()) == dict.fromkeys(looked_at, "ok")


def test_a_cluster_of_ours_is_not_asked_about():
    aws = world()
    assert list(cluster.of_eks(aws.ask())) == [] and aws.asked == []
    assert list(cluster.inside(aws.ask(), TRN2, ask_kubectl=Shell())) == []


@pytest.mark.parametrize(
    ("answers", "name", "verdict", "words"),
    [
        ({"DescribeCluster": error("ResourceNotFoundException")}, "cluster", "fail", "no EKS cluster theirs"),
        (described(endpoint="https://other"), "cluster", "fail", "configure cluster_endpoint=https://other`"),
        (described(resourcesVpcConfig={"clusterSecurityGroupId": "sg-0123abcd", "vpcId": "vpc-0123abcd"}), "cluster",
         "fail", "configure cluster_security_group=sg-0123abcd vpc_id=vpc-0123abcd`"),
        (described(identity={"oidc": {"issuer": "https://another"}}), "cluster", "fail",
         "configure cluster_oidc_issuer=https://another`"),
        (described(status="CREATING"), "cluster", "fail", "wait until it is active"),
        (described(version="1.33"), "cluster", "fail", "upgrade it"),
        (described(computeConfig={"enabled": True}), "cluster", "warn", "node group"),
        (described(accessConfig={"authenticationMode": "CONFIG_MAP"}), "access entries", "fail", "API_AND_CONFIG_MAP"),
        ({"ListOpenIDConnectProviders": providers(f"{HOST}4")}, "OIDC provider", "fail", "associate-iam-oidc-provider"),
        (addon(), "network policies", "warn", "do"),
        (addon('{"enableNetworkPolicy": "false"}'), "network policies", "warn", "turn on enableNetworkPolicy"),
        (addon('enableNetworkPolicy: "true"'), "network policies", "ok", "vpc-cni enforces them"),
        ({"DescribeAddon": error("ResourceNotFoundException")}, "network policies", "warn", "vpc-cni is no add-on"),
    ],
)  # fmt: skip
def test_what_eks_says_of_it(answers, name, verdict, words):
    check = of_eks(world(**answers))[name]
    assert (check.verdict, words in f"{check.detail} {check.fix}") == (verdict, True), check


def node(
    name: str = "n", *, ready: str = "True", taints: Sequence[str] = ("aws.amazon.com/neuron",), slot: str = "trn2"
) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {"specdecode/accelerator": slot}},
        "spec": {"taints": [{"key": key, "effect": "NoSchedule"} for key in taints]},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }


class Shell:
    """kubectl, by the kind that it is asked for; an exception is raised."""

    def __init__(self, **answers: Any) -> None:
        slices = [{"spec": {"driver": "neuron.aws.com", "nodeName": "n"}}]
        self.answers = {
            "config": ENDPOINT.upper(),
            "deviceclass": "deviceclass.resource.k8s.io/neuron.aws.com\n",
            "csidriver": "csidriver.storage.k8s.io/s3.csi.aws.com\n",
            "namespace": json.dumps({"metadata": {"labels": {cluster.LEVEL: "restricted"}}}),
            "role": "role.rbac.authorization.k8s.io/specdecode-deployer\n",
            "nodes": json.dumps({"items": [node()]}),
            "resourceslices": json.dumps({"items": slices}),
        } | answers

    def __call__(self, arguments: Sequence[str]) -> str:
        answer = self.answers[arguments[0] if arguments[0] == "config" else arguments[1]]
        if isinstance(answer, Exception):
            raise answer
        return answer


def inside(wanted=TRN2, **answers: Any) -> dict[str, Check]:
    ask = world().ask(cluster="theirs", existing=GIVEN)
    return {check.name: check for check in cluster.inside(ask, wanted, ask_kubectl=Shell(**answers))}


def test_a_cluster_that_has_everything():
    found = inside()
    assert set(verdicts(found.values()).values()) == {"ok"}
    assert set(found) == {"Neuron DRA driver", "Mountpoint for S3", "namespace and rights", "Pod Security", "node"}


def there(*nodes: dict[str, Any]) -> dict[str, str]:
    return {"nodes": json.dumps({"items": nodes})}


OTHER_CONTEXT = ("in the cluster", "warn", "update-kubeconfig --region us-east-2 --name theirs")
LABEL = "kubectl label node NAME specdecode/accelerator=trn2"


@pytest.mark.parametrize(
    ("answers", "name", "verdict", "words"),
    [
        ({"deviceclass": ""}, "Neuron DRA driver", "fail", "draDriver.enabled=true"),
        ({"csidriver": ""}, "Mountpoint for S3", "fail", "aws-mountpoint-s3-csi-driver"),
        ({"role": ""}, "namespace and rights", "fail", "constructs_lib.administrator_objects | kubectl apply -f -"),
        ({"namespace": '{"metadata": {}}'}, "Pod Security", "warn", "administrator_objects"),
        ({"config": "https://another"}, *OTHER_CONTEXT),
        ({"config": LookupError("error: current-context is not set")}, *OTHER_CONTEXT),
        ({"config": FileNotFoundError("kubectl")}, *OTHER_CONTEXT),
        ({"deviceclass": LookupError("Forbidden")}, *OTHER_CONTEXT),
        (there(), "node", "warn", LABEL),
        (there(node(ready="False")), "node", "warn", LABEL),
        (there(node("m")), "node", "fail", "driver's pod"),
        (there(node(taints=("aws.amazon.com/neuron", "team"))), "node", "fail", "aws.amazon.com/neuron alone"),
        (there(node(taints=())), "node", "ok", ""),
    ],
)
def test_what_the_cluster_lacks(answers, name, verdict, words):
    check = inside(**answers)[name]
    assert (check.verdict, words in check.fix) == (verdict, True), check


def test_each_run_that_goes_on_beside_another_has_a_node_of_its_own_label():
    ask = world().ask(cluster="theirs", existing=GIVEN, nodes=2)
    found = list(cluster.inside(ask, TRN2, ask_kubectl=Shell()))[-2:]
    assert [check.verdict for check in found] == ["ok", "warn"]
    assert "kubectl label node NAME specdecode/accelerator=trn2-2" in found[1].fix


def test_a_node_without_devices_publishes_none():
    assert inside(CPU, **there(node(taints=("specdecode/held",), slot="cpu")))["node"].verdict == "ok"


def test_kubectl_says_what_went_wrong(tmp_path, monkeypatch):
    fake = tmp_path / "kubectl"
    fake.write_text("#!/bin/sh\necho 'the server said no' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LookupError, match="the server said no"):
        kubectl(["get", "nodes"])
