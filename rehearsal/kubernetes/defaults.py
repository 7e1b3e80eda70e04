"""The defaults that the API server fills in."""

import base64
from collections.abc import Callable
from typing import Any

from rehearsal.kubernetes import resources as r
from rehearsal.kubernetes import schema, schema_values
from rehearsal.kubernetes.objects import Json, name_of
from rehearsal.kubernetes.resources import Resource


def fill(resource: Resource, obj: Json, old: Json | None = None) -> None:
    """Complete `obj` in place with the defaults of its kind. `old` is the object before an update."""
    if resource is r.SERVICES and old is not None:
        _keep_allocated(obj["spec"], old["spec"])
    if resource.is_custom:
        obj["spec"] = schema_values.with_defaults(
            schema.custom_definitions()[resource.kind]["spec"], obj.get("spec") or {}
        )
    elif filler := _FILLERS.get(resource):
        filler(obj)


def _set(target: Json, **values: Any) -> None:
    """Of fields that are no pointer in upstream's types: an empty text is a field that is not set (defaults.go)."""
    for key, value in values.items():
        if target.get(key) in (None, ""):
            target[key] = value


_PROBE = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
"""Where upstream's default replaces 0 too."""


def pod_spec(spec: Json) -> None:
    _set(spec, restartPolicy="Always", terminationGracePeriodSeconds=30, dnsPolicy="ClusterFirst", securityContext={})
    _set(spec, schedulerName="default-scheduler")
    for container in [*spec.get("initContainers", ()), *spec.get("containers", ())]:
        _container(container)
    for volume in spec.get("volumes", ()):
        if not {*volume} - {"name"}:
            volume["emptyDir"] = {}
        for kind in ("configMap", "secret", "projected", "downwardAPI"):
            if kind in volume:
                _set(volume[kind], defaultMode=0o644)
        for source in volume.get("projected", {}).get("sources", ()):
            if "serviceAccountToken" in source:
                _set(source["serviceAccountToken"], expirationSeconds=3600)


def _container(container: Json) -> None:
    image = container.get("image", "")
    latest = ":" not in image.rsplit("/", 1)[-1] or image.endswith(":latest")
    _set(container, imagePullPolicy="Always" if latest and "@" not in image else "IfNotPresent", resources={})
    _set(container, terminationMessagePath="/dev/termination-log", terminationMessagePolicy="File")
    limits = container["resources"].get("limits") or {}
    if limits:
        container["resources"]["requests"] = {**limits, **(container["resources"].get("requests") or {})}
    for port in container.get("ports", ()):
        _set(port, protocol="TCP")
    for name in ("startupProbe", "readinessProbe", "livenessProbe"):
        if name in container:
            for key, value in _PROBE.items():
                container[name][key] = container[name].get(key) or value
            if "httpGet" in container[name]:
                _set(container[name]["httpGet"], path="/", scheme="HTTP")
    for variable in container.get("env", ()):
        if "fieldRef" in variable.get("valueFrom", {}):
            _set(variable["valueFrom"]["fieldRef"], apiVersion="v1")


