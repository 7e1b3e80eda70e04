"""The rules of network policies: kubernetes/kubernetes v1.35, pkg/apis/networking/validation/validation.go."""

from collections.abc import Iterator

from rehearsal.kubernetes import errors, scheduling_rules
from rehearsal.kubernetes.objects import Json


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
