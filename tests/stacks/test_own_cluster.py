"""A cluster that exists: SpecDecodeStack alone, and nothing of a cluster, a network or a node is made."""

import json
from collections import Counter

import pytest
from specdecode import names
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.json import JSONSnapshotExtension

from constructs_lib.administrator_objects import objects
from constructs_lib.cluster.access import DEPLOYER_GROUP
from constructs_lib.settings.reading import read_settings
from tests.conftest import Assembly, synthesize
from tests.constructs_lib.test_settings import CLUSTER
from tests.stacks.test_iam_lint import assert_explained
from tests.stacks.test_own_network import OF_A_NETWORK
from tests.templates import Templates, as_list

pytestmark = pytest.mark.synth
CONTEXT = CLUSTER | {"existing_cluster": "Their_cluster"}
OF_A_CLUSTER = {f"AWS::EKS::{kind}" for kind in ("Cluster", "Nodegroup", "Addon")} | {
    "AWS::IAM::OIDCProvider",
    "AWS::EC2::LaunchTemplate",
    "AWS::SQS::Queue",
    "Custom::AWSCDK-EKS-HelmChart",
}
CLUSTER_WIDE = {"Namespace", "ClusterRole", "ClusterRoleBinding", "NodePool", "EC2NodeClass", "NodeOverlay"}


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    return synthesize(tmp_path_factory.mktemp("theirs"), accept_no_alerts="true", **CONTEXT)


@pytest.fixture(scope="module")
def alone(theirs: Assembly) -> Templates:
    return theirs.templates()


def test_it_stands_alone_and_nothing_of_a_cluster_or_a_network_is_made(
    theirs: Assembly, alone: Templates, templates: Templates
) -> None:
    assert [file.name for file in theirs.folder.glob("*.template.json")] == ["SpecDecodeStack.template.json"]
    made = {resource["Type"] for _, _, resource in alone.resources()}
    assert not made & (OF_A_CLUSTER | OF_A_NETWORK)
    everything = {resource["Type"] for _, _, resource in templates.resources()}
    assert everything >= OF_A_CLUSTER, "else the line above looks for nothing"


def test_what_is_made(theirs: Assembly, snapshot: SnapshotAssertion) -> None:
    found = Counter(resource["Type"] for resource in theirs.raw("SpecDecodeStack")["Resources"].values())
    assert dict(sorted(found.items())) == snapshot(extension_class=JSONSnapshotExtension)


def test_objects_of_the_cluster(alone: Templates, snapshot: SnapshotAssertion) -> None:
    """What a deployment applies, and what the administrator has applied before."""
    applied = alone.manifests().values()
    assert not {obj["kind"] for obj in applied} & CLUSTER_WIDE
    before = objects(read_settings(CONTEXT))
    assert {"deployed": sorted(map(named, applied)), "administrator": before} == snapshot(
        extension_class=JSONSnapshotExtension
    )


def named(obj: dict) -> str:
    return f"{obj['kind']} {obj['metadata'].get('namespace', '')}/{obj['metadata']['name']}"


def test_nobody_is_asked_and_nothing_is_unexplained(theirs: Assembly) -> None:
    assert_explained(theirs)


def test_who_comes_in_and_as_whom(alone: Templates) -> None:
    """Groups whose rights the administrator gave: no access policy of EKS, above all not that of an administrator."""
    entries = alone.properties("AWS::EKS::AccessEntry").values()
    assert not any("AccessPolicies" in entry for entry in entries)
    groups = {group for entry in entries for group in entry["KubernetesGroups"]}
    known = {
        subject["name"]
        for obj in objects(read_settings(CONTEXT))
        if obj["kind"] == "RoleBinding"
        for subject in obj["subjects"]
    }
    assert groups == known
    assert sum(entry["KubernetesGroups"] == [DEPLOYER_GROUP] for entry in entries) == 1


def test_only_the_deployment_has_a_right_outside_the_namespace() -> None:
    wide = [obj for obj in objects(read_settings(CONTEXT)) if obj["kind"] == "ClusterRoleBinding"]
    assert [[subject["name"] for subject in obj["subjects"]] for obj in wide] == [[DEPLOYER_GROUP]]
    (role,) = [obj for obj in objects(read_settings(CONTEXT)) if obj["kind"] == "ClusterRole"]
    assert {resource for rule in role["rules"] for resource in rule["resources"]} == {"persistentvolumes"}


