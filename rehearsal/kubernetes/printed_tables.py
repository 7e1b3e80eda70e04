"""The tables that `kubectl get` prints (meta.k8s.io/v1 Table)."""

import time
from collections.abc import Callable

from rehearsal.kubernetes import resources as r
from rehearsal.kubernetes.objects import Json, condition, dig, labels_of, name_of, parse_time
from rehearsal.kubernetes.resources import Resource

Column = tuple[str, Callable[[Json], object]]


def wanted(accept: str) -> bool:
    """Whether the client's first choice is a Table."""
    first = accept.split(",")[0].replace(" ", "")
    return "as=Table" in first and "v=v1;" in f"{first};" and "g=meta.k8s.io" in first


def table(resource: Resource, obj: Json) -> Json:
    """A Table of an object or a list."""
    items = obj.get("items", [obj])
    columns = [("Name", name_of), *_COLUMNS.get(resource, ()), ("Age", _age)]
    definitions = [
        {"name": name, "type": "string", "format": "name" if name == "Name" else "", "description": "", "priority": 0}
        for name, _ in columns
    ]
    rows = [
        {
            "cells": [cell(item) for _, cell in columns],
            "object": {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": item["metadata"]},
        }
        for item in items
    ]
    metadata = obj["metadata"] if "items" in obj else {"resourceVersion": obj["metadata"]["resourceVersion"]}
    kind = {"kind": "Table", "apiVersion": "meta.k8s.io/v1"}
    return {**kind, "metadata": metadata, "columnDefinitions": definitions, "rows": rows}


def duration(seconds: float) -> str:
    """`45s`, `3m12s`, `5h`, `2d`: as kubectl shows ages."""
    whole = int(seconds)
    if whole < 120:
        return f"{whole}s"
    if whole < 600:
        return f"{whole // 60}m{whole % 60}s" if whole % 60 else f"{whole // 60}m"
    if whole < 3 * 3600:
        return f"{whole // 60}m"
    return f"{whole // 3600}h" if whole < 48 * 3600 else f"{whole // 86400}d"


def _age(obj: Json) -> str:
    return duration(time.time() - parse_time(obj["metadata"]["creationTimestamp"]))


def _at(*path: str | int, default: object = "") -> Callable[[Json], object]:
    return lambda obj: dig(obj, *path, default=default)


def _condition(kind: str) -> Callable[[Json], object]:
    return lambda obj: (condition(obj, kind) or {}).get("status", "Unknown")


def _label(name: str) -> Callable[[Json], object]:
    return lambda obj: labels_of(obj).get(name, "")


def pod_status(pod: Json) -> str:
    """The STATUS column: why a container waits or ended, or the phase."""
    if "deletionTimestamp" in pod["metadata"]:
        return "Terminating"
    found = str(dig(pod, "status", "reason") or dig(pod, "status", "phase", default="Pending"))
    for number, status in enumerate(dig(pod, "status", "initContainerStatuses", default=[])):
        reason = dig(status, "state", "waiting", "reason") or dig(status, "state", "terminated", "reason")
        if reason and reason != "Completed":
            return f"Init:{reason}"
        if "running" in status["state"]:
            return f"Init:{number}/{len(pod['spec']['initContainers'])}"
    for status in dig(pod, "status", "containerStatuses", default=[]):
        reason = dig(status, "state", "waiting", "reason") or dig(status, "state", "terminated", "reason")
        if reason:
            found = reason
    return found


def _containers_ready(pod: Json) -> str:
    ready = sum(bool(s.get("ready")) for s in dig(pod, "status", "containerStatuses", default=[]))
    return f"{ready}/{len(pod['spec']['containers'])}"


def _restarts(pod: Json) -> str:
    return str(sum(s.get("restartCount", 0) for s in dig(pod, "status", "containerStatuses", default=[])))


def _job_status(job: Json) -> str:
    for kind in ("Complete", "Failed", "Suspended"):
        if dig(condition(job, kind), "status") == "True":
            return kind
    return "Terminating" if "deletionTimestamp" in job["metadata"] else "Running"


def _ratio(*have: str, want: str) -> Callable[[Json], object]:
    return lambda obj: f"{dig(obj, 'status', *have, default=0)}/{dig(obj, 'spec', want, default=1)}"


def _ports(service: Json) -> str:
    return ",".join(f"{port['port']}/{port['protocol']}" for port in service["spec"].get("ports", ()))


def _node_status(node: Json) -> str:
    ready = "Ready" if dig(condition(node, "Ready"), "status") == "True" else "NotReady"
    return f"{ready},SchedulingDisabled" if dig(node, "spec", "unschedulable") else ready


def _claim_state(claim: Json) -> str:
    states = ["allocated"] if dig(claim, "status", "allocation") else ["pending"]
    states += ["reserved"] if dig(claim, "status", "reservedFor") else []
    return ",".join(states)


def _involved(event: Json) -> str:
    return f"{event['involvedObject']['kind'].lower()}/{event['involvedObject']['name']}"


_COLUMNS: dict[Resource, tuple[Column, ...]] = {
    r.PODS: (("Ready", _containers_ready), ("Status", pod_status), ("Restarts", _restarts)),
    r.JOBS: (("Status", _job_status), ("Completions", _ratio("succeeded", want="completions"))),
    r.DEPLOYMENTS: (
        ("Ready", _ratio("readyReplicas", want="replicas")),
        ("Up-to-date", _at("status", "updatedReplicas", default=0)),
        ("Available", _at("status", "availableReplicas", default=0)),
    ),
    r.REPLICA_SETS: (
        ("Desired", _at("spec", "replicas")),
        ("Current", _at("status", "replicas", default=0)),
        ("Ready", _at("status", "readyReplicas", default=0)),
    ),
    r.SERVICES: (("Type", _at("spec", "type")), ("Cluster-IP", _at("spec", "clusterIP")), ("Port(s)", _ports)),
    r.NAMESPACES: (("Status", _at("status", "phase")),),
    r.NODES: (("Status", _node_status), ("Version", _at("status", "nodeInfo", "kubeletVersion"))),
    r.EVENTS: (
        ("Type", _at("type")),
        ("Reason", _at("reason")),
        ("Object", _involved),
        ("Message", _at("message")),
    ),
    r.CONFIG_MAPS: (("Data", lambda obj: len(obj.get("data") or {})),),
    r.SECRETS: (("Type", _at("type", default="Opaque")), ("Data", lambda obj: len(obj.get("data") or {}))),
    r.VOLUMES: (("Capacity", _at("spec", "capacity", "storage")), ("Status", _at("status", "phase"))),
    r.VOLUME_CLAIMS: (("Status", _at("status", "phase")), ("Volume", _at("spec", "volumeName"))),
    r.CLAIMS: (("State", _claim_state),),
    r.SLICES: (("Node", _at("spec", "nodeName")), ("Driver", _at("spec", "driver"))),
    r.NODE_POOLS: (
        ("NodeClass", _at("spec", "template", "spec", "nodeClassRef", "name")),
        ("Nodes", _at("status", "nodes", default=0)),
        ("Ready", _condition("Ready")),
    ),
    r.NODE_CLAIMS: (
        ("Type", _label("node.kubernetes.io/instance-type")),
        ("Capacity", _label("karpenter.sh/capacity-type")),
        ("Zone", _label("topology.kubernetes.io/zone")),
        ("Node", _at("status", "nodeName")),
        ("Ready", _condition("Ready")),
    ),
    r.NODE_CLASSES: (("Ready", _condition("Ready")),),
}
