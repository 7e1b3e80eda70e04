"""Labels, annotations, taints and finalizers of Karpenter."""

from rehearsal.kubernetes.objects import Json

NODE_POOL = "karpenter.sh/nodepool"
CAPACITY_TYPE = "karpenter.sh/capacity-type"
FINALIZER = "karpenter.sh/termination"
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
TERMINATION_TIME = "karpenter.sh/nodeclaim-termination-timestamp"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
ZONE = "topology.kubernetes.io/zone"
ZONE_ID = "topology.k8s.aws/zone-id"
DISRUPTED: Json = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
COMPONENT = "karpenter"


def seconds(duration: str) -> float:
    """Seconds of a Go duration such as `10m` or `1h30m`; infinite for `Never`."""
    if duration == "Never":
        return float("inf")
    units = {"s": 1, "m": 60, "h": 3600}
    total, number = 0.0, ""
    for char in duration:
        if char in units:
            total, number = total + int(number) * units[char], ""
        else:
            number += char
    return total
