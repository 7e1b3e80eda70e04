"""The environment of a container: its own variables, those of the Services and those of the image."""

import base64
import math
import re
from pathlib import Path

from rehearsal.kubernetes import quantity
from rehearsal.kubernetes import resources as r
from rehearsal.kubernetes.etcd import Store
from rehearsal.kubernetes.objects import Json, annotations_of, dig, labels_of, name_of, namespace_of, uid_of

_REFERENCE = re.compile(r"\$(\$|\((?P<name>[-._a-zA-Z][-._a-zA-Z0-9]*)\))")


class ConfigError(Exception):
    """A container cannot be configured: the kubelet's CreateContainerConfigError, retried until it can."""


class CreateError(Exception):
    """A container cannot be made: the kubelet's CreateContainerError, retried until it can."""


def expand(text: str, variables: dict[str, str]) -> str:
    """`text` with `$(NAME)` replaced if NAME is known, and `$$` replaced by `$`, as the kubelet does in env, command
    and args.
    """

    def one(found: re.Match[str]) -> str:
        if found[0] == "$$":
            return "$"
        return variables.get(found["name"], found[0])

    return _REFERENCE.sub(one, text)


def service_variables(store: Store, pod: Json) -> dict[str, str]:
    """`<NAME>_SERVICE_HOST`, `<NAME>_SERVICE_PORT`, `<NAME>_PORT…` of the namespace's Services."""
    found: dict[str, str] = {}
    if not pod["spec"].get("enableServiceLinks", True):
        return found
    for service in store.list(r.SERVICES, namespace_of(pod)):
        address, ports = service["spec"].get("clusterIP"), service["spec"]["ports"]
        if address in (None, "None"):
            continue
        prefix = name_of(service).upper().replace("-", "_")
        found[f"{prefix}_SERVICE_HOST"] = address
        found[f"{prefix}_SERVICE_PORT"] = str(ports[0]["port"])
        found[f"{prefix}_PORT"] = f"{ports[0]['protocol'].lower()}://{address}:{ports[0]['port']}"
        for port in ports:
            if "name" in port:
                found[f"{prefix}_SERVICE_PORT_{port['name'].upper().replace('-', '_')}"] = str(port["port"])
            base, protocol = f"{prefix}_PORT_{port['port']}_{port['protocol']}", port["protocol"].lower()
            found[base] = f"{protocol}://{address}:{port['port']}"
            found |= {f"{base}_PROTO": protocol, f"{base}_PORT": str(port["port"]), f"{base}_ADDR": address}
    return found


def build(store: Store, pod: Json, container: Json, base: dict[str, str]) -> dict[str, str]:
    """All variables of a container, later ones over earlier: the image's, the Services', envFrom, env.

    Raises ConfigError if a referenced ConfigMap, Secret or key is missing.
    """
    variables = {**base, **service_variables(store, pod)}
    for source in container.get("envFrom", ()):
        for kind, resource in (("configMapRef", r.CONFIG_MAPS), ("secretRef", r.SECRETS)):
            if kind in source:
                found = _object(store, resource, pod, source[kind])
                entries = data_of(found) if found else {}
                variables |= {source.get("prefix", "") + k: v.decode() for k, v in entries.items()}
    for variable in container.get("env", ()):
        value = _value(store, pod, container, variable, variables)
        if value is not None:
            variables[variable["name"]] = value
    return variables


def _value(store: Store, pod: Json, container: Json, variable: Json, known: dict[str, str]) -> str | None:
    source = variable.get("valueFrom")
    if not source:
        return expand(variable.get("value", ""), known)
    if "fieldRef" in source:
        return field(pod, source["fieldRef"]["fieldPath"])
    if "resourceFieldRef" in source:
        return _resource_field(container, source["resourceFieldRef"])
    for kind, resource in (("configMapKeyRef", r.CONFIG_MAPS), ("secretKeyRef", r.SECRETS)):
        if kind in source:
            ref = source[kind]
            found = _object(store, resource, pod, ref)
            value = data_of(found).get(ref["key"]) if found else None
            if value is None and found and not ref.get("optional"):
                noun = "ConfigMap" if resource is r.CONFIG_MAPS else "Secret"
                raise ConfigError(f"couldn't find key {ref['key']} in {noun} {namespace_of(pod)}/{ref['name']}")
            return value.decode() if value is not None else None
    return None


def _object(store: Store, resource: r.Resource, pod: Json, ref: Json) -> Json | None:
    found = store.get(resource, namespace_of(pod), ref["name"])
    if found is None and not ref.get("optional"):
        raise ConfigError(f'{resource.kind.lower()} "{ref["name"]}" not found')
    return found


def data_of(obj: Json) -> dict[str, bytes]:
    """The entries of a ConfigMap or Secret."""
    if obj["kind"] == "Secret":
        return {key: base64.b64decode(value) for key, value in (obj.get("data") or {}).items()}
    plain = {key: value.encode() for key, value in (obj.get("data") or {}).items()}
    return plain | {key: base64.b64decode(value) for key, value in (obj.get("binaryData") or {}).items()}


def field(pod: Json, path: str) -> str:
    """Value of a field of the downward API (`fieldRef`), empty if the pod lacks it."""
    simple = {
        "metadata.name": name_of(pod),
        "metadata.namespace": namespace_of(pod),
        "metadata.uid": uid_of(pod),
        "spec.nodeName": dig(pod, "spec", "nodeName", default=""),
        "spec.serviceAccountName": dig(pod, "spec", "serviceAccountName", default=""),
        "status.hostIP": dig(pod, "status", "hostIP", default=""),
        "status.hostIPs": dig(pod, "status", "hostIP", default=""),
        "status.podIP": dig(pod, "status", "podIP", default=""),
        "status.podIPs": dig(pod, "status", "podIP", default=""),
    }
    if path in simple:
        return str(simple[path])
    if path in ("metadata.labels", "metadata.annotations"):
        source = labels_of(pod) if path.endswith("labels") else annotations_of(pod)
        return "\n".join(f'{key}="{value}"' for key, value in sorted(source.items()))
    kind, _, key = path.partition("['")
    source = labels_of(pod) if kind == "metadata.labels" else annotations_of(pod)
    return source.get(key.removesuffix("']"), "")


def _resource_field(container: Json, ref: Json) -> str:
    kind, _, name = ref["resource"].partition(".")
    amount = quantity.amounts(dig(container, "resources", kind)).get(name, quantity.parse(0))
    divisor = quantity.parse(ref.get("divisor", "1") or "1")
    return str(math.ceil(amount / (divisor or 1)))


def image_environment(image_path: Path, pod: Json, home: Path) -> dict[str, str]:
    """The variables of the engine's image: a PATH with its programs first, a home, the pod's name as host name. The
    instance metadata service is out of reach, as it is for pods with a hop limit of 1.
    """
    return {
        "PATH": f"{image_path / 'bin'}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": str(home),
        "HOSTNAME": name_of(pod),
        "LANG": "C.UTF-8",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
