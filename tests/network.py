"""What the NetworkPolicies of a cluster let a pod reach: the subset of their language that this project's have."""

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any

Json = dict[str, Any]


def chosen(selector: Json, labels: Mapping[str, str]) -> bool:
    """Whether a label selector of the policies' shape takes a pod with `labels`."""
    assert set(selector) <= {"matchExpressions"}
    for expression in selector.get("matchExpressions", ()):
        assert expression["operator"] == "In"
        if labels.get(expression["key"]) not in expression["values"]:
            return False
    return True


def openings(policies: Sequence[Json], labels: Mapping[str, str], direction: str) -> list[Json] | None:
    """What the policies together let a pod with `labels` do; None where none of them closes that direction."""
    own = [policy["spec"] for policy in policies if chosen(policy["spec"]["podSelector"], labels)]
    if not any(direction.capitalize() in spec["policyTypes"] for spec in own):
        return None
    return [rule for spec in own for rule in spec.get(direction, ())]


def reaches(policies: Sequence[Json], labels: Mapping[str, str], address: str, port: int) -> bool:
    """Whether a pod with `labels` may open a TCP connection to an address outside the cluster."""
    ways = openings(policies, labels, "egress")
    if ways is None:
        return True
    for way in ways:
        if "ports" not in way or {"protocol": "TCP", "port": port} in way["ports"]:
            blocks = [peer["ipBlock"] for peer in way["to"] if "ipBlock" in peer]
            if any(_is_in(block, ipaddress.ip_address(address)) for block in blocks):
                return True
    return False


def _is_in(block: Json, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    closed = [ipaddress.ip_network(text) for text in block.get("except", ())]
    return address in ipaddress.ip_network(block["cidr"]) and not any(address in network for network in closed)
