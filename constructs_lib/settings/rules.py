"""What the settings must satisfy together: pure checks that return one line a problem."""

import ipaddress
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from zoneinfo import available_timezones

from specdecode.experiment.kept import CONFIGURE
from specdecode.experiment.shapes import DEFAULT

from constructs_lib.settings.cron import firing, last_year
from constructs_lib.settings.fields import BLOCK, ScheduleSettings, Settings
from constructs_lib.settings.neuron_amis import ENGINE_GENERATIONS, NEURON_AMIS, REFUSED_AMIS, EngineGeneration
from constructs_lib.settings.versions import ADDONS
from constructs_lib.settings.zones import REGION_ZONES, problem_of

INTERFACE_ENDPOINTS = ("sts", "logs", "monitoring", "ec2", "sqs", "states", "lambda")
"""Services of which the network can have an interface endpoint."""
OF_YOURS = (*INTERFACE_ENDPOINTS, "s3")
"""Those that a VPC of yours may have. Ours has S3's gateway endpoint, which costs nothing."""
SUBNET = re.compile(r"subnet-[0-9a-f]{8,17}")


def problems_across(settings: Settings, *, now: datetime) -> Iterator[str]:
    """Every problem of `settings` that the fields' own types do not catch."""
    yield from _region_and_zones(settings)
    yield from _network(settings)
    yield from _cluster(settings)
    yield from _public_addresses(settings.endpoint_public_cidrs)
    yield from _kubernetes_and_ami(settings)
    yield from _capacity(settings, now=now)
    yield from _schedule(settings)
    if settings.log_retention_days not in LOG_RETENTION_DAYS:
        yield f"log_retention_days: CloudWatch Logs takes {', '.join(map(str, LOG_RETENTION_DAYS))}"


def _network(settings: Settings) -> Iterator[str]:
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


def _number_of_zones(settings: Settings) -> Iterator[str]:
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


OF_EKS = {
    "cluster_endpoint": "endpoint",
    "cluster_ca": "certificateAuthority.data",
    "cluster_security_group": "resourcesVpcConfig.clusterSecurityGroupId",
    "cluster_oidc_issuer": "identity.oidc.issuer",
    "vpc_id": "resourcesVpcConfig.vpcId",
}
"""Setting -> its place in the answer of `aws eks describe-cluster`."""
OF_OURS = ("endpoint_public_cidrs", "admin_role_arns", "system_instance_type")
"""Settings for a cluster that is made only."""
OF_NODES = ("neuron_ami", "node_storage", "efa_interfaces", "capacity_zones", "trn2_zones", "capacity_reservation_id")
"""Settings for nodes that are made only."""
OF_KARPENTER = ("karpenter_node_role", "existing_node_group", "node_security_groups")
"""Settings for nodes that are made in a cluster that exists only."""


def _cluster(settings: Settings) -> Iterator[str]:
    """A cluster that exists needs all settings of OF_EKS, and none of OF_OURS."""
    if not settings.existing_cluster:
        for key in (*OF_EKS, *OF_KARPENTER):
            if key != "vpc_id" and getattr(settings, key):
                yield f"{key}: it is for a cluster that exists; set existing_cluster too"
        return
    missing = [key for key in OF_EKS if not getattr(settings, key)]
    if missing:
        yield (
            f"existing_cluster: {', '.join(missing)} must be given too, and subnet_ids with availability_zones; "
            f"`{_described(settings)}` prints what cdk.json wants of the cluster"
        )
    for key in OF_OURS:
        if _is_set(settings, key):
            yield f"{key}: it is for a cluster that is made; leave it out with existing_cluster"
    for key in () if settings.describes_nodes else (*OF_NODES, "node_security_groups"):
        if _is_set(settings, key):
            yield f"{key}: it is for NodePools of ours; leave it out, or give karpenter_node_role"
    if settings.existing_node_group and settings.karpenter_node_role:
        yield "existing_node_group, karpenter_node_role: a node comes from the one or from the other; leave one out"
    if settings.existing_node_group and settings.nodes > 1:
        yield "nodes: a node group is for one run at a time (which of its nodes goes is EKS's choice); leave it out"
    for group in settings.node_security_groups:
        if not re.fullmatch(r"sg-[0-9a-f]{8,17}", group):
            yield f"node_security_groups: {group} is no id of a security group (sg-…)"


