"""A cluster of yours: what it lacks is said before anything is deployed, each with what to do."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from specdecode.cli.preflight import cluster
from specdecode.cli.preflight.check import Check, looked
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
    return {"cluster": known | changes}


def world(**answers: Any) -> Aws:
    return Aws(
        **{
            "DescribeCluster": described(),
            "ListOpenIDConnectProviders": {
                "OpenIDConnectProviderList": [{"Arn": f"arn:aws:iam::{ACCOUNT}:oidc-provider/{HOST}"}]
            },
            "DescribeAddon": {"addon": {"configurationValues": '{"enableNetworkPolicy": "true"}'}},
        }
        | answers
    )


def of_eks(aws: Aws) -> dict[str, Check]:
    ask = aws.ask(cluster="theirs", existing=GIVEN, vpc="vpc-1")
    return {check.name: check for check in cluster.of_eks(ask)}


def test_a_cluster_on_which_nothing_would_fail():
    assert verdicts(of_eks(world()).values()) == {
        "cluster": "ok",
        "access entries": "ok",
        "OIDC provider": "ok",
        "network policies": "ok",
    }


def test_a_cluster_of_ours_is_not_asked_about():
    aws = world()
    assert list(cluster.of_eks(aws.ask())) == [] and aws.asked == []
    assert list(cluster.inside(aws.ask(), TRN2, ask_kubectl=Shell())) == []


def test_a_cluster_that_is_not_there():
    found = of_eks(world(DescribeCluster=error("ResourceNotFoundException")))
    assert verdicts(found.values()) == {"cluster": "fail"} and "theirs" in found["cluster"].detail


def test_what_may_not_be_looked_at_is_one_warning():
    aws = world()
    aws.denied = True
    (check,) = looked("cluster", lambda: cluster.of_eks(aws.ask(existing=GIVEN)))
    assert check.verdict == "warn"


@pytest.mark.parametrize(
    ("changes", "verdict", "words"),
    [
        ({"endpoint": "https://other"}, "fail", "configure cluster_endpoint=https://other`"),
        ({"resourcesVpcConfig": {"clusterSecurityGroupId": "sg-0123abcd", "vpcId": "vpc-0123abcd"}}, "fail",
         "configure cluster_security_group=sg-0123abcd vpc_id=vpc-0123abcd`"),
        ({"identity": {"oidc": {"issuer": "https://another"}}}, "fail", "configure cluster_oidc_issuer=https://another`"),
        ({"status": "CREATING"}, "fail", "wait until it is active"),
        ({"version": "1.33"}, "fail", "upgrade it"),
        ({"computeConfig": {"enabled": True}}, "warn", "node group"),
    ],
)  # fmt: skip
def test_settings_that_are_not_the_clusters_own_and_a_cluster_that_will_not_do(changes, verdict, words):
    check = of_eks(world(DescribeCluster=described(**changes)))["cluster"]
    assert (check.verdict, words in check.fix) == (verdict, True), check


def test_access_entries_must_count():
    check = of_eks(world(DescribeCluster=described(accessConfig={"authenticationMode": "CONFIG_MAP"})))[
        "access entries"
    ]
    assert check.verdict == "fail" and "API_AND_CONFIG_MAP" in check.fix


def test_pods_need_the_issuer_in_iam():
    other = {"OpenIDConnectProviderList": [{"Arn": f"arn:aws:iam::{ACCOUNT}:oidc-provider/{HOST}4"}]}
    check = of_eks(world(ListOpenIDConnectProviders=other))["OIDC provider"]
    assert check.verdict == "fail" and "associate-iam-oidc-provider" in check.fix


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ({"addon": {}}, "warn"),
        ({"addon": {"configurationValues": '{"enableNetworkPolicy": "false"}'}}, "warn"),
        ({"addon": {"configurationValues": 'enableNetworkPolicy: "true"'}}, "ok"),
        (error("ResourceNotFoundException"), "warn"),
    ],
)
def test_policies_that_nobody_enforces_are_said(answer, verdict):
    assert of_eks(world(DescribeAddon=answer))["network policies"].verdict == verdict


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


@pytest.mark.parametrize(
    ("kind", "name", "words"),
    [
        ("deviceclass", "Neuron DRA driver", "draDriver.enabled=true"),
        ("csidriver", "Mountpoint for S3", "aws-mountpoint-s3-csi-driver"),
        ("role", "namespace and rights", "constructs_lib.administrator_objects | kubectl apply -f -"),
    ],
)
def test_what_the_cluster_lacks(kind, name, words):
    check = inside(**{kind: ""})[name]
    assert check.verdict == "fail" and words in check.fix


@pytest.mark.parametrize(
    "answers",
    [
        {"config": "https://another"},
        {"config": LookupError("error: current-context is not set")},
        {"config": FileNotFoundError("kubectl")},
        {"deviceclass": LookupError("Forbidden")},
    ],
)
def test_without_the_clusters_kubectl_it_says_that_it_did_not_look(answers):
    check = inside(**answers)["in the cluster"]
    assert check.verdict == "warn" and "update-kubeconfig --region us-east-2 --name theirs" in check.fix


@pytest.mark.parametrize(
    ("nodes", "verdict", "words"),
    [
        ([], "warn", "kubectl label node NAME specdecode/accelerator=trn2"),
        ([node(ready="False")], "warn", "kubectl label"),
        ([node("m")], "fail", "driver's pod"),
        ([node(taints=("aws.amazon.com/neuron", "team"))], "fail", "aws.amazon.com/neuron alone"),
        ([node(taints=())], "ok", ""),
    ],
)
def test_the_node_that_is_there(nodes, verdict, words):
    check = inside(nodes=json.dumps({"items": nodes}))["node"]
    assert (check.verdict, words in check.fix) == (verdict, True), check


def test_each_run_that_goes_on_beside_another_has_a_node_of_its_own_label():
    ask = world().ask(cluster="theirs", existing=GIVEN, nodes=2)
    found = list(cluster.inside(ask, TRN2, ask_kubectl=Shell()))[-2:]
    assert [check.verdict for check in found] == ["ok", "warn"]
    assert "kubectl label node NAME specdecode/accelerator=trn2-2" in found[1].fix


def test_a_namespace_that_lets_in_any_pod_is_said():
    check = inside(namespace='{"metadata": {}}')["Pod Security"]
    assert check.verdict == "warn" and "nothing" in check.detail


def test_a_node_without_devices_publishes_none():
    assert (
        inside(CPU, nodes=json.dumps({"items": [node(taints=("specdecode/held",), slot="cpu")]}))["node"].verdict
        == "ok"
    )


def test_kubectl_says_what_went_wrong(tmp_path, monkeypatch):
    fake = tmp_path / "kubectl"
    fake.write_text("#!/bin/sh\necho 'the server said no' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LookupError, match="the server said no"):
        kubectl(["get", "nodes"])
