"""What the settings must satisfy together: pure checks that return one line a problem."""

import ipaddress
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from specdecode.experiment.shapes import DEFAULT

from constructs_lib.settings import cluster_rules, schedule_rules
from constructs_lib.settings import network_rules as network
from constructs_lib.settings.fields import Settings
from constructs_lib.settings.neuron_amis import ENGINE_GENERATIONS, NEURON_AMIS, REFUSED_AMIS, EngineGeneration
from constructs_lib.settings.versions import ADDONS
from constructs_lib.settings.zones import REGION_ZONES, problem_of

LOG_RETENTION_DAYS = (1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288)
"""The retentions that CloudWatch Logs takes."""
MOST_PUBLIC_ADDRESSES = 2**24
"""Most addresses that may reach the Kubernetes API from outside: a /8, the largest range that one owner has."""


def problems_across(settings: Settings, *, now: datetime) -> Iterator[str]:
    """Every problem of `settings` that the fields' own types do not catch."""
    yield from _region_and_zones(settings)
    yield from network.problems(settings)
    yield from cluster_rules.problems(settings)
    yield from _public_addresses(settings.endpoint_public_cidrs)
    yield from _kubernetes_and_ami(settings)
    yield from _capacity(settings, now=now)
    yield from schedule_rules.problems(settings)
    if settings.log_retention_days not in LOG_RETENTION_DAYS:
        yield f"log_retention_days: CloudWatch Logs takes {', '.join(map(str, LOG_RETENTION_DAYS))}"


def _region_and_zones(settings: Settings) -> Iterator[str]:
    if settings.region not in REGION_ZONES and not settings.availability_zones:
        yield (
            f"region: {settings.region} is not one that the project knows ({', '.join(REGION_ZONES)}); "
            "name its availability_zones and trn2_zones to use it"
        )
        return
    yield from network.number_of_zones(settings)
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
        yield f"capacity_end: {end.astimezone(UTC).isoformat()} is past: the reservation is over"
    if start is not None and end is not None and end <= start:
        yield "capacity_end: it is not after capacity_start"
