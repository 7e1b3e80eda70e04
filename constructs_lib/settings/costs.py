"""What a deployment with given settings costs, and where its nodes come from."""

from datetime import date

from specdecode.experiment.capacity import OF_SETTINGS, Capacity
from specdecode.experiment.claims import variant_of
from specdecode.experiment.prices import EKS_CONTROL_PLANE, control_plane, extended_support
from specdecode.experiment.standing import Part, standing_parts, standing_price

from constructs_lib.settings.fields import Settings


def resting_parts(settings: Settings, *, today: date | None = None) -> tuple[Part, ...]:
    """Everything that is billed while no run holds a node. A VPC of yours adds nothing: it is paid for already."""
    made = settings.vpc_id is None
    return standing_parts(
        system_node_type=settings.system_instance_type,
        gateways=min(settings.nat_gateways, len(settings.zones)) if made else 0,
        endpoints=len(settings.interface_endpoints) * len(settings.zones) if made else 0,
        nodes=settings.nodes,
        cluster=settings.existing_cluster is None,
        kubernetes=settings.kubernetes_version,
        today=today,
        keys=(settings.bucket_encryption == "kms") + (settings.existing_cluster is None),
    )


def resting_cost(settings: Settings, *, today: date | None = None) -> float:
    """USD per hour at rest, today."""
    return standing_price(resting_parts(settings, today=today))


def capacity(settings: Settings) -> Capacity:
    """The facts about the node that the deployment gives to the pipeline and to the command line."""
    return Capacity(
        **{field: getattr(settings, key) for field, key in OF_SETTINGS.items()},
        ami=settings.ami,
        claims=variant_of(settings.guarded_driver, settings.claim_constraint),
        resting_price_per_hour=round(resting_cost(settings), 4),
    )


def hourly_cost(settings: Settings, *, today: date | None = None) -> str:
    """The stack's output `HourlyCost`, in words, with what the cluster's version will cost more than today."""
    version, words = settings.kubernetes_version, _hourly_cost(settings, today)
    later = control_plane(version, today or date.today()) is EKS_CONTROL_PLANE and extended_support(version)
    return f"{words}; {later}" if later and settings.existing_cluster is None else words


def _hourly_cost(settings: Settings, today: date | None) -> str:
    resting, node = resting_cost(settings, today=today), settings.nodes * settings.node_price
    nodes = f"{settings.nodes} x {settings.node_type}" if settings.nodes > 1 else f"a {settings.node_type}"
    if not settings.makes_nodes:
        return f"{resting:.2f} USD at rest; cluster and nodes are yours ({node:.2f} an hour for a {settings.node_type})"
    match capacity(settings).type:
        case "odcr":
            return (
                f"{resting + node:.2f} USD, whether a run goes on or not: {resting:.2f} at rest and {node:.2f} for the "
                f"On-Demand Capacity Reservation {settings.capacity_reservation_id}"
            )
        case "capacity-block":
            return f"{resting:.2f} USD at rest; the Capacity Block is paid for in advance, {node:.2f} an hour"
        case _:
            return f"{resting:.2f} USD at rest, {resting + node:.2f} USD with {nodes} on demand"
