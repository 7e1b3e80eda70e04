"""Manifests that the tests share."""

from pathlib import Path
from typing import Any

Json = dict[str, Any]


def wait_for(flag: Path) -> str:
    """A script that ends as soon as the test has made a file."""
    return f"until [ -e {flag} ]; do sleep 0.05; done"


def until_ended(flag: Path, *, code: int = 0) -> str:
    """A script that runs until it is told to end, and then until the test has made a file."""
    return f"trap '{wait_for(flag)}; exit {code}' TERM; while :; do sleep 0.05; done"


def made(api: str, kind: str, name: str, spec: Json, **metadata: Any) -> Json:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}


def pod_spec(script: str, **extra: Any) -> Json:
    container = {"name": "main", "image": "example.com/engine:1", "command": ["/bin/sh", "-c", script]}
    container |= extra.pop("container", {})
    return {"restartPolicy": "Never", "terminationGracePeriodSeconds": 2, "containers": [container], **extra}


def pod(name: str, script: str, **extra: Any) -> Json:
    metadata = {key: extra.pop(key, {}) for key in ("labels", "annotations")}
    return made("v1", "Pod", name, pod_spec(script, **extra), **metadata)


def job(name: str, script: str, *, backoff_limit: int = 0, **extra: Any) -> Json:
    spec = {"backoffLimit": backoff_limit, "template": {"spec": pod_spec(script, **extra)}}
    return made("batch/v1", "Job", name, spec)


SERVER = "exec python3 -m http.server --bind $POD_IP 8000"


def deployment(name: str, script: str = SERVER, *, replicas: int = 1, **container: Any) -> Json:
    address = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    own = {"env": [address], "readinessProbe": {"httpGet": {"port": 8000}, "periodSeconds": 1}, **container}
    spec = pod_spec(script, container=own) | {"restartPolicy": "Always"}
    labels = {"app": name}
    whole = {
        "replicas": replicas,
        "strategy": {"type": "Recreate"},
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": spec},
    }
    return made("apps/v1", "Deployment", name, whole)


def service(name: str, port: int = 8000) -> Json:
    return made("v1", "Service", name, {"selector": {"app": name}, "ports": [{"port": port}]})


NODE_CLASS = made(
    "karpenter.k8s.aws/v1",
    "EC2NodeClass",
    "trn2",
    {
        "amiSelectorTerms": [{"alias": "al2023@v20260625"}],
        "role": "node",
        "instanceStorePolicy": "RAID0",
        "subnetSelectorTerms": [{"id": "subnet-1"}],
        "securityGroupSelectorTerms": [{"id": "sg-1"}],
        "capacityReservationSelectorTerms": [{"id": "cr-1"}],
    },
)


def static_pool(**template: Any) -> Json:
    spec: Json = {
        "expireAfter": "Never",
        "terminationGracePeriod": "10m",
        "taints": [{"key": "aws.amazon.com/neuron", "value": "true", "effect": "NoSchedule"}],
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "trn2"},
        "requirements": [
            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["trn2.48xlarge"]},
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["reserved"]},
        ],
        **template,
    }
    whole = {
        "replicas": 0,
        "limits": {"nodes": "1"},
        "disruption": {"consolidateAfter": "Never", "budgets": [{"nodes": "0"}]},
        "template": {"metadata": {"labels": {"specdecode/accelerator": "trn2"}}, "spec": spec},
    }
    return made("karpenter.sh/v1", "NodePool", "trn2", whole)


def claim_template(devices: int) -> Json:
    neuron = {"apiVersion": "neuron.aws.com/v1", "kind": "NeuronConfig", "logicalNeuronCore": 2}
    expression = "device.attributes['neuron.aws.com'].instanceType == 'trn2.48xlarge'"
    exactly = {"deviceClassName": "neuron.aws.com", "allocationMode": "ExactCount", "count": devices}
    request = {"name": "neurons", "exactly": {**exactly, "selectors": [{"cel": {"expression": expression}}]}}
    group = {"requests": ["neurons"], "matchAttribute": f"resource.aws.com/devicegroup{devices}_id"}
    config = {"requests": ["neurons"], "opaque": {"driver": "neuron.aws.com", "parameters": neuron}}
    spec = {"spec": {"devices": {"requests": [request], "constraints": [group], "config": [config]}}}
    return made("resource.k8s.io/v1", "ResourceClaimTemplate", f"trn2-{devices}dev", spec)


def neuron_pod(name: str, script: str = "exec sleep 600", *, devices: int = 8, **extra: Any) -> Json:
    resources = {"claims": [{"name": "neuron"}], "requests": {"cpu": "80", "memory": "100Gi"}}
    return pod(
        name,
        script,
        container={"resources": resources},
        nodeSelector={"specdecode/accelerator": "trn2"},
        tolerations=[{"key": "aws.amazon.com/neuron", "operator": "Exists", "effect": "NoSchedule"}],
        resourceClaims=[{"name": "neuron", "resourceClaimTemplateName": f"trn2-{devices}dev"}],
        **extra,
    )
