"""A managed node group: changes of its size are checked as strictly as by EKS, and instances and nodes follow."""

import json

import pytest

from tests.patience import until

from .conftest import allow_all

CLUSTER = "grouped"
NAMED = {"clusterName": CLUSTER, "nodegroupName": "trainium"}
TAINT = {"key": "aws.amazon.com/neuron", "value": "true", "effect": "NO_SCHEDULE"}
CHANGER = """
import boto3
def handler(event, context):
    answers = {}
    for group in event["groups"]:
        try:
            boto3.client("eks").update_nodegroup_config(
                clusterName="grouped", nodegroupName=group, scalingConfig={"desiredSize": 0}
            )
            answers[group] = "ok"
        except Exception as error:
            answers[group] = error.response["Error"]["Code"]
    return answers
"""


@pytest.fixture(scope="module")
def eks(cloud):
    client = cloud.client("eks")
    network = {"subnetIds": ["subnet-1", "subnet-2"]}
    role = cloud.role("grouped-cluster", "eks.amazonaws.com", [allow_all()])
    client.create_cluster(name=CLUSTER, roleArn=role, resourcesVpcConfig=network)
    for name in ("trainium", "another"):
        client.create_nodegroup(
            **NAMED | {"nodegroupName": name},
            scalingConfig={"minSize": 0, "maxSize": 1, "desiredSize": 0},
            subnets=["subnet-1"],
            instanceTypes=["trn2.48xlarge"],
            nodeRole=role,
            labels={"specdecode/accelerator": "trn2"},
            taints=[TAINT],
        )
    return client


def instances(cloud):
    filters = [
        {"Name": "tag:eks:nodegroup-name", "Values": ["trainium"]},
        {"Name": "tag:eks:cluster-name", "Values": [CLUSTER]},
        {"Name": "instance-state-name", "Values": ["pending", "running"]},
    ]
    found = cloud.client("ec2").describe_instances(Filters=filters)["Reservations"]
    return [item["InstanceId"] for group in found for item in group["Instances"]]


def resize(eks, size):
    """Repeat the request until no other change is under way."""

    def asked():
        try:
            return eks.update_nodegroup_config(**NAMED, scalingConfig={"desiredSize": size})["update"]["status"]
        except eks.exceptions.ResourceInUseException:
            return None

    assert until(asked) == "InProgress"


def test_a_size_beyond_its_bounds_and_a_group_that_is_not_there_are_refused(eks):
    for size in ({"desiredSize": 2}, {"minSize": 1}):
        with pytest.raises(eks.exceptions.InvalidParameterException):
            eks.update_nodegroup_config(**NAMED, scalingConfig=size)
    with pytest.raises(eks.exceptions.ResourceNotFoundException):
        eks.update_nodegroup_config(**NAMED | {"nodegroupName": "gone"}, scalingConfig={"desiredSize": 0})


def test_instances_and_nodes_follow_the_size(cloud, eks):
    resize(eks, 1)
    with pytest.raises(eks.exceptions.ResourceInUseException):
        eks.update_nodegroup_config(**NAMED, scalingConfig={"desiredSize": 0})
    (first,) = until(lambda: instances(cloud))

    def joined():
        return [body for _, path, body in cloud.requests if path == "/_rehearsal/join"]

    (asked,) = until(joined)
    assert asked["labels"] == {"specdecode/accelerator": "trn2", "eks.amazonaws.com/nodegroup": "trainium"}
    assert asked["taints"] == [{"key": TAINT["key"], "value": "true", "effect": "NoSchedule"}]
    cloud.client("ec2").terminate_instances(InstanceIds=[first])
    until(lambda: [name for name in instances(cloud) if name != first])  # as an Auto Scaling group replaces it
    resize(eks, 0)
    until(lambda: not instances(cloud))
    until(lambda: sum(path == "/_rehearsal/leave" for _, path, _ in cloud.requests) == 2)


def test_a_role_may_change_the_one_group_that_its_policy_names(cloud, eks):
    arn = eks.describe_nodegroup(**NAMED)["nodegroup"]["nodegroupArn"]
    pattern = f"{arn.rpartition('/')[0]}/*"
    cloud.function(
        "changes", CHANGER, [{"Effect": "Allow", "Action": "eks:UpdateNodegroupConfig", "Resource": pattern}]
    )
    answer = cloud.client("lambda").invoke(
        FunctionName="changes", Payload=json.dumps({"groups": ["trainium", "another"]})
    )
    found = json.loads(answer["Payload"].read())
    assert found["trainium"] in ("ok", "ResourceInUseException") and found["another"] == "AccessDeniedException"
