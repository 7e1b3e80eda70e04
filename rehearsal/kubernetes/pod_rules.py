"""The rules of pod specs. A field that the rehearsal's node cannot run is refused, never ignored."""

import re
from collections.abc import Iterator

from rehearsal.kubernetes import errors, quantity, scheduling_rules, value_formats
from rehearsal.kubernetes.objects import Json, dig

_IMAGE = re.compile(
    r"^[a-z0-9]+([._-][a-z0-9]+)*(:\d+)?(/[a-z0-9]+((\.|_{1,2}|-+)[a-z0-9]+)*)*(:[\w][\w.-]{0,127})?(@sha256:[0-9a-f]{64})?$"
)
_VOLUMES = ("emptyDir", "configMap", "secret", "projected", "downwardAPI", "persistentVolumeClaim")
_FIELDS = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", "status.hostIP",
    "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
_UNSUPPORTED = (
    "hostNetwork", "hostPID", "hostIPC", "ephemeralContainers", "readinessGates", "schedulingGates", "runtimeClassName",
    "dnsConfig", "hostAliases", "hostname", "subdomain", "topologySpreadConstraints",
    "overhead", "setHostnameAsFQDN", "hostUsers", "activeDeadlineSeconds", "workloadRef",
)  # fmt: skip
_CONTAINER_UNSUPPORTED = ("lifecycle", "volumeDevices", "stdin", "tty", "resizePolicy", "restartPolicyRules")


def check(spec: Json, path: str) -> Iterator[Json]:
    """Every problem of a pod spec."""
    containers = [("containers", c) for c in spec.get("containers", ())]
    every = [*(("initContainers", c) for c in spec.get("initContainers", ())), *containers]
    if not containers:
        yield errors.required(f"{path}.containers")
    yield from _names(spec, path)
    for field in _UNSUPPORTED:
        if spec.get(field):
            yield errors.unsupported(f"{path}.{field}", f"pods with {field}")
    yield from _unique([c["name"] for _, c in every], f"{path}.containers")
    volumes = {volume["name"]: volume for volume in spec.get("volumes", ())}
    yield from _unique([volume["name"] for volume in spec.get("volumes", ())], f"{path}.volumes")
    for index, volume in enumerate(spec.get("volumes", ())):
        yield from _volume(volume, f"{path}.volumes[{index}]")
    claims = {claim["name"] for claim in spec.get("resourceClaims", ())}
    for index, claim in enumerate(spec.get("resourceClaims", ())):
        if ("resourceClaimName" in claim) == ("resourceClaimTemplateName" in claim):
            message = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            yield errors.invalid_value(f"{path}.resourceClaims[{index}]", claim["name"], message)
    for index, (kind, container) in enumerate(every):
        here = f"{path}.{kind}[{index if kind == 'initContainers' else index - len(every) + len(containers)}]"
        yield from _container(container, here, volumes, claims)
    yield from _unique([claim["name"] for claim in spec.get("resourceClaims", ())], f"{path}.resourceClaims")
    yield from scheduling_rules.check(spec, path)
    affinity = spec.get("affinity") or {}
    if affinity.get("podAffinity"):
        yield errors.unsupported(f"{path}.affinity.podAffinity", "pod affinity")


def _names(spec: Json, path: str) -> Iterator[Json]:
    for field in ("serviceAccountName", "priorityClassName"):
        if spec.get(field) and (said := value_formats.dns_subdomain(spec[field])):
            yield errors.invalid_value(f"{path}.{field}", spec[field], said)
    if spec.get("preemptionPolicy", "Never") not in ("Never", "PreemptLowerPriority"):
        message = f'Unsupported value: "{spec["preemptionPolicy"]}": supported values: "Never", "PreemptLowerPriority"'
        yield errors.cause(f"{path}.preemptionPolicy", "FieldValueNotSupported", message)
    yield from _profile(spec.get("securityContext") or {}, f"{path}.securityContext")


def _profile(context: Json, path: str) -> Iterator[Json]:
    profile = context.get("seccompProfile") or {}
    if profile.get("type") == "Localhost" and not profile.get("localhostProfile"):
        message = "must be set when seccomp type is Localhost"
        yield errors.required(f"{path}.seccompProfile.localhostProfile", message)
    elif profile.get("type") != "Localhost" and "localhostProfile" in profile:
        message = "can only be set when seccomp type is Localhost"
        yield errors.invalid_value(f"{path}.seccompProfile.localhostProfile", profile["localhostProfile"], message)


