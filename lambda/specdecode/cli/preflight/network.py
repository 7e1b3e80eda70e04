"""A VPC of yours: problems of subnets, routes, addresses and endpoints that would make a deployment or a run fail."""

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from specdecode.cli.preflight.check import Ask, Check
from specdecode.experiment.deployment_facts import PODS_CALL, DeploymentFacts
from specdecode.experiment.kept import deploy_with
from specdecode.experiment.shapes import NodeShape

EKS_LEAST, EKS_WELL = 6, 16
"""Free addresses that EKS requires and that it recommends (eks/latest/userguide/network-reqs.html)."""
INTERFACES_FILLED = 2
"""The VPC CNI fills the interface that pods use and a spare one (WARM_ENI_TARGET=1; awslabs.github.io/ai-on-eks)."""
SYSTEM_NODES = 3
STAGING_ADDRESSES = 60
"""Addresses of an interface of the largest staging node (32 vCPUs)."""
FUNCTIONS = 4
"""Lambda's interfaces: one for each pair of subnet and security group (lambda/latest/dg/configuration-vpc.html)."""

OPTIONS = {"enableDnsSupport": "--enable-dns-support", "enableDnsHostnames": "--enable-dns-hostnames"}
"""Attribute of a VPC -> option of `aws ec2 modify-vpc-attribute` that sets it."""


def own(ask: Ask, wanted: NodeShape) -> Iterator[Check]:
    """The VPC of the settings and its subnets. Empty if the deployment makes its own."""
    facts, ec2 = ask.facts, ask.client("ec2")
    if facts.vpc is None:
        return

    def listed(operation: str, key: str, name: str = "vpc-id", values: Sequence[str] = (facts.vpc,)) -> list[Any]:
        pages = ec2.get_paginator(operation).paginate(Filters=[{"Name": name, "Values": [*values]}])
        return [item for page in pages for item in page[key]]

    vpcs = listed("describe_vpcs", "Vpcs")
    if not vpcs:
        fix = "look at `aws ec2 describe-vpcs`, and at account and region"
        yield Check("VPC", "fail", f"there is no {facts.vpc} in {ask.region}", fix)
        return
    ranges = [entry["CidrBlock"] for entry in vpcs[0].get("CidrBlockAssociationSet", ())] or [vpcs[0]["CidrBlock"]]
    attributes = {
        name: ec2.describe_vpc_attribute(VpcId=facts.vpc, Attribute=name)[name[0].upper() + name[1:]]["Value"]
        for name in OPTIONS
    }
    # By these the private endpoint of the cluster is found by its name (eks/latest/userguide/cluster-endpoint.html).
    if off := [name for name, is_on in attributes.items() if not is_on]:
        commands = "; ".join(f"aws ec2 modify-vpc-attribute --vpc-id {facts.vpc} {OPTIONS[name]}" for name in off)
        yield Check("VPC", "fail", f"{', '.join(off)} is off: nodes would not find the cluster's endpoint", commands)
    else:
        yield Check("VPC", "ok", f"{facts.vpc}, {', '.join(ranges)}")
    found = {item["SubnetId"]: item for item in listed("describe_subnets", "Subnets")}
    yield subnets(facts, found)
    ours = [found[name] for name in facts.subnets if name in found]
    yield from routes(ours, listed("describe_route_tables", "RouteTables"))
    types = sorted({facts.system_type, wanted.name})
    kinds = listed("describe_instance_types", "InstanceTypes", "instance-type", types)
    sizes = {item["InstanceType"]: item["NetworkInfo"]["Ipv4AddressesPerInterface"] for item in kinds}
    yield from addresses(ask, ours, sizes, wanted)
    yield reached(facts, listed("describe_vpc_endpoints", "VpcEndpoints"), ranges)


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
    return Check("subnets", "ok", ", ".join(map(" in ".join, zip(facts.subnets, real, strict=True))))


def routes(ours: Sequence[Mapping[str, Any]], tables: Sequence[Mapping[str, Any]]) -> Iterator[Check]:
    """Each subnet's way to the internet, and to S3. Its table is its own, or the VPC's main one."""
    links = [(table, link) for table in tables for link in table.get("Associations", ())]
    main = [table.get("Routes", ()) for table, link in links if link.get("Main")]
    without_gateway = []
    for name in (subnet["SubnetId"] for subnet in ours):
        own_one = [table.get("Routes", ()) for table, link in links if link.get("SubnetId") == name]
        table = [*own_one, *main, ()][0]
        yield way_out(f"way out of {name}", table)
        if not any(r.get("GatewayId", "").startswith("vpce-") and r.get("DestinationPrefixListId") for r in table):
            without_gateway.append(name)
    if without_gateway:
        detail = f"no gateway endpoint in the routes of {', '.join(without_gateway)}: every GB of weights passes NAT"
        yield Check("way to S3", "warn", detail, "add S3's gateway endpoint to these route tables: it costs nothing")
    elif ours:
        yield Check("way to S3", "ok", "by a gateway endpoint")


def way_out(name: str, table: Sequence[Mapping[str, Any]]) -> Check:
    """The route to the internet (NAT or the like): images, charts and models come from public registries."""
    fix = "name a subnet whose route table leads 0.0.0.0/0 to a NAT gateway or a transit gateway"
    route = next((route for route in table if route.get("DestinationCidrBlock") == "0.0.0.0/0"), None)
    if route is None:
        return Check(name, "fail", "no route to the internet: images, charts and models come from there", fix)
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


def reached(facts: DeploymentFacts, endpoints: Sequence[Mapping[str, Any]], ranges: Sequence[str]) -> Check:
    """Interface endpoints that answer to a service's public name. Pods may reach those that the settings name."""
    name = "interface endpoints"
    answering = [
        each["ServiceName"]
        for each in endpoints
        if each.get("VpcEndpointType") == "Interface" and each.get("PrivateDnsEnabled")
        if not each.get("DnsOptions", {}).get("PrivateDnsOnlyForInboundResolverEndpoint", False)
    ]
    there = {service for service in PODS_CALL if any(each.endswith(f".{service}") for each in answering)}
    if unnamed := sorted(there - set(facts.endpoints)):
        names = ",".join(sorted({*facts.endpoints, *unnamed}))
        detail = f"the VPC has {', '.join(unnamed)} with private DNS: pods would be led there, which they may not reach"
        return Check(name, "fail", detail, deploy_with({"interface_endpoints": names, "vpc_cidr": ranges[0]}))
    if absent := sorted(set(facts.endpoints) & set(PODS_CALL) - there):
        detail = f"the VPC has none with private DNS for {', '.join(absent)}: pods reach them by the internet"
        return Check(name, "warn", detail, "leave them out of interface_endpoints")
    given = ipaddress.IPv4Network(facts.vpc_cidr or "0.0.0.0/0")
    if there and not any(given.subnet_of(ipaddress.IPv4Network(each)) for each in ranges):
        detail = f"vpc_cidr is {facts.vpc_cidr}, which is not the VPC's: pods may not reach its endpoints"
        return Check(name, "fail", detail, deploy_with({"vpc_cidr": ranges[0]}))
    return Check(name, "ok", f"pods reach {', '.join(sorted(there))}" if there else "pods need none")
