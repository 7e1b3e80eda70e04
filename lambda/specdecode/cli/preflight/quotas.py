"""Compares service quotas (of `aws service-quotas list-service-quotas`) with what a deployment and a run take."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from specdecode import names
from specdecode.cli.preflight.check import Ask, Check, unless
from specdecode.experiment.shapes import COMPILER, COMPILERS, NodeShape
from specdecode.kubernetes.pools import NODEPOOL_LABEL

SYSTEM_NODES = 2
STAGING_VCPUS = 4
"""vCPUs of the smallest staging node."""
STANDARD_FAMILIES = "acdhimrtz"
"""First letters of the families that the quota of standard instances counts."""
NOT_STANDARD = frozenset({"dl", "hpc", "inf", "mac", "trn"})
NEW_ACCOUNT_CONCURRENCY = 10


@dataclass(frozen=True)
class Quota:
    """A quota of Service Quotas."""

    service: str
    code: str
    name: str


TRN = Quota("ec2", "L-2C3B7624", "Running On-Demand Trn instances")
STANDARD = Quota("ec2", "L-1216C47A", "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances")
ADDRESSES = Quota("ec2", "L-0263D0A3", "EC2-VPC Elastic IPs")
VPCS = Quota("vpc", "L-F678F1CE", "VPCs per Region")
NAT_GATEWAYS = Quota("vpc", "L-FE5A380F", "NAT gateways per Availability Zone")


def limit(client: Callable[[str], Any], quota: Quota) -> float:
    """The account's value; AWS's default if the account has none."""
    quotas, given = client("service-quotas"), {"ServiceCode": quota.service, "QuotaCode": quota.code}
    found = unless("NoSuchResourceException", lambda: quotas.get_service_quota(**given))
    return float((found or quotas.get_aws_default_service_quota(**given))["Quota"]["Value"])


def judged(ask: Ask, name: str, quota: Quota, *, used: float, needed: float, unit: str = "vCPUs") -> Check:
    """Whether `needed` fits into the quota beside `used`, which others use."""
    value = limit(ask.client, quota)
    detail = f"{value:g} {unit}, {used:g} in use by others, {needed:g} needed"
    if used + needed <= value:
        return Check(name, "ok", detail)
    fix = f'ask for {used + needed:g} in Service Quotas: {quota.service}, "{quota.name}" ({quota.code})'
    return Check(name, "fail", detail, fix)


def kind(instance_type: str) -> str | None:
    """`trn` or `standard`: the quota that counts the vCPUs of an instance type. None for all other types."""
    family = re.match(r"[a-z]+", instance_type)
    if family is None:
        return None
    if family[0] == "trn":
        return "trn"
    return "standard" if family[0][0] in STANDARD_FAMILIES and family[0] not in NOT_STANDARD else None


def vcpus_in_use(
    instances: list[Mapping[str, Any]], *, cluster: str, foreign: bool = False, group: str | None = None
) -> Counter[str]:
    """On-demand vCPUs by `kind` beside the cluster's own: in a `foreign` one those of our NodePools or of `group`."""
    found: Counter[str] = Counter()
    for instance in instances:
        tags = {tag["Key"]: tag["Value"] for tag in instance.get("Tags", ())}
        ours = cluster in (tags.get("eks:eks-cluster-name"), tags.get("eks:cluster-name"))
        is_held = tags.get(NODEPOOL_LABEL, "").startswith(names.FOREIGN_PREFIX)
        is_held = is_held or (group is not None and tags.get(names.GROUP_TAGS[1]) == group)
        ours = ours and (not foreign or is_held)
        counted = kind(instance["InstanceType"])
        if counted and not ours and instance.get("InstanceLifecycle") not in ("spot", "capacity-block"):
            options = instance["CpuOptions"]
            found[counted] += options["CoreCount"] * options["ThreadsPerCore"]
    return found


def instances(client: Callable[[str], Any]) -> list[Mapping[str, Any]]:
    """Every instance that runs or starts."""
    states = {"Name": "instance-state-name", "Values": ["pending", "running"]}
    pages = client("ec2").get_paginator("describe_instances").paginate(Filters=[states])
    return [item for page in pages for group in page["Reservations"] for item in group["Instances"]]


