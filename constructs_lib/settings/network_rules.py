"""What the settings of the network must satisfy, for a VPC of yours and for one that is made. Pure checks, one line a
problem.
"""

import ipaddress
import re
from collections.abc import Iterator

from constructs_lib.settings.fields import Settings

INTERFACE_ENDPOINTS = ("sts", "logs", "monitoring", "ec2", "sqs", "states", "lambda")
"""Services of which the network can have an interface endpoint."""
OF_YOURS = (*INTERFACE_ENDPOINTS, "s3")
"""Those that a VPC of yours may have. Ours has S3's gateway endpoint, which costs nothing."""
SUBNET = re.compile(r"subnet-[0-9a-f]{8,17}")


def problems(settings: Settings) -> Iterator[str]:
    """Every problem of addresses, endpoints, and of a VPC that exists."""
    yield from _range(settings)
    allowed = OF_YOURS if settings.vpc_id else INTERFACE_ENDPOINTS
    for name in sorted(set(settings.interface_endpoints) - set(allowed)):
        yield f"interface_endpoints: {name} is not one of {', '.join(allowed)}"
    if settings.vpc_id:
        yield from _subnets(settings)
        if settings.nat_gateways != 1:
            yield "nat_gateways: none is made in a VPC of yours; leave it out"
    elif settings.subnet_ids:
        yield "subnet_ids: say whose they are with vpc_id"


def number_of_zones(settings: Settings) -> Iterator[str]:
    """Two zones at least, which EKS needs; in our own network three at most."""
    count = len(set(settings.zones))
    if settings.vpc_id and count < 2:
        yield f"availability_zones: EKS needs subnets in two zones, not {count}; with vpc_id, name each subnet's zone"
    elif not settings.vpc_id and not 2 <= count <= 3:
        yield f"availability_zones: EKS needs two zones and the network has room for three, not {len(settings.zones)}"


def _range(settings: Settings) -> Iterator[str]:
    smallest = 28 if settings.vpc_id else 20
    try:
        prefix = ipaddress.IPv4Network(settings.vpc_cidr).prefixlen
        if not 16 <= prefix <= smallest:
            yield f"vpc_cidr: {settings.vpc_cidr} must be between /16 and /{smallest}"
    except ValueError as error:
        yield f"vpc_cidr: {error}"


def _subnets(settings: Settings) -> Iterator[str]:
    subnets, zones = settings.subnet_ids, settings.availability_zones
    look = (
        f"`aws ec2 describe-subnets --region {settings.region} --filters Name=vpc-id,Values={settings.vpc_id} "
        "--query 'Subnets[].[SubnetId,AvailabilityZoneId,AvailableIpAddressCount,Tags]'` lists them (by tag: add "
        "Name=tag:KEY,Values=VALUE)"
    )
    if not subnets:
        yield f"subnet_ids: name private subnets of {settings.vpc_id}, one in each of two zones or more; {look}"
        return
    for subnet in subnets:
        if not SUBNET.fullmatch(subnet):
            yield f"subnet_ids: {subnet} is no subnet's id such as subnet-0123456789abcdef0"
    if len(set(subnets)) < max(2, len(subnets)):
        yield f"subnet_ids: EKS needs two subnets or more, each named once, in two zones; {look}"
    if not zones:
        yield f"availability_zones: name the zone of each of subnet_ids, in their order; {look}"
    elif len(zones) != len(subnets) or len(set(zones)) != len(zones):
        yield (
            f"availability_zones: one subnet a zone: {len(subnets)} subnet_ids and {len(set(zones))} zones given; "
            f"name each subnet's zone in the same order; {look}"
        )
