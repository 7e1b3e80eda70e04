"""What the platform costs an hour while no run holds a node: list prices as data, and their sum."""

from constructs_lib.settings import Settings

EKS_CONTROL_PLANE = 0.10
"""USD per hour and cluster in standard support (aws.amazon.com/eks/pricing)."""
NAT_GATEWAY = 0.045
"""USD per hour and gateway in us-east-2, plus 0.045 per GB (aws.amazon.com/vpc/pricing)."""
INTERFACE_ENDPOINT = 0.01
"""USD per hour, endpoint and zone, plus 0.01 per GB (aws.amazon.com/privatelink/pricing)."""
SYSTEM_NODES = 2
SYSTEM_NODE_HOUR = {"m7i.large": 0.1008, "m7i.xlarge": 0.2016, "m7i.2xlarge": 0.4032}
"""USD per hour on demand in us-east-2 (aws.amazon.com/ec2/pricing/on-demand)."""


def resting_cost(settings: Settings) -> float:
    """USD per hour at rest; an instance type without a known price counts as the default's."""
    node = SYSTEM_NODE_HOUR.get(settings.system_instance_type, SYSTEM_NODE_HOUR["m7i.xlarge"])
    endpoints = len(settings.interface_endpoints) * len(settings.zones) * INTERFACE_ENDPOINT
    return EKS_CONTROL_PLANE + SYSTEM_NODES * node + settings.nat_gateways * NAT_GATEWAY + endpoints
