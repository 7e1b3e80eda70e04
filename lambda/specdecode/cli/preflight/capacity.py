"""Where nodes come from: zones, reservation, its window, which runs hold them; and service quotas, by the codes of
`aws service-quotas list-service-quotas`.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from specdecode import names
from specdecode.cli.preflight.check import Ask, Check, unless
from specdecode.cli.runs_view import clock
from specdecode.experiment.capacity import DRAIN_BEFORE_BLOCK_END_MINUTES
from specdecode.experiment.deployment_facts import EKS_REFUSES, DeploymentFacts
from specdecode.experiment.kept import deploy_with
from specdecode.experiment.shapes import COMPILER, COMPILERS, NodeShape
from specdecode.kubernetes.pools import NODEPOOL_LABEL
from specdecode.runs.lease import Lease

USABLE, COMING = frozenset({"active"}), frozenset({"assessing", "delayed", "payment-pending", "pending", "scheduled"})
"""States of a capacity reservation that can still be used. All other states mean that it is over or was never made."""


def shape(facts: DeploymentFacts, wanted: NodeShape) -> Iterator[Check]:
    """Whether the deployment has nodes of the experiment's shape (without devices: always); and how many."""
    if wanted.has_devices and facts.node != wanted.name:
        detail = f"the experiment is for a {wanted.name}, and the deployment's node is a {facts.node}"
        yield Check("node type", "fail", detail, deploy_with({"node_type": wanted.name}))
    if facts.nodes > 1:
        price = "" if facts.node_price is None else f", {facts.nodes * facts.node_price:.2f} USD an hour together"
        yield Check("nodes", "ok", f"up to {facts.nodes} x {facts.node} at once, one a run{price}")


def zones(ask: Ask, wanted: NodeShape) -> Iterator[Check]:
    """The network's zones, and those that offer the node. The settings' rules have refused those that EKS refuses."""
    ec2, facts = ask.client("ec2"), ask.facts
    found = ec2.describe_availability_zones(Filters=[{"Name": "zone-type", "Values": ["availability-zone"]}])
    known = {zone["ZoneId"]: zone["ZoneName"] for zone in found["AvailabilityZones"] if zone["State"] == "available"}
    offered = ec2.get_paginator("describe_instance_type_offerings").paginate(
        LocationType="availability-zone-id", Filters=[{"Name": "instance-type", "Values": [wanted.name]}]
    )
    having = {item["Location"] for page in offered for item in page["InstanceTypeOfferings"]}
    usable = ",".join(sorted(zone for zone in known if zone not in EKS_REFUSES)[:3])
    fix = "name the zones of subnet_ids, by id" if facts.vpc else deploy_with({"availability_zones": usable})
    if unknown := [zone for zone in facts.zones if zone not in known]:
        yield Check("zones", "fail", f"this account has no {', '.join(unknown)} in {facts.region}", fix)
    else:
        yield Check("zones", "ok", ", ".join(f"{zone} ({known[zone]})" for zone in facts.zones))
    name, where = f"zones of {wanted.name}", facts.node_zones if wanted.has_devices else facts.zones
    both, missing = ([zone for zone in where if (zone in having) == is_in] for is_in in (True, False))
    there = ",".join(sorted(having))
    if not missing:
        yield Check(name, "ok", f"offered in {', '.join(both)}")
    elif not having:
        seen = f"it has been seen in {', '.join(wanted.zones)}" if wanted.zones else "most do"
        yield Check(name, "fail", f"no zone of {facts.region} offers it", f"deploy in a region that does: {seen}")
    else:
        fix = f"it starts in {', '.join(both)}" if both else deploy_with({"availability_zones": there})
        fix = deploy_with({"capacity_zones": there, "trn2_zones": there}) if wanted.has_devices else fix
        yield Check(name, "warn" if both else "fail", f"not offered in {', '.join(missing)}, but in {there}", fix)


