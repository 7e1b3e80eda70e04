"""A VPC of yours: everything that would make a deployment there fail is said with what to do."""

from typing import Any

import pytest
from specdecode.cli.preflight import network
from specdecode.cli.preflight.check import Check
from specdecode.experiment.deployment_facts import ExistingCluster
from specdecode.experiment.kept import deploy_with
from specdecode.experiment.shapes import SHAPES

from tests.specdecode.cli.preflight.aws import Aws, verdicts

VPC, ONE, TWO = "vpc-0123456789abcdef0", "subnet-0123456789abcdef1", "subnet-0123456789abcdef2"
TRN2 = SHAPES["trn2.48xlarge"]
NAT = {"DestinationCidrBlock": "0.0.0.0/0", "NatGatewayId": "nat-1", "State": "active"}
S3 = {"DestinationPrefixListId": "pl-1", "GatewayId": "vpce-1", "State": "active"}


def subnet(name: str, zone: str, free: int = 4000) -> dict[str, Any]:
    return {"SubnetId": name, "AvailabilityZoneId": zone, "AvailableIpAddressCount": free, "VpcId": VPC}


def table(*routes: dict[str, Any], **association: Any) -> dict[str, Any]:
    return {
        "Routes": [{"DestinationCidrBlock": "10.9.0.0/16", "GatewayId": "local"}, *routes],
        "Associations": [association],
    }


def endpoint(service: str, **more: Any) -> dict[str, Any]:
    known = {"VpcEndpointType": "Interface", "PrivateDnsEnabled": True}
    return {"ServiceName": f"com.amazonaws.us-east-2.{service}", **known, **more}


def world(**answers: Any) -> Aws:
    sizes = {"trn2.48xlarge": 50, "m7i.xlarge": 15}
    return Aws(
        **{
            "DescribeVpcs": {"Vpcs": [{"VpcId": VPC, "CidrBlock": "10.9.0.0/16"}]},
            "DescribeVpcAttribute": {"EnableDnsSupport": {"Value": True}, "EnableDnsHostnames": {"Value": True}},
            "DescribeSubnets": {"Subnets": [subnet(ONE, "use2-az1"), subnet(TWO, "use2-az2")]},
            "DescribeRouteTables": {"RouteTables": [table(NAT, S3, Main=True)]},
            "DescribeInstanceTypes": {
                "InstanceTypes": [
                    {"InstanceType": name, "NetworkInfo": {"Ipv4AddressesPerInterface": size}}
                    for name, size in sizes.items()
                ]
            },
            "DescribeVpcEndpoints": {"VpcEndpoints": []},
        }
        | answers
    )


def own(aws: Aws, *, deployed: bool = False, **facts: Any) -> dict[str, Check]:
    given = {"vpc": VPC, "subnets": (ONE, TWO), "zones": ("use2-az1", "use2-az2"), "vpc_cidr": "10.9.0.0/16", **facts}
    return {check.name: check for check in network.own(aws.ask(deployed=deployed, **given), TRN2)}


def test_a_network_in_which_nothing_would_fail():
    assert set(verdicts(own(world()).values()).values()) == {"ok"}


def test_without_a_vpc_of_yours_nobody_is_asked():
    aws = world()
    assert list(network.own(aws.ask(), TRN2)) == [] and aws.asked == []


def test_a_vpc_that_is_not_there():
    found = own(world(DescribeVpcs={"Vpcs": []}))
    assert list(found) == ["VPC"] and found["VPC"].verdict == "fail" and VPC in found["VPC"].detail


def test_names_must_be_resolved_in_the_vpc():
    off = {"EnableDnsSupport": {"Value": True}, "EnableDnsHostnames": {"Value": False}}
    check = own(world(DescribeVpcAttribute=off))["VPC"]
    assert check.verdict == "fail"
    assert check.fix == f"aws ec2 modify-vpc-attribute --vpc-id {VPC} --enable-dns-hostnames"


def test_a_subnet_of_another_vpc_and_a_wrong_zone():
    found = own(world(DescribeSubnets={"Subnets": [subnet(ONE, "use2-az1")]}))
    assert found["subnets"].verdict == "fail" and TWO in found["subnets"].detail
    check = own(world(), zones=("use2-az2", "use2-az1"))["subnets"]
    assert check.verdict == "fail" and check.fix == deploy_with({"availability_zones": "use2-az1,use2-az2"})