def vcpus(ask: Ask, wanted: NodeShape, *, compiles: int = 0) -> Iterator[Check]:
    """For system nodes, a staging node, the experiment's nodes without a reservation, and `compiles` on COMPILERS."""
    foreign = ask.facts.existing is not None
    group = ask.facts.existing.node_group if ask.facts.existing else None
    used = vcpus_in_use(instances(ask.client), cluster=ask.facts.cluster, foreign=foreign, group=group)
    if wanted.has_devices and ask.facts.reservation is None:
        nodes = ask.facts.nodes
        name = f"vCPUs for {f'{nodes} x ' if nodes > 1 else ''}{wanted.name}"
        yield judged(ask, name, TRN, used=used["trn"], needed=nodes * wanted.vcpus)
    if foreign:  # other nodes than those that runs hold are not ours to count
        if not wanted.has_devices:
            yield judged(ask, f"vCPUs for {wanted.name}", STANDARD, used=used["standard"], needed=wanted.vcpus)
        return
    (system,) = ask.client("ec2").describe_instance_types(InstanceTypes=[ask.facts.system_type])["InstanceTypes"]
    needed = SYSTEM_NODES * system["VCpuInfo"]["DefaultVCpus"] + STAGING_VCPUS
    needed += 0 if wanted.has_devices else wanted.vcpus
    needed += max(0, min(compiles, COMPILERS) * COMPILER.vcpus - STAGING_VCPUS)
    name = "vCPUs for system and staging" + ("" if wanted.has_devices else f" and {wanted.name}")
    name += " and compiling" if compiles else ""
    yield judged(ask, name, STANDARD, used=used["standard"], needed=needed)


def network(ask: Ask) -> Iterator[Check]:
    """A VPC, its NAT gateways and their addresses. Checked before the first deployment only: after it they exist."""
    ec2, wanted = ask.client("ec2"), ask.facts.nat_gateways
    vpcs = sum(len(page["Vpcs"]) for page in ec2.get_paginator("describe_vpcs").paginate())
    yield judged(ask, "VPCs", VPCS, used=vpcs, needed=1, unit="in the region")
    addresses = len(ec2.describe_addresses()["Addresses"])
    yield judged(ask, "Elastic IPs", ADDRESSES, used=addresses, needed=wanted, unit="in the region")
    alive = {"Name": "state", "Values": ["pending", "available", "deleting"]}
    pages = ec2.get_paginator("describe_nat_gateways").paginate(Filter=[alive])
    gateways = [gateway for page in pages for gateway in page["NatGateways"]]
    subnets = [gateway["SubnetId"] for gateway in gateways if "SubnetId" in gateway]  # a regional one is in no subnet
    found = ec2.describe_subnets(SubnetIds=sorted(set(subnets)))["Subnets"] if subnets else []
    zone_of = {subnet["SubnetId"]: subnet["AvailabilityZoneId"] for subnet in found}
    per_zone = Counter(zone_of[subnet] for subnet in subnets)
    fullest = max((per_zone[zone] for zone in ask.facts.zones[:wanted]), default=0)
    yield judged(ask, "NAT gateways", NAT_GATEWAYS, used=fullest, needed=1, unit="in a zone")


def functions(ask: Ask) -> Iterator[Check]:
    """Of Lambda: a new account has 10. A deployment starts four kubectl resources at once, each of two functions."""
    limits = ask.client("lambda").get_account_settings()["AccountLimit"]
    unreserved = limits["UnreservedConcurrentExecutions"]
    name = "Lambda concurrency"
    detail = f"{limits['ConcurrentExecutions']} concurrent executions, {unreserved} not reserved"
    fix = 'ask for 1000 in Service Quotas: lambda, "Concurrent executions" (L-B99A9384)'
    if unreserved < NEW_ACCOUNT_CONCURRENCY:
        yield Check(name, "fail", f"{detail}: a deployment needs {NEW_ACCOUNT_CONCURRENCY}", fix)
    elif unreserved == NEW_ACCOUNT_CONCURRENCY:
        yield Check(name, "warn", f"{detail}: a new account's, enough while no other function runs", fix)
    else:
        yield Check(name, "ok", detail)