def _pod(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    pod_spec(spec)
    _set(spec, enableServiceLinks=True, serviceAccountName=spec.get("serviceAccount") or "default")
    spec["serviceAccount"] = spec["serviceAccountName"]
    tolerations = spec.setdefault("tolerations", [])
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(t.get("key") in (key, None) for t in tolerations):
            tolerations.append({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})


def _deployment(obj: Json) -> None:
    spec = obj["spec"]
    _set(spec, replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600, strategy={})
    _set(spec["strategy"], type="RollingUpdate")
    if spec["strategy"]["type"] == "RollingUpdate":
        _set(spec["strategy"], rollingUpdate={})
        _set(spec["strategy"]["rollingUpdate"], maxSurge="25%", maxUnavailable="25%")
    pod_spec(spec["template"].setdefault("spec", {}))


def _replica_set(obj: Json) -> None:
    _set(obj["spec"], replicas=1)
    pod_spec(obj["spec"].setdefault("template", {}).setdefault("spec", {}))


def _daemon_set(obj: Json) -> None:
    _set(obj["spec"], revisionHistoryLimit=10, updateStrategy={"type": "RollingUpdate"})
    pod_spec(obj["spec"]["template"].setdefault("spec", {}))


def _job(obj: Json) -> None:
    spec = obj["spec"]
    _set(spec, backoffLimit=6, completionMode="NonIndexed", suspend=False, manualSelector=False)
    spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")
    if "completions" not in spec and "parallelism" not in spec:
        _set(spec, completions=1)
    _set(spec, parallelism=1)
    for rule in (spec.get("podFailurePolicy") or {}).get("rules", ()):
        for condition in rule.get("onPodConditions", ()):
            _set(condition, status="True")
    pod_spec(spec["template"].setdefault("spec", {}))


def _service(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    _set(spec, type="ClusterIP", sessionAffinity="None", internalTrafficPolicy="Cluster")
    _set(spec, ipFamilies=["IPv4"], ipFamilyPolicy="SingleStack")
    for port in spec.get("ports", ()):
        _set(port, protocol="TCP")
        port["targetPort"] = port.get("targetPort") or port.get("port", 0)


def _keep_allocated(spec: Json, old: Json) -> None:
    """What the API server chose for a Service stays if an update leaves it out: patchAllocatedValues and
    initIPFamilyFields of pkg/registry/core/service/storage. A Service with node ports is refused anyway.
    """
    for field in ("clusterIP", "clusterIPs", "ipFamilyPolicy"):
        if field in old and not spec.get(field):
            spec[field] = old[field]


def _secret(obj: Json) -> None:
    """What stringData has goes into data, over what is there: Convert_v1_Secret_To_core_Secret of
    pkg/apis/core/v1/conversion.go.
    """
    _set(obj, type="Opaque")
    if texts := obj.pop("stringData", None):
        coded = {key: base64.b64encode(text.encode(errors="replace")).decode() for key, text in texts.items()}
        obj["data"] = {**(obj.get("data") or {}), **coded}


def _namespace(obj: Json) -> None:
    obj.setdefault("spec", {})["finalizers"] = ["kubernetes"]
    obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name_of(obj)


def _claim_spec(spec: Json) -> None:
    for request in spec.get("devices", {}).get("requests", ()):
        if "exactly" in request:
            _set(request["exactly"], allocationMode="ExactCount")
            if request["exactly"]["allocationMode"] == "ExactCount" and not request["exactly"].get("count"):
                request["exactly"]["count"] = 1


def _volume(obj: Json) -> None:
    obj["spec"].setdefault("volumeMode", "Filesystem")
    _set(obj["spec"], persistentVolumeReclaimPolicy="Retain")


def _roles(obj: Json) -> None:
    named = [subject for subject in obj.get("subjects", ()) if subject.get("kind") in ("User", "Group")]
    for part in (obj.setdefault("roleRef", {}), *named):
        part["apiGroup"] = part.get("apiGroup") or "rbac.authorization.k8s.io"


_FILLERS: dict[Resource, Callable[[Json], None]] = {
    r.PODS: _pod,
    r.DEPLOYMENTS: _deployment,
    r.REPLICA_SETS: _replica_set,
    r.DAEMON_SETS: _daemon_set,
    r.JOBS: _job,
    r.SERVICES: _service,
    r.NAMESPACES: _namespace,
    r.SECRETS: _secret,
    r.CLAIMS: lambda obj: _claim_spec(obj["spec"]),
    r.CLAIM_TEMPLATES: lambda obj: _claim_spec(obj["spec"].setdefault("spec", {})),
    r.VOLUMES: _volume,
    r.VOLUME_CLAIMS: lambda obj: obj["spec"].setdefault("volumeMode", "Filesystem"),
    r.ROLE_BINDINGS: _roles,
    r.CLUSTER_ROLE_BINDINGS: _roles,
}