@pytest.mark.parametrize(
    ("route", "words"),
    [
        (None, "no route to the internet"),
        ({**NAT, "State": "blackhole"}, "nat-1 is gone"),
        ({"DestinationCidrBlock": "0.0.0.0/0", "GatewayId": "igw-1", "State": "active"}, "public subnet (igw-1)"),
    ],
)
def test_a_subnet_without_a_way_out(route, words):
    """The second subnet has a table of its own, the first has the main one."""
    tables = [table(NAT, S3, Main=True), table(*([route] if route else []), S3, SubnetId=TWO, Main=False)]
    found = own(world(DescribeRouteTables={"RouteTables": tables}))
    assert found[f"way out of {ONE}"].verdict == "ok"
    check = found[f"way out of {TWO}"]
    assert check.verdict == "fail" and words in check.detail and "NAT gateway" in check.fix


@pytest.mark.parametrize(
    "way",
    [
        {"TransitGatewayId": "tgw-1"},
        {"NetworkInterfaceId": "eni-1", "InstanceId": "i-1"},
        {"GatewayId": "vpce-firewall"},
        {"CoreNetworkArn": "arn:aws:networkmanager::1:core-network/c"},
    ],
)
def test_other_ways_out_are_taken_for_what_they_are(way):
    route = {"DestinationCidrBlock": "0.0.0.0/0", "State": "active", **way}
    found = own(world(DescribeRouteTables={"RouteTables": [table(route, Main=True)]}))
    assert found[f"way out of {ONE}"].verdict == "ok"
    assert found["way to S3"].verdict == "warn", "a firewall's endpoint is no way to S3"


def test_addresses_for_a_node_are_needed_and_for_all_at_once_wished():
    """A trn2 node takes two interfaces of 50 addresses, in the zones where it may start."""
    few = {"Subnets": [subnet(ONE, "use2-az1", 99), subnet(TWO, "use2-az2", 99)]}
    found = own(world(DescribeSubnets=few), node_zones=("use2-az1",))
    assert found[f"addresses in {ONE}"].verdict == "fail" and "takes 100" in found[f"addresses in {ONE}"].detail
    assert found[f"addresses in {TWO}"].verdict == "warn"
    some = {"Subnets": [subnet(ONE, "use2-az1", 200), subnet(TWO, "use2-az2", 200)]}
    assert own(world(DescribeSubnets=some))[f"addresses in {ONE}"].verdict == "warn"
    assert own(world(DescribeSubnets=some), deployed=True)[f"addresses in {ONE}"].verdict == "ok", "ours stand already"


def test_in_a_cluster_of_yours_addresses_are_needed_for_functions_and_for_nodes_that_are_made():
    given = {"endpoint": "https://e", "security_group": "sg-1", "issuer": "https://i"}
    few = {"Subnets": [subnet(ONE, "use2-az1", 50), subnet(TWO, "use2-az2", 50)]}
    there = own(world(DescribeSubnets=few), existing=ExistingCluster(**given), node_zones=("use2-az1",))
    assert there[f"addresses in {ONE}"].verdict == "ok", "nodes are simply there"
    made = ExistingCluster(**given, node_role="r")
    found = own(world(DescribeSubnets=few), existing=made, node_zones=("use2-az1",))
    assert found[f"addresses in {ONE}"].verdict == "fail" and found[f"addresses in {TWO}"].verdict == "ok"


def test_endpoints_that_pods_are_led_to_must_be_named_with_their_range():
    named = {"VpcEndpoints": [endpoint("sts"), endpoint("s3"), endpoint("ecr.dkr")]}
    check = own(world(DescribeVpcEndpoints=named), endpoints=("sts",))["interface endpoints"]
    assert (check.verdict, check.fix) == (
        "fail",
        deploy_with({"interface_endpoints": "s3,sts", "vpc_cidr": "10.9.0.0/16"}),
    )
    both = {"endpoints": ("sts", "s3")}
    assert own(world(DescribeVpcEndpoints=named), **both)["interface endpoints"].verdict == "ok"
    elsewhere = own(world(DescribeVpcEndpoints=named), vpc_cidr="10.0.0.0/16", **both)["interface endpoints"]
    assert (elsewhere.verdict, elsewhere.fix) == ("fail", deploy_with({"vpc_cidr": "10.9.0.0/16"}))
    assert own(world(), endpoints=("sts",))["interface endpoints"].verdict == "warn"


@pytest.mark.parametrize(
    "more",
    [
        {"PrivateDnsEnabled": False},
        {"VpcEndpointType": "Gateway"},
        {"DnsOptions": {"PrivateDnsOnlyForInboundResolverEndpoint": True}},
    ],
)
def test_endpoints_to_which_no_public_name_leads_do_not_matter(more):
    found = own(world(DescribeVpcEndpoints={"VpcEndpoints": [endpoint("s3", **more)]}))
    assert found["interface endpoints"].verdict == "ok"