def _unique(names: list[str], path: str) -> Iterator[Json]:
    for name in names:
        if said := value_formats.dns_label(name):
            yield errors.invalid_value(f"{path}.name", name, said)
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield errors.cause(f"{path}.name", "FieldValueDuplicate", f'Duplicate value: "{name}"')


def _volume(volume: Json, path: str) -> Iterator[Json]:
    kinds = [key for key in volume if key != "name"]
    for kind in kinds[1:]:
        yield errors.field_forbidden(f"{path}.{kind}", "may not specify more than 1 volume type")
    for kind in kinds:
        if kind not in _VOLUMES:
            yield errors.unsupported(f"{path}.{kind}", f"{kind} volumes")
    for kind, named in (("configMap", "name"), ("secret", "secretName")):
        if kind in volume and not volume[kind].get(named):
            yield errors.required(f"{path}.{kind}.{named}")
    for index, source in enumerate(dig(volume, "projected", "sources", default=())):
        for kind in [*source][1:]:
            here = f"{path}.projected.sources[{index}].{kind}"
            yield errors.field_forbidden(here, "may not specify more than 1 volume type per source")
        for kind in source:
            if kind in ("configMap", "secret") and not source[kind].get("name"):
                yield errors.required(f"{path}.projected.sources[{index}].{kind}.name")
            if kind not in ("serviceAccountToken", "configMap", "secret", "downwardAPI"):
                yield errors.unsupported(f"{path}.projected.sources[{index}].{kind}", f"projected {kind}")


def _container(container: Json, path: str, volumes: dict[str, Json], claims: set[str]) -> Iterator[Json]:
    if not container.get("image"):
        yield errors.required(f"{path}.image")
    for field in _CONTAINER_UNSUPPORTED:
        if container.get(field):
            yield errors.unsupported(f"{path}.{field}", f"containers with {field}")
    if container.get("restartPolicy"):
        yield errors.unsupported(f"{path}.restartPolicy", "sidecar containers")
    if not container.get("command"):
        message = "a container without `command`: the entrypoint of its image is not known here"
        yield errors.unsupported(f"{path}.command", message)
    context = container.get("securityContext") or {}
    if context.get("privileged") and context.get("allowPrivilegeEscalation") is False:
        message = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        yield errors.invalid_value(f"{path}.securityContext", "…", message)
    if context.get("procMount") == "Unmasked":
        yield errors.invalid_value(f"{path}.securityContext.procMount", "Unmasked", "`hostUsers` must be false")
    yield from _profile(context, f"{path}.securityContext")
    yield from _environment(container, path)
    seen: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts", ())):
        here = f"{path}.volumeMounts[{index}]"
        if mount["name"] not in volumes:
            yield errors.cause(f"{here}.name", "FieldValueNotFound", f'Not found: "{mount["name"]}"')
        if mount["mountPath"] in seen:
            yield errors.invalid_value(f"{here}.mountPath", mount["mountPath"], "must be unique")
        seen.add(mount["mountPath"])
        for field in ("subPathExpr", "mountPropagation", "recursiveReadOnly"):
            if mount.get(field) not in (None, "None", "Disabled"):
                yield errors.unsupported(f"{here}.{field}", f"mounts with {field}")
    yield from _resources(container.get("resources") or {}, f"{path}.resources", claims)
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        if probe in container:
            yield from _probe(container[probe], f"{path}.{probe}", probe)
    ports = [port.get("name") for port in container.get("ports", ()) if port.get("name")]
    yield from _unique(ports, f"{path}.ports")