KARPENTER = {**CONTEXT, "karpenter_node_role": "TheirNodes", "nodes": "2"}


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    """With NodePools of ours in their Karpenter."""
    return synthesize(tmp_path_factory.mktemp("guest"), accept_no_alerts="true", **KARPENTER)


@pytest.fixture(scope="module")
def hosted(guest: Assembly) -> Templates:
    return guest.templates()


def test_in_their_karpenter_the_stack_makes_a_backstop_and_nothing_of_a_cluster(
    guest: Assembly, hosted: Templates, alone: Templates
) -> None:
    made = Counter(resource["Type"] for _, _, resource in hosted.resources())
    before = Counter(resource["Type"] for _, _, resource in alone.resources())
    assert not before - made
    assert dict(made - before) == {
        "AWS::CloudWatch::Alarm": 5,  # the backstop's, and for each of four pools that of a node without a lease
        "AWS::Events::Rule": 1,
        "AWS::IAM::Policy": 1,
        "AWS::IAM::Role": 1,
        "AWS::Lambda::Function": 1,
        "AWS::Lambda::Permission": 1,
        "AWS::Logs::LogGroup": 1,
    }
    assert not made.keys() & (OF_A_CLUSTER | OF_A_NETWORK)
    assert_explained(guest)


def test_objects_in_their_karpenter(snapshot: SnapshotAssertion) -> None:
    """What the administrator applies more than for nodes that are simply there."""
    plain = objects(read_settings(CONTEXT))
    more = [obj for obj in objects(read_settings(KARPENTER)) if obj not in plain]
    assert more == snapshot(extension_class=JSONSnapshotExtension)


def test_every_object_of_ours_there_has_a_name_that_is_ours_and_a_label() -> None:
    for obj in objects(read_settings(KARPENTER)):
        if obj["kind"] in CLUSTER_WIDE - {"Namespace"}:
            assert obj["metadata"]["name"].startswith("specdecode-"), obj["metadata"]
            assert obj["metadata"]["labels"]["app.kubernetes.io/name"] == "specdecode"


def test_rights_there_to_change_anything_are_for_the_replicas_of_our_pools_alone() -> None:
    given = objects(read_settings(KARPENTER))
    wide = {obj["metadata"]["name"]: obj["rules"] for obj in given if obj["kind"] == "ClusterRole"}
    assert set(wide) == {"specdecode-reader", "specdecode-pipeline", "specdecode-deployer"}
    assert {verb for rule in wide["specdecode-reader"] for verb in rule["verbs"]} == {"get", "list"}
    (scale,) = wide["specdecode-pipeline"]
    pools = ["specdecode-trn2", "specdecode-trn2-2", "specdecode-cpu", "specdecode-cpu-large"]
    assert (scale["resources"], scale["resourceNames"]) == (["nodepools/scale"], pools)
    limits = {obj["metadata"]["name"]: obj["spec"]["limits"] for obj in given if obj["kind"] == "NodePool"}
    assert limits == {name: {"nodes": "1"} for name in pools}, "whatever replicas the pipeline asks for"


def test_the_backstop_there_ends_instances_of_our_pools_and_touches_no_role(hosted: Templates) -> None:
    (variables,) = hosted.variables("HOLDING_HOURS")
    assert variables["CLUSTER_NAME"] == "Their_cluster"
    assert variables["NODEPOOLS"] == "specdecode-trn2,specdecode-trn2-2,specdecode-cpu,specdecode-cpu-large"
    assert not variables.keys() & {"KARPENTER_ROLE", "NO_LAUNCH_POLICY", "DYNAMIC_NODEPOOLS"}
    ends = [statement for _, statement in hosted.statements() if statement["Action"] == "ec2:TerminateInstances"]
    assert [statement["Condition"]["StringEquals"] for statement in ends] == [
        {
            "aws:ResourceTag/kubernetes.io/cluster/Their_cluster": "owned",
            "aws:ResourceTag/karpenter.sh/nodepool": variables["NODEPOOLS"].split(","),
        }
    ]
    actions = {action for _, statement in hosted.statements() for action in as_list(statement["Action"])}
    assert not {action for action in actions if action.startswith("iam:")}