def reservation(ask: Ask, lease: Lease | None) -> Iterator[Check]:
    """The Capacity Block or the On-Demand Capacity Reservation of the settings, and its window."""
    wanted = ask.facts.reservation
    if wanted is None:
        return
    ec2 = ask.client("ec2")
    found = unless(
        "InvalidCapacityReservationId", lambda: ec2.describe_capacity_reservations(CapacityReservationIds=[wanted])
    )
    if not found or not (items := found["CapacityReservations"]):
        look = f"`aws ec2 describe-capacity-reservations --region {ask.region}`"
        fix = f"find one that is: {look}; {deploy_with({'capacity_reservation_id': 'ID'})}"
        yield Check("reservation", "fail", f"there is no {wanted} in {ask.region}", fix)
        return
    item, facts, held = items[0], ask.facts, 0 if lease is None else len(lease.holders_of(names.NODEPOOL))
    state, free, zone = item["State"], item["AvailableInstanceCount"], item.get("AvailabilityZoneId")
    total = item["TotalInstanceCount"]
    block = item.get("ReservationType") == "capacity-block"
    detail = f"{'Capacity Block' if block else 'reservation'} {facts.reservation} is {state}, "
    detail += f"{free} of {total} {item['InstanceType']} free in {zone}"
    another = f"deploy with an active reservation of a {facts.node}"
    if item["InstanceType"] != facts.node or state not in USABLE | COMING:
        yield Check("reservation", "fail", detail, another)
    elif zone is not None and zone not in facts.node_zones:
        fix = deploy_with({"capacity_zones": zone})
        yield Check("reservation", "fail", f"{detail}; the node may not start there", fix)
    elif state in COMING:
        yield Check("reservation", "warn", detail, "wait until it is active")
    elif total < facts.nodes:
        yield Check("reservation", "fail", f"{detail}; {facts.nodes} nodes are set", deploy_with({"nodes": str(total)}))
    elif not free:
        waits = held >= facts.nodes
        fix = "a new run waits for it (`specdecode capacity`)" if waits else "end what uses it, or reserve another"
        yield Check("reservation", "warn" if waits else "fail", detail, fix)
    else:
        idle = f"; runs use {facts.nodes} of them at most (setting `nodes`)" if total > facts.nodes else ""
        yield Check("reservation", "ok", f"{detail}{idle}")
    if block:
        yield from window(facts, start=item.get("StartDate"), end=item.get("EndDate"), now=ask.now)


def window(facts: DeploymentFacts, *, start: datetime | None, end: datetime | None, now: datetime) -> Iterator[Check]:
    """A Capacity Block's window. EC2's window is right; plans are made with the settings' window."""
    if end is None:
        return
    given = {
        f"capacity_{name}": moment.astimezone(UTC).isoformat()
        for name, moment in (("start", start), ("end", end))
        if moment is not None
    }
    left = (end - now).total_seconds() / 60 - DRAIN_BEFORE_BLOCK_END_MINUTES
    if left <= 0:
        yield Check(
            "window", "fail", f"the block ends at {end.isoformat()}", "buy another (docs/how-to/capacity-block.md)"
        )
    elif facts.block_end is None or abs((facts.block_end - end).total_seconds()) > 60:
        told = facts.block_end.isoformat() if facts.block_end else "none"
        detail = f"the block ends at {end.isoformat()}, the settings say {told}: plans would not fit into it"
        yield Check("window", "fail", detail, deploy_with(given))
    elif start is not None and now < start:
        yield Check("window", "fail", f"the block starts at {start.isoformat()}", "start runs then")
    else:
        yield Check("window", "ok", f"{left / 60:.1f} hours until the block's node is drained")


def queue(lease: Lease, wanted: NodeShape, facts: DeploymentFacts, now: datetime) -> Check:
    """Which runs hold the nodes of the experiment's kind."""
    holders, slots = lease.holders_of(wanted.pool), facts.nodes if wanted.has_devices else 1
    if len(holders) < slots:
        free = "nobody holds it" if slots == 1 else f"{slots - len(holders)} of {slots} are free"
        return Check("node", "ok", free)
    since = clock((now - (holders[0].held_since or holders[0].queued_at)).total_seconds())
    others = f", and {slots - 1} other runs hold the rest" if slots > 1 else ""
    ahead = sum(claim.kind == wanted.pool for claim in lease.queue)
    waiting = f", {ahead} more wait" if ahead else ""
    detail = f"{holders[0].run_id} has held the node for {since}{others}{waiting}: a new run stands behind"
    return Check("node", "warn", detail, "see `specdecode capacity`")


def endpoints(lease: Lease) -> Check:
    """Which run loads servers that already run."""
    if not lease.holders:
        return Check("endpoints", "ok", "no run loads servers that already run; they are asked by the run's smoke test")
    detail = f"{lease.holders[0].run_id} loads servers that already run: a new run stands behind"
    return Check("endpoints", "warn", detail, "see `specdecode capacity`")


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


def network_quotas(ask: Ask) -> Iterator[Check]:
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
