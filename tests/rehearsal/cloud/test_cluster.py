"""Changes of CloudFormation in a cluster, and of a node group's size: checked as strictly as by EKS."""

import json

import pytest

from .conftest import allow_all

SERVICE = "arn:aws:lambda:us-east-2:000000000000:function:never-runs"


def manifest(*objects):
    return {
        "Type": "Custom::AWSCDK-EKS-KubernetesResource",
        "Properties": {"ServiceToken": SERVICE, "ClusterName": "specdecode", "Manifest": json.dumps(objects)},
    }


def config_map(name):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "specdecode"}}


def test_an_update_deletes_what_left_the_manifest_and_a_delete_the_rest(cloud):
    cloud.deploy("maps", {"Maps": manifest(config_map("kept"), config_map("dropped"))})
    cloud.requests.clear()
    formation = cloud.client("cloudformation")
    formation.update_stack(
        StackName="maps", TemplateBody=json.dumps({"Resources": {"Maps": manifest(config_map("kept"))}})
    )
    formation.get_waiter("stack_update_complete").wait(StackName="maps", WaiterConfig={"Delay": 1})
    assert [where for method, where, _ in cloud.requests if method == "DELETE"] == [
        "/api/v1/namespaces/specdecode/configmaps/dropped"
    ]
    cloud.requests.clear()
    cloud.delete("maps")
    assert [where for method, where, _ in cloud.requests if method == "DELETE"] == [
        "/api/v1/namespaces/specdecode/configmaps/kept"
    ]


def test_a_kind_that_is_not_served_fails_the_stack_as_kubectl_would(cloud):
    pool = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "trn2"}}
    with pytest.raises(AssertionError, match=r'no matches for kind "NodePool" in version "karpenter\.sh/v1"'):
        cloud.deploy("too-early", {"Pool": manifest(pool)})


CLUSTER = "grouped"
NAMED = {"clusterName": CLUSTER, "nodegroupName": "trainium"}


@pytest.fixture(scope="module")
def eks(cloud):
    client = cloud.client("eks")
    network = {"subnetIds": ["subnet-1", "subnet-2"]}
    role = cloud.role("grouped-cluster", "eks.amazonaws.com", [allow_all()])
    client.create_cluster(name=CLUSTER, roleArn=role, resourcesVpcConfig=network)
    client.create_nodegroup(
        **NAMED,
        scalingConfig={"minSize": 0, "maxSize": 1, "desiredSize": 0},
        subnets=["subnet-1"],
        instanceTypes=["trn2.48xlarge"],
        nodeRole=role,
    )
    return client


def test_a_size_beyond_its_bounds_and_a_group_that_is_not_there_are_refused(eks):
    for size in ({"desiredSize": 2}, {"minSize": 1}):
        with pytest.raises(eks.exceptions.InvalidParameterException):
            eks.update_nodegroup_config(**NAMED, scalingConfig=size)
    with pytest.raises(eks.exceptions.ResourceNotFoundException):
        eks.update_nodegroup_config(**NAMED | {"nodegroupName": "gone"}, scalingConfig={"desiredSize": 0})
