"""A VPC that exists: nothing of a network is made, and all that stands in one stands there."""

from collections import Counter

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.json import JSONSnapshotExtension

from tests.conftest import STACKS, Assembly, synthesize
from tests.stacks.test_iam_lint import assert_explained
from tests.templates import Templates

pytestmark = pytest.mark.synth
VPC, SUBNETS = "vpc-0123456789abcdef0", ("subnet-0123456789abcdef0", "subnet-0123456789abcdef1")
OF_A_NETWORK = {
    *(f"AWS::EC2::{kind}" for kind in ("VPC", "Subnet", "RouteTable", "Route", "SubnetRouteTableAssociation")),
    *(f"AWS::EC2::{kind}" for kind in ("InternetGateway", "VPCGatewayAttachment", "NatGateway", "EIP", "FlowLog")),
    "AWS::EC2::VPCEndpoint",
}


@pytest.fixture(scope="module")
def yours(tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    return synthesize(
        tmp_path_factory.mktemp("yours"),
        vpc_id=VPC,
        subnet_ids=",".join(SUBNETS),
        availability_zones="use2-az1,use2-az3",
        vpc_cidr="172.31.0.0/16",
        capacity_zones="use2-az3",
        interface_endpoints="s3",
        accept_no_alerts="true",
    )


@pytest.fixture(scope="module")
def stands(yours: Assembly) -> Templates:
    return yours.templates()


def test_nothing_of_a_network_is_made(assembly: Assembly, yours: Assembly, stands: Templates) -> None:
    assert not {resource["Type"] for _, _, resource in stands.resources()} & OF_A_NETWORK
    made = {resource["Type"] for stack in STACKS for resource in assembly.raw(stack)["Resources"].values()}
    assert made >= OF_A_NETWORK, "else the line above looks for nothing"


@pytest.mark.parametrize("stack", STACKS)
def test_what_is_made(yours: Assembly, snapshot: SnapshotAssertion, stack: str) -> None:
    found = Counter(resource["Type"] for resource in yours.raw(stack)["Resources"].values())
    assert dict(sorted(found.items())) == snapshot(extension_class=JSONSnapshotExtension)


def test_nobody_is_asked_and_nothing_is_unexplained(yours: Assembly) -> None:
    assert_explained(yours)


def test_everything_stands_in_it(stands: Templates) -> None:
    groups = stands.properties("AWS::EC2::SecurityGroup")
    assert groups and {group["VpcId"] for group in groups.values()} == {VPC}
    (cluster,) = stands.properties("AWS::EKS::Cluster").values()
    (nodes,) = stands.properties("AWS::EKS::Nodegroup").values()
    assert tuple(cluster["ResourcesVpcConfig"]["SubnetIds"]) == tuple(nodes["Subnets"]) == SUBNETS
    functions = [f["VpcConfig"] for f in stands.properties("AWS::Lambda::Function").values() if "VpcConfig" in f]
    assert functions and {tuple(config["SubnetIds"]) for config in functions} == {SUBNETS}


def test_nodes_start_in_its_subnets_which_karpenter_finds_by_id(stands: Templates) -> None:
    classes = [obj["spec"] for obj in stands.manifests().values() if obj["kind"] == "EC2NodeClass"]
    assert len(classes) == 4
    assert all(spec["subnetSelectorTerms"] == [{"id": subnet} for subnet in SUBNETS] for spec in classes)
    for name, zones in (("trn2", ["use2-az3"]), ("cpu", ["use2-az1", "use2-az3"])):
        requirements = stands.manifest("NodePool", name)["spec"]["template"]["spec"]["requirements"]
        assert {"key": "topology.k8s.aws/zone-id", "operator": "In", "values": zones} in requirements


def test_pods_reach_its_endpoints(stands: Templates) -> None:
    policy = stands.manifest("NetworkPolicy", "specdecode-vpc-endpoints-carriers")
    assert policy["spec"]["egress"][0]["to"] == [{"ipBlock": {"cidr": "172.31.0.0/16"}}]


def test_its_network_costs_nothing_more(templates: Templates, stands: Templates) -> None:
    def at_rest(found: Templates) -> float:
        return float(found.stacks["SpecDecodeStack"]["Outputs"]["HourlyCost"]["Value"].split()[0])

    assert at_rest(stands) == pytest.approx(at_rest(templates) - 0.05, abs=0.011), "a NAT gateway and its address"