def _is_set(settings: Settings, key: str) -> bool:
    return bool(getattr(settings, key) != type(settings).model_fields[key].get_default())


def _described(settings: Settings) -> str:
    """The command that prints the settings of the cluster as JSON."""
    parts = ",".join(f"{key}:cluster.{where}" for key, where in OF_EKS.items())
    return (
        f"aws eks describe-cluster --region {settings.region} --name {settings.existing_cluster} "
        f"--query '{{existing_cluster:cluster.name,{parts}}}'"
    )


def _schedule(settings: Settings) -> Iterator[str]:
    """Every problem of the schedule that can be seen without the experiment."""
    if settings.schedule is None:
        own = ScheduleSettings.model_fields
        for key in sorted(key for key in own if getattr(settings, key) != own[key].default):
            yield f"{key}: it belongs to a schedule; set schedule too"
        return
    if settings.schedule_experiment is None:
        yield "schedule: say what it runs with schedule_experiment (`specdecode presets` lists them with their prices)"
    if (known := available_timezones()) and settings.schedule_time_zone not in known:  # a bare machine knows none
        yield f"schedule_time_zone: {settings.schedule_time_zone} is no time zone such as Europe/Berlin or UTC"
    if settings.schedule == BLOCK:
        if settings.capacity_start is None:
            yield "schedule: a run that starts with the Capacity Block needs capacity_start"
        return
    if settings.schedule.startswith("rate("):
        yield "schedule: a rate begins with the deployment itself, at once; give the hour with cron(…)"
        return
    try:
        firing(settings.schedule)
        if last_year(settings.schedule) < datetime.now(UTC).year:
            yield "schedule: its last year is past: it would never start"
    except ValueError as error:
        yield f"schedule: {error}, or block (given: {settings.schedule!r})"


def has_begun(settings: Settings, *, now: datetime) -> bool:
    """Whether the Capacity Block has begun, so that there is nothing to schedule any more."""
    return settings.schedule == BLOCK and settings.capacity_start is not None and settings.capacity_start <= now


LOG_RETENTION_DAYS = (1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288)
"""The retentions that CloudWatch Logs takes."""
MOST_PUBLIC_ADDRESSES = 2**24
"""Most addresses that may reach the Kubernetes API from outside: a /8, the largest range that one owner has."""


def _region_and_zones(settings: Settings) -> Iterator[str]:
    if settings.region not in REGION_ZONES and not settings.availability_zones:
        yield (
            f"region: {settings.region} is not one that the project knows ({', '.join(REGION_ZONES)}); "
            "name its availability_zones and trn2_zones to use it"
        )
        return
    yield from _number_of_zones(settings)
    for zone in settings.zones:
        problem = problem_of(zone, region=settings.region)
        if problem:
            yield f"availability_zones: {problem}"
    known = settings.known_zones
    for zone in settings.capacity_zones:
        if zone not in settings.zones:
            yield f"capacity_zones: {zone} is not among the network's zones ({', '.join(settings.zones)})"
        elif zone not in known:
            yield (
                f"capacity_zones: {zone} is not known to have {settings.node_type} ({', '.join(known) or 'none is'}); "
                "ask `aws ec2 describe-instance-type-offerings --location-type "
                f"availability-zone-id --filters Name=instance-type,Values={settings.node_type}`, and if it has, "
                "say so with trn2_zones"
            )
    if settings.efa_interfaces and not settings.shape.efa_cards:
        yield (
            f"efa_interfaces: the native plugin knows where the EFA interfaces of a {DEFAULT} are, not of a "
            f"{settings.node_type}; leave it out"
        )
    if not settings.node_zones and settings.describes_nodes:
        yield (
            f"region: no zone of {settings.region} is known to have {settings.node_type} "
            f"(known: {', '.join(settings.shape.zones or ())}); name one with trn2_zones if you know better"
        )