def test_functions_there_know_that_they_may_scale_pools(hosted: Templates) -> None:
    assert {found[names.RIGHTS_VARIABLE] for found in hosted.variables(names.RIGHTS_VARIABLE)} == {names.POOL_RIGHTS}


GROUP = {**CONTEXT, "existing_node_group": "trainium"}


@pytest.fixture(scope="module")
def grouped(tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    """With a node group of theirs that runs scale."""
    return synthesize(tmp_path_factory.mktemp("grouped"), accept_no_alerts="true", **GROUP)


@pytest.fixture(scope="module")
def scaled(grouped: Assembly) -> Templates:
    return Templates({"SpecDecodeStack": grouped.raw("SpecDecodeStack")})


def test_of_a_node_group_nothing_is_made_and_only_it_may_be_scaled(grouped: Assembly, scaled: Templates) -> None:
    assert not {resource["Type"] for _, _, resource in scaled.resources()} & (OF_A_CLUSTER | OF_A_NETWORK)
    arn = "arn:aws:eks:us-east-2:111122223333:nodegroup/Their_cluster/trainium/*"
    may = [
        (name, as_list(statement["Resource"]))
        for name, statement in scaled.statements()
        if "eks:UpdateNodegroupConfig" in as_list(statement["Action"])
    ]
    assert all(resources == [arn] for _, resources in may), may
    assert len(may) == 5, "of those who give the node, take it back, watch over it, delete the stack; and the backstop"
    assert_explained(grouped)


def test_functions_know_the_group_and_the_backstop_ends_its_instances_alone(scaled: Templates) -> None:
    groups = scaled.variables(names.RIGHTS_VARIABLE)
    assert len(groups) > 10
    for found in groups:
        assert (found[names.RIGHTS_VARIABLE], found[names.GROUP_VARIABLE]) == (names.GROUP_RIGHTS, "trainium")
    (backstop,) = scaled.variables("HOLDING_HOURS")
    assert (backstop["NODEPOOLS"], backstop["NODE_GROUP"]) == ("trainium", "trainium")
    (ends,) = [statement for _, statement in scaled.statements() if statement["Action"] == "ec2:TerminateInstances"]
    assert ends["Condition"]["StringEquals"] == {
        "aws:ResourceTag/eks:cluster-name": "Their_cluster",
        "aws:ResourceTag/eks:nodegroup-name": "trainium",
    }


def test_the_administrator_gives_a_sight_of_nodes_for_a_node_group() -> None:
    plain = objects(read_settings(CONTEXT))
    more = [obj for obj in objects(read_settings(GROUP)) if obj not in plain]
    assert [named(obj) for obj in more] == ["ClusterRole /specdecode-reader", "ClusterRoleBinding /specdecode-reader"]
    given = {(what, verb) for rule in more[0]["rules"] for what in rule["resources"] for verb in rule["verbs"]}
    assert given == {("nodes", "list"), ("resourceslices", "list")}


def test_every_function_in_the_cluster_knows_its_rights_end_at_the_namespace(alone: Templates) -> None:
    functions = alone.variables("CLUSTER_NAME")
    assert len(functions) > 10
    for variables in functions:
        assert variables[names.RIGHTS_VARIABLE] == names.NAMESPACE_RIGHTS
        assert variables["CLUSTER_NAME"] == "Their_cluster"


def test_no_function_knows_that_of_a_cluster_of_ours(templates: Templates) -> None:
    assert names.RIGHTS_VARIABLE not in json.dumps(templates.stacks)


def test_pods_take_roles_by_the_clusters_own_issuer(alone: Templates) -> None:
    trusts = [
        statement
        for role in alone.properties("AWS::IAM::Role").values()
        for statement in role["AssumeRolePolicyDocument"]["Statement"]
        if statement["Action"] == "sts:AssumeRoleWithWebIdentity"
    ]
    arn = "arn:aws:iam::111122223333:oidc-provider/oidc.eks.us-east-2.amazonaws.com/id/0123"
    assert len(trusts) == 3 and {trust["Principal"]["Federated"] for trust in trusts} == {arn}
