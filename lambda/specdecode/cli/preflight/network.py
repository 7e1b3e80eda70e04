"""A VPC of yours: problems of subnets, routes, addresses and endpoints that would make a deployment or a run fail."""

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from specdecode.cli.preflight.check import Ask, Check
from specdecode.experiment.deployment_facts import PODS_CALL, DeploymentFacts
from specdecode.experiment.kept import deploy_with
from specdecode.experiment.shapes import NodeShape

EKS_LEAST, EKS_WELL = 6, 16
"""Free addresses of a subnet: those that EKS requires and those that it recommends
(eks/latest/userguide/network-reqs.html).
"""
INTERFACES_FILLED = 2
"""Network interfaces that the VPC CNI takes for each node: the one that pods use and a spare one, with all their
addresses (WARM_ENI_TARGET=1). So an m5.16xlarge with ten pods holds 100 addresses (awslabs.github.io/ai-on-eks, best
practices, networking).
"""
SYSTEM_NODES = 3
STAGING_ADDRESSES = 60
"""Addresses of an interface of the largest staging node (32 vCPUs)."""
FUNCTIONS = 4
"""Lambda's network interfaces: one for each pair of subnet and security group
(lambda/latest/dg/configuration-vpc.html).
"""

OPTIONS = {"enableDnsSupport": "--enable-dns-support", "enableDnsHostnames": "--enable-dns-hostnames"}
"""Attribute of a VPC -> option of `aws ec2 modify-vpc-attribute` that sets it."""


def own(ask: Ask, wanted: NodeShape) -> Iterator[Check]:
    """The VPC of the settings and its subnets. Empty if the deployment makes its own."""
    if ask.facts.vpc is None:
        return
    ec2, here = ask.client("ec2"), [{"Name": "vpc-id", "Values": [ask.facts.vpc]}]
    vpcs = ec2.describe_vpcs(Filters=here)["Vpcs"]
    if not vpcs:
        fix = "look at `aws ec2 describe-vpcs`, and at account and region"
        yield Check("VPC", "fail", f"there is no {ask.facts.vpc} in {ask.region}", fix)
        return
    names = {
        name: ec2.describe_vpc_attribute(VpcId=ask.facts.vpc, Attribute=name)[name[0].upper() + name[1:]]["Value"]
        for name in OPTIONS
    }
    yield vpc(ask.facts, vpcs[0], names)
    found = {item["SubnetId"]: item for page in _pages(ec2, "describe_subnets", here) for item in page["Subnets"]}
    yield subnets(ask.facts, found)
    ours = [found[name] for name in ask.facts.subnets if name in found]
    tables = [item for page in _pages(ec2, "describe_route_tables", here) for item in page["RouteTables"]]
    yield from routes(ours, tables)
    kinds = _pages(ec2, "describe_instance_types", _of(ask.facts.system_type, wanted.name))
    sizes = {
        item["InstanceType"]: item["NetworkInfo"]["Ipv4AddressesPerInterface"]
        for page in kinds
        for item in page["InstanceTypes"]
    }
    yield from addresses(ask, ours, sizes, wanted)
    endpoints = [item for page in _pages(ec2, "describe_vpc_endpoints", here) for item in page["VpcEndpoints"]]
    yield reached(ask.facts, endpoints, vpcs[0])


def _pages(ec2: Any, operation: str, filters: list[dict[str, Any]]) -> Iterator[Mapping[str, Any]]:
    yield from ec2.get_paginator(operation).paginate(Filters=filters)


def _of(*types: str) -> list[dict[str, Any]]:
    return [{"Name": "instance-type", "Values": sorted(set(types))}]


def vpc(facts: DeploymentFacts, item: Mapping[str, Any], names: Mapping[str, bool]) -> Check:
    """`names`: the attributes by which the private endpoint of the cluster is found by its name."""
    off = [attribute for attribute, is_on in names.items() if not is_on]
    if off:  # eks/latest/userguide/cluster-endpoint.html
        commands = "; ".join(f"aws ec2 modify-vpc-attribute --vpc-id {facts.vpc} {OPTIONS[name]}" for name in off)
        return Check("VPC", "fail", f"{', '.join(off)} is off: nodes would not find the cluster's endpoint", commands)
    return Check("VPC", "ok", f"{facts.vpc}, {', '.join(_ranges(item))}")


def _ranges(item: Mapping[str, Any]) -> list[str]:
    given = [entry["CidrBlock"] for entry in item.get("CidrBlockAssociationSet", ())]
    return given or [item["CidrBlock"]]


def subnets(facts: DeploymentFacts, found: Mapping[str, Mapping[str, Any]]) -> Check:
    """Whether each subnet exists, in the zone that the settings say."""
    absent = [name for name in facts.subnets if name not in found]
    if absent:
        there = ", ".join(f"{name} in {item['AvailabilityZoneId']}" for name, item in sorted(found.items()))
        return Check("subnets", "fail", f"{facts.vpc} has no {', '.join(absent)}", f"it has {there or 'none'}")
    real = [found[name]["AvailabilityZoneId"] for name in facts.subnets]
    if real != list(facts.zones):
        detail = f"the zones of subnet_ids are {','.join(real)}, the settings say {','.join(facts.zones)}"
        return Check("subnets", "fail", detail, deploy_with({"availability_zones": ",".join(real)}))
    return Check(
        "subnets", "ok", ", ".join(f"{name} in {zone}" for name, zone in zip(facts.subnets, real, strict=True))
    )


