"""A managed node group: changes of its size are checked as strictly as by EKS."""

import pytest

from .conftest import allow_all

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
