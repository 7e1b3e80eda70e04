"""The resources that are billed while no run holds a node, at the prices of `prices`."""

from dataclasses import dataclass
from datetime import date

from specdecode import names
from specdecode.experiment import prices
from specdecode.experiment.prices import HOURS_A_MONTH

SYSTEM_NODES = 2
SYSTEM_NODE_TYPE = "m7i.xlarge"
SYSTEM_VOLUME_GIB = 50
LOG_GB_A_DAY = 1.0
"""Assumed for all logs together, at rest: five kinds of control-plane logs (most of it audit), the network's flows, the
containers'. Nobody has measured this cluster; a quiet one is said to write some hundred MB a day of the first."""
OBSERVATIONS_A_NODE_AND_MINUTE = 1000
"""Assumed for Container Insights: some 20 pods with 30 metrics each, and the node's own. Nobody has measured it."""
WATCHDOG_METRICS, METRICS_A_POOL, ALARMS, DASHBOARDS = 8, 2, 20, 1
"""Of the pipeline (alarms rounded up); and what the watchdog says of each NodePool that runs hold, for the backstop."""
DESTROY_MINUTES = (20, 40)
"""How long `specdecode destroy` takes: Lambda gives the network interfaces of its functions back late."""


@dataclass(frozen=True)
class Part:
    """One resource that is billed at rest."""

    what: str
    usd_per_hour: float
    assumed: bool = False
    """Whether its amount is a guess: it depends on activity, not on the resources."""


def standing_parts(
    *,
    system_node_type: str = SYSTEM_NODE_TYPE,
    gateways: int = 1,
    endpoints: int = 0,
    keys: int = 1,
    nodes: int = 1,
    cluster: bool = True,
    kubernetes: str | None = None,
    today: date | None = None,
) -> tuple[Part, ...]:
    """Everything that is billed while no run holds a node. `endpoints`: interface endpoints, one for each zone;
    `nodes`: with devices, of which none is there; `cluster`: whether it is the deployment's own, with its system nodes;
    `kubernetes`: its version, which decides what its control plane costs `today` (unset: one in standard support). An
    instance type without a known price has the price of the default. The defaults are those of the settings.
    """
    node = prices.SYSTEM_NODES.get(system_node_type, prices.SYSTEM_NODES[SYSTEM_NODE_TYPE])
    plane = prices.control_plane(kubernetes, today or date.today())
    observations = SYSTEM_NODES * OBSERVATIONS_A_NODE_AND_MINUTE * 60 / 1e6
    volumes = SYSTEM_NODES * SYSTEM_VOLUME_GIB * prices.SYSTEM_VOLUME.usd
    metrics = WATCHDOG_METRICS + METRICS_A_POOL * len(names.held_pools(nodes))
    watching = metrics * prices.METRIC.usd + ALARMS * prices.ALARM.usd + DASHBOARDS * prices.DASHBOARD.usd
    of_cluster = (
        Part(f"{SYSTEM_NODES} {system_node_type}, the system nodes", SYSTEM_NODES * node.usd),
        Part(plane.what.removesuffix(" in standard support"), plane.usd),
        Part("Container Insights", observations * prices.CONTAINER_INSIGHTS.usd, assumed=True),
        Part("logs of control plane, network and pods", LOG_GB_A_DAY / 24 * prices.LOGS.usd, assumed=True),
        Part("disks of the system nodes", volumes / HOURS_A_MONTH),
    )
    parts = (
        *(of_cluster if cluster else ()),
        Part(f"{_many(gateways, 'NAT gateway')}, without traffic", gateways * prices.NAT_GATEWAY.usd),
        Part("metrics, alarms and dashboard of the pipeline", watching / HOURS_A_MONTH),
        Part(f"{gateways} public IPv4 address{'es' * (gateways != 1)} of NAT", gateways * prices.PUBLIC_ADDRESS.usd),
        Part(_many(keys, "KMS key"), keys * prices.KEY.usd / HOURS_A_MONTH),
        Part(_many(endpoints, "interface endpoint"), endpoints * prices.INTERFACE_ENDPOINT.usd),
    )
    return tuple(part for part in parts if part.usd_per_hour)


def standing_price(parts: tuple[Part, ...] | None = None) -> float:
    """US dollars per hour of `parts`. Without `parts`: of a deployment with default settings."""
    return sum(part.usd_per_hour for part in (standing_parts() if parts is None else parts))


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"