def routes(ours: Sequence[Mapping[str, Any]], tables: Sequence[Mapping[str, Any]]) -> Iterator[Check]:
    """Each subnet's way to the internet, and to S3."""
    without_gateway = []
    for subnet in ours:
        name, table = subnet["SubnetId"], table_of(subnet["SubnetId"], tables)
        yield way_out(name, table)
        if not any(
            route.get("GatewayId", "").startswith("vpce-") and route.get("DestinationPrefixListId")
            for route in table.get("Routes", ())
        ):
            without_gateway.append(name)
    if without_gateway:
        detail = f"no gateway endpoint in the routes of {', '.join(without_gateway)}: every GB of weights passes NAT"
        yield Check("way to S3", "warn", detail, "add S3's gateway endpoint to these route tables: it costs nothing")
    elif ours:
        yield Check("way to S3", "ok", "by a gateway endpoint")


def table_of(subnet: str, tables: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The route table of a subnet: its own, or the VPC's main one."""
    associations = [(table, link) for table in tables for link in table.get("Associations", ())]
    own_one = [table for table, link in associations if link.get("SubnetId") == subnet]
    return next(iter([*own_one, *(table for table, link in associations if link.get("Main"))]), {})


def way_out(subnet: str, table: Mapping[str, Any]) -> Check:
    """Whether there is a route to the internet (NAT or the like): images, charts and models come from public
    registries.
    """
    name = f"way out of {subnet}"
    default = [route for route in table.get("Routes", ()) if route.get("DestinationCidrBlock") == "0.0.0.0/0"]
    fix = "name a subnet whose route table leads 0.0.0.0/0 to a NAT gateway or a transit gateway"
    if not default:
        return Check(name, "fail", "no route to the internet: images, charts and models come from there", fix)
    (route,) = default
    target = next((str(route[key]) for key in sorted(route) if key.endswith(("GatewayId", "InterfaceId", "Arn"))), "?")
    if route.get("State") == "blackhole":
        return Check(name, "fail", f"its route to the internet leads nowhere: {target} is gone", fix)
    if target.startswith("igw-"):
        detail = f"it is a public subnet ({target}): functions and nodes there have no public address"
        return Check(name, "fail", detail, fix)
    return Check(name, "ok", f"by {target}")


def addresses(
    ask: Ask, ours: Sequence[Mapping[str, Any]], sizes: Mapping[str, int], wanted: NodeShape
) -> Iterator[Check]:
    """Compares free addresses of each subnet with what may need them. `sizes`: type -> addresses an interface."""
    for subnet in ours:
        holds_node = subnet["AvailabilityZoneId"] in (ask.facts.node_zones if wanted.has_devices else ask.facts.zones)
        holds_node = holds_node and ask.facts.describes_nodes
        node = INTERFACES_FILLED * sizes.get(wanted.name, 0) if holds_node else 0
        running = SYSTEM_NODES * INTERFACES_FILLED * sizes.get(ask.facts.system_type, 0) + FUNCTIONS + EKS_WELL
        well = node + STAGING_ADDRESSES + (0 if ask.deployed else running)
        least = max(node, EKS_LEAST)
        if ask.facts.existing:  # only functions of ours come to stand there, and nodes that runs hold
            well = least = node + FUNCTIONS
        free, name = subnet["AvailableIpAddressCount"], f"addresses in {subnet['SubnetId']}"
        fix = "free some, name a larger subnet, or have the VPC CNI keep fewer (WARM_IP_TARGET)"
        if free < least:
            yield Check(name, "fail", f"{free} free, and what comes to stand there at once takes {least}", fix)
        elif free < well:
            yield Check(name, "warn", f"{free} free; {well} if all that may comes to stand there at once", fix)
        else:
            yield Check(name, "ok", f"{free} free, {well} needed at most")


def reached(facts: DeploymentFacts, endpoints: Sequence[Mapping[str, Any]], item: Mapping[str, Any]) -> Check:
    """Interface endpoints that answer to a service's public name. Pods may reach those that the settings name."""
    there = {service for service in PODS_CALL if any(_answers(endpoint, service) for endpoint in endpoints)}
    unnamed = sorted(there - set(facts.endpoints))
    if unnamed:
        names = ",".join(sorted({*facts.endpoints, *unnamed}))
        detail = f"the VPC has {', '.join(unnamed)} with private DNS: pods would be led there, which they may not reach"
        fix = deploy_with({"interface_endpoints": names, "vpc_cidr": _ranges(item)[0]})
        return Check("interface endpoints", "fail", detail, fix)
    absent = sorted(set(facts.endpoints) & set(PODS_CALL) - there)
    if absent:
        detail = f"the VPC has none with private DNS for {', '.join(absent)}: pods reach them by the internet"
        return Check("interface endpoints", "warn", detail, "leave them out of interface_endpoints")
    ranges = [ipaddress.ip_network(text) for text in _ranges(item)]
    given = ipaddress.ip_network(facts.vpc_cidr or "0.0.0.0/0")
    if there and not any(given.subnet_of(one) for one in ranges):  # type: ignore[arg-type]
        detail = f"vpc_cidr is {facts.vpc_cidr}, which is not the VPC's: pods may not reach its endpoints"
        return Check("interface endpoints", "fail", detail, deploy_with({"vpc_cidr": str(ranges[0])}))
    return Check("interface endpoints", "ok", f"pods reach {', '.join(sorted(there))}" if there else "pods need none")


def _answers(endpoint: Mapping[str, Any], service: str) -> bool:
    """Whether the public names of `service` lead to this endpoint inside the VPC."""
    only_inbound = endpoint.get("DnsOptions", {}).get("PrivateDnsOnlyForInboundResolverEndpoint", False)
    return bool(
        endpoint.get("VpcEndpointType") == "Interface"
        and endpoint.get("PrivateDnsEnabled")
        and not only_inbound
        and endpoint["ServiceName"].endswith(f".{service}")
    )
