"""The rules of Services and network policies: kubernetes/kubernetes v1.35, pkg/apis/core/validation/validation.go
(ValidateService) and pkg/apis/networking/validation/validation.go.

A Service's address is that of a pod that it selects (`controllers/services`). A Service that needs more is refused.
"""

from collections.abc import Iterator

from rehearsal.kubernetes import errors, scheduling_rules, value_formats
from rehearsal.kubernetes.objects import Json

_OUTSIDE = (
    "allocateLoadBalancerNodePorts", "externalTrafficPolicy", "healthCheckNodePort", "loadBalancerClass",
    "loadBalancerSourceRanges",
)  # fmt: skip


def service(obj: Json, old: Json | None) -> Iterator[Json]:
    spec = obj["spec"]
    if not spec.get("ports"):
        yield errors.required("spec.ports")
    if spec["type"] != "ClusterIP" or spec.get("externalIPs") or spec.get("externalName"):
        yield errors.unsupported("spec.type", "a Service that is reached from outside the cluster")
    if spec.get("clusterIPs") and spec["clusterIPs"] != [spec.get("clusterIP")]:
        yield errors.invalid_value("spec.clusterIPs", spec["clusterIPs"], "first value must match `clusterIP`")
    if not spec.get("selector"):
        yield errors.unsupported("spec.selector", "a Service without a selector")
    for field in _OUTSIDE:
        if field in spec:
            yield errors.field_forbidden(f"spec.{field}", "may only be used when `type` is 'LoadBalancer'")
    for index, port in enumerate(spec.get("ports", ())):
        if port.get("nodePort"):
            yield errors.field_forbidden(f"spec.ports[{index}].nodePort", "may not be used when `type` is 'ClusterIP'")
        if port["targetPort"] != port["port"] and not isinstance(port["targetPort"], str):
            yield errors.unsupported(
                f"spec.ports[{index}].targetPort",
                "a port that differs from its targetPort (the Service's IP is its pod's own)",
            )
        if len(spec["ports"]) > 1 and not port.get("name"):
            yield errors.required(f"spec.ports[{index}].name")
        if port.get("name") and (said := value_formats.dns_label(port["name"])):
            yield errors.invalid_value(f"spec.ports[{index}].name", port["name"], said)
        for other in spec["ports"][:index]:
            if (other["port"], other["protocol"]) == (port["port"], port["protocol"]) or (
                port.get("name") and other.get("name") == port["name"]
            ):
                yield errors.cause(f"spec.ports[{index}]", "FieldValueDuplicate", "Duplicate value")


def policy(obj: Json, old: Json | None) -> Iterator[Json]:
    spec = obj["spec"]
    yield from scheduling_rules.requirements(spec.get("podSelector"), "spec.podSelector")
    for direction, side in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(direction) or ()):
            here = f"spec.{direction}[{index}]"
            for nth, port in enumerate(rule.get("ports") or ()):
                yield from _port(port, f"{here}.ports[{nth}]")
            for nth, peer in enumerate(rule.get(side) or ()):
                yield from _peer(peer, f"{here}.{side}[{nth}]")


def _port(port: Json, path: str) -> Iterator[Json]:
    if "endPort" not in port:
        return
    if not isinstance(port.get("port"), int):
        yield errors.required(f"{path}.port", "must be a number when `endPort` is specified")
    elif port["endPort"] < port["port"]:
        yield errors.invalid_value(f"{path}.endPort", port["endPort"], "must be greater than or equal to `port`")


def _peer(peer: Json, path: str) -> Iterator[Json]:
    kinds = [kind for kind in ("podSelector", "namespaceSelector", "ipBlock") if kind in peer]
    if not kinds:
        yield errors.required(path, "must specify a peer")
    if "ipBlock" in kinds and len(kinds) > 1:
        yield errors.field_forbidden(path, "may not specify both ipBlock and another peer")
    for kind in kinds:
        if kind != "ipBlock":
            yield from scheduling_rules.requirements(peer[kind], f"{path}.{kind}")