def _environment(container: Json, path: str) -> Iterator[Json]:
    for index, variable in enumerate(container.get("env", ())):
        here = f"{path}.env[{index}]"
        source = variable.get("valueFrom") or {}
        if source and variable.get("value"):
            yield errors.invalid_value(f"{here}.valueFrom", "", "may not be specified when `value` is not empty")
        if "valueFrom" in variable and len(source) != 1:
            message = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef`"
            yield errors.invalid_value(f"{here}.valueFrom", "", message)
        for kind in ("configMapKeyRef", "secretKeyRef"):
            if kind in source and (said := value_formats.dns_subdomain(source[kind].get("name", ""))):
                yield errors.invalid_value(f"{here}.valueFrom.{kind}.name", source[kind].get("name", ""), said)
        if "fieldRef" in source and source["fieldRef"].get("apiVersion", "v1") not in ("", "v1"):
            version = source["fieldRef"]["apiVersion"]
            yield errors.invalid_value(f"{here}.valueFrom.fieldRef", version, "unsupported pod version")
        field = dig(source, "fieldRef", "fieldPath")
        if field == "":
            yield errors.required(f"{here}.valueFrom.fieldRef.fieldPath")
        if field and field not in _FIELDS and not re.match(r"^metadata\.(labels|annotations)\['[^']+'\]$", field):
            yield errors.unsupported(f"{here}.valueFrom.fieldRef.fieldPath", f"fieldPath {field}")
        for kind in source:
            if kind not in ("fieldRef", "configMapKeyRef", "secretKeyRef", "resourceFieldRef"):
                yield errors.unsupported(f"{here}.valueFrom.{kind}", f"environment from {kind}")
    for index, source in enumerate(container.get("envFrom", ())):
        here = f"{path}.envFrom[{index}]"
        kinds = [kind for kind in ("configMapRef", "secretRef") if kind in source]
        if len(kinds) != 1:
            yield errors.invalid_value(here, "", "must specify one of: `configMapRef` or `secretRef`")
        for kind in kinds:
            if not source[kind].get("name"):
                yield errors.required(f"{here}.{kind}.name")


def _resources(resources: Json, path: str, claims: set[str]) -> Iterator[Json]:
    for claim in resources.get("claims", ()):
        if claim["name"] not in claims:
            message = f'Not found: "{claim["name"]}" (must be one of the names in pod.spec.resourceClaims)'
            yield errors.cause(f"{path}.claims", "FieldValueNotFound", message)
    asked = [claim["name"] + "/" + claim.get("request", "") for claim in resources.get("claims", ())]
    for name in sorted({name for name in asked if asked.count(name) > 1}):
        yield errors.cause(f"{path}.claims", "FieldValueDuplicate", f'Duplicate value: "{name}"')
    requests, limits = (quantity.amounts(resources.get(kind)) for kind in ("requests", "limits"))
    for name, limit in limits.items():
        if requests.get(name, limit) > limit:
            message = f"must be less than or equal to {name} limit of {resources['limits'][name]}"
            yield errors.invalid_value(f"{path}.requests", resources["requests"][name], message)
    for name in sorted({name for name in (*requests, *limits) if "/" in name}):
        if requests.get(name, limits.get(name)) != limits.get(name):
            message = (
                f"must be equal to {name} limit"
                if name in limits
                else "Limit must be set for non overcommitable resources"
            )
            yield errors.invalid_value(f"{path}.requests", resources["requests"][name], message)
        if limits.get(name, requests.get(name, 0)) % 1:
            yield errors.invalid_value(f"{path}.limits[{name}]", str(limits.get(name)), "must be an integer")


def _probe(probe: Json, path: str, kind: str) -> Iterator[Json]:
    handlers = [name for name in ("httpGet", "exec", "tcpSocket", "grpc") if name in probe]
    if len(handlers) != 1:
        yield errors.required(path, "must specify exactly one handler type")
    elif handlers[0] == "grpc":
        yield errors.unsupported(f"{path}.grpc", "gRPC probes")
    if "exec" in probe and not probe["exec"].get("command"):
        yield errors.required(f"{path}.exec.command")
    if kind == "readinessProbe" and "terminationGracePeriodSeconds" in probe:
        message = "must not be set for readinessProbes"
        yield errors.invalid_value(f"{path}.terminationGracePeriodSeconds", "", message)
    if dig(probe, "httpGet", "scheme", default="HTTP") != "HTTP":
        yield errors.unsupported(f"{path}.httpGet.scheme", "HTTPS probes")
    if kind != "readinessProbe" and probe.get("successThreshold", 1) != 1:
        yield errors.invalid_value(f"{path}.successThreshold", probe["successThreshold"], "must be 1")


def malformed_image(image: str) -> bool:
    """Whether the kubelet would answer InvalidImageName."""
    return not _IMAGE.match(image)


def check_update(spec: Json, old: Json) -> Iterator[Json]:
    """A pod's spec is immutable except its images, its deadline, and tolerations that are added or last longer or
    shorter: ValidatePodUpdate.
    """
    may_change = ("activeDeadlineSeconds", "tolerations")
    before, after = ({k: v for k, v in s.items() if k not in may_change} for s in (old, spec))
    for copy in (before, after):
        for kind in ("initContainers", "containers"):
            copy[kind] = [{k: v for k, v in c.items() if k != "image"} for c in copy.get(kind, ())]
    kept = [{**toleration, "tolerationSeconds": None} for toleration in spec.get("tolerations", ())]
    if any({**toleration, "tolerationSeconds": None} not in kept for toleration in old.get("tolerations", ())):
        message = "existing toleration can not be modified except its tolerationSeconds"
        yield errors.field_forbidden("spec.tolerations", message)
    if before != after:
        changeable = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.tolerations`"
        message = f"pod updates may not change fields other than {changeable}"
        yield errors.field_forbidden("spec", message)