def _public_addresses(cidrs: Iterable[str]) -> Iterator[str]:
    """Ranges are counted together: 0.0.0.0/1 and 128.0.0.0/1 together are everybody."""
    networks = []
    for cidr in cidrs:
        try:
            network = ipaddress.ip_network(cidr)
        except ValueError as error:
            yield f"endpoint_public_cidrs: {error}"
            continue
        if isinstance(network, ipaddress.IPv6Network):
            yield f"endpoint_public_cidrs: {cidr} is IPv6, and the cluster's endpoint is reached by IPv4 only"
        else:
            networks.append(network)
    addresses = sum(network.num_addresses for network in ipaddress.collapse_addresses(networks))
    if addresses > MOST_PUBLIC_ADDRESSES:
        yield (
            f"endpoint_public_cidrs: together they open the Kubernetes API to {addresses:,} addresses, which is "
            f"{'everyone' if addresses == 2**32 else f'more than a /8 ({MOST_PUBLIC_ADDRESSES:,})'}; name your own "
            "ranges"
        )


def _kubernetes_and_ami(settings: Settings) -> Iterator[str]:
    if settings.kubernetes_version not in ADDONS:
        yield (
            f"kubernetes_version: {settings.kubernetes_version} is not one of {', '.join(ADDONS)}: resource claims are "
            "resource.k8s.io/v1 since 1.34, and add-ons and AMIs are pinned for these versions only"
            + (
                "; for a newer cluster take a node group of it instead (existing_node_group), and leave out "
                "karpenter_node_role and kubernetes_version"
                if settings.existing_cluster
                else ""
            )
        )
    generation = ENGINE_GENERATIONS.get(settings.engine_generation)
    if generation is None:
        yield f"engine_generation: {settings.engine_generation} is not one of {', '.join(ENGINE_GENERATIONS)}"
        return
    yield from _ami(settings, generation)


def _ami(settings: Settings, generation: EngineGeneration) -> Iterator[str]:
    ami = NEURON_AMIS.get(settings.ami)
    suiting = [
        other.release
        for other in NEURON_AMIS.values()
        if generation.takes(other.driver) and settings.kubernetes_version in other.kubelet
    ]
    use = f"use one of {', '.join(suiting)} for {settings.engine_generation} on {settings.kubernetes_version}"
    if settings.ami in REFUSED_AMIS:
        yield f"neuron_ami: {settings.ami} must not be used, {REFUSED_AMIS[settings.ami]}; {use}"
    elif ami is None:
        yield (
            f"neuron_ami: {settings.ami} is no release that the project knows; {use}, or add it to "
            "constructs_lib/settings/neuron_amis.py with its driver, kernel and kubelets"
        )
    elif not generation.takes(ami.driver):
        below = f" and below {generation.driver_below}" if generation.driver_below else ""
        yield (
            f"neuron_ami: {settings.ami} has Neuron driver {ami.driver}, and {settings.engine_generation} (runtime "
            f"{generation.runtime}) needs {generation.driver_from} or newer{below}; {use}"
        )
    elif settings.kubernetes_version in ADDONS and settings.kubernetes_version not in ami.kubelet:
        yield f"neuron_ami: {settings.ami} was not released for Kubernetes {settings.kubernetes_version}; {use}"


def _capacity(settings: Settings, *, now: datetime) -> Iterator[str]:
    if settings.price_per_node_hour is None and settings.shape.price_in(settings.region) is None:
        yield (
            f"price_per_node_hour: AWS publishes no price of a {settings.node_type} in {settings.region} that is known "
            "here; give what you pay for an hour"
        )
    start, end = settings.capacity_start, settings.capacity_end
    if (start or end) and not settings.reserved:
        yield "capacity_start, capacity_end: a window belongs to a reservation; set capacity_reservation_id too"
    for key, moment in (("capacity_start", start), ("capacity_end", end)):
        if moment is not None and moment.tzinfo is None:
            yield f"{key}: {moment.isoformat()} has no UTC offset; write it as 2026-12-01T11:30:00+00:00"
            return
    if end is not None and end <= now:
        over = f"`{CONFIGURE} capacity_reservation_id= capacity_start= capacity_end=` takes it back"
        yield f"capacity_end: {end.astimezone(UTC).isoformat()} is past: the reservation is over; {over}"
    if start is not None and end is not None and end <= start:
        yield "capacity_end: it is not after capacity_start"
