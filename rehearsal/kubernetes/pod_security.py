"""Pod Security admission: a pod is refused by the level in its namespace's label.

Checks and texts: kubernetes/pod-security-admission, folder policy, checks of the newest version (pods of Linux).
`restricted` includes the checks of `baseline`.
"""

from collections.abc import Callable, Iterator

from rehearsal.kubernetes import errors
from rehearsal.kubernetes import resources as r
from rehearsal.kubernetes.etcd import Store
from rehearsal.kubernetes.objects import Json, dig, labels_of, name_of, namespace_of
from rehearsal.kubernetes.resources import Resource

LABEL = "pod-security.kubernetes.io/enforce"
_BASELINE_CAPABILITIES = {
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP",
    "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
}  # fmt: skip
_VOLUMES = {
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected", "secret",
}  # fmt: skip
_PROFILES = ("RuntimeDefault", "Localhost")
Found = Iterator[str]
Check = Callable[[Json], Found]


def enforce(store: Store, resource: Resource, obj: Json) -> None:
    """Raise 403 for a pod that the level of its namespace does not allow."""
    if resource is not r.PODS:
        return
    namespace = store.get(r.NAMESPACES, "", namespace_of(obj))
    level = labels_of(namespace).get(LABEL, "privileged") if namespace else "privileged"
    found = violations(obj["spec"], level)
    if found:
        raise errors.forbidden(resource, name_of(obj), f'violates PodSecurity "{level}:latest": {", ".join(found)}')


def violations(spec: Json, level: str) -> list[str]:
    """What `level` refuses in a pod's spec, in the server's words. An unknown level counts as `restricted`."""
    checks = {"privileged": (), "baseline": (*_BASELINE, _unconfined)}.get(level, (*_BASELINE, *_RESTRICTED))
    return [said for check in checks for said in check(spec)]


def _containers(spec: Json) -> list[Json]:
    return [*spec.get("initContainers", ()), *spec.get("containers", ()), *spec.get("ephemeralContainers", ())]


def _which(spec: Json, bad: Callable[[Json], object]) -> str:
    """`container "a"`, `containers "a", "b"`, or "": the containers whose security context is `bad`."""
    names = [c["name"] for c in _containers(spec) if bad(c.get("securityContext") or {})]
    return _quoted("container", names)


def _quoted(word: str, names: list[str]) -> str:
    shown = ", ".join(f'"{name}"' for name in names)
    return f"{word}{'s' if len(names) > 1 else ''} {shown}" if names else ""


def _setters(spec: Json, bad: Callable[[Json], object]) -> str:
    pod = "pod" if bad(spec.get("securityContext") or {}) else ""
    return " and ".join(filter(None, (pod, _which(spec, bad))))


def _host_namespaces(spec: Json) -> Found:
    used = [f"{field}=true" for field in ("hostNetwork", "hostPID", "hostIPC") if spec.get(field)]
    if used:
        yield f"host namespaces ({', '.join(used)})"


def _privileged(spec: Json) -> Found:
    if names := _which(spec, lambda context: context.get("privileged")):
        yield f"privileged ({names} must not set securityContext.privileged=true)"


def _host_paths(spec: Json) -> Found:
    names = [volume["name"] for volume in spec.get("volumes", ()) if "hostPath" in volume]
    if names:
        yield f"hostPath volumes ({_quoted('volume', names)})"


def _host_ports(spec: Json) -> Found:
    ports = {c["name"]: [p["hostPort"] for p in c.get("ports", ()) if p.get("hostPort")] for c in _containers(spec)}
    names = [name for name, used in ports.items() if used]
    if names:
        numbers = sorted({str(port) for used in ports.values() for port in used})
        verb = "uses" if len(names) == 1 else "use"
        yield f"hostPort ({_quoted('container', names)} {verb} hostPort{'s' * (len(numbers) > 1)} {', '.join(numbers)})"


def _capabilities(spec: Json) -> Found:
    def more(context: Json) -> set[str]:
        return {*dig(context, "capabilities", "add", default=())} - _BASELINE_CAPABILITIES

    if names := _which(spec, more):
        added = sorted({name for c in _containers(spec) for name in more(c.get("securityContext") or {})})
        listed = ", ".join(f'"{name}"' for name in added)
        yield f"non-default capabilities ({names} must not include {listed} in securityContext.capabilities.add)"


def _proc_mount(spec: Json) -> Found:
    if names := _which(spec, lambda context: context.get("procMount", "Default") != "Default"):
        yield f'procMount ({names} must not set securityContext.procMount to "Unmasked")'


def _apparmor(spec: Json) -> Found:
    if setters := _setters(spec, lambda context: dig(context, "appArmorProfile", "type") == "Unconfined"):
        yield f'forbidden AppArmor profile ({setters} must not set AppArmor profile type to "Unconfined")'


def _sysctls(spec: Json) -> Found:
    safe = ("kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_unprivileged_port_start",
            "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range", "net.ipv4.ip_local_reserved_ports",
            "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl",
            "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem")  # fmt: skip
    names = [s["name"] for s in dig(spec, "securityContext", "sysctls", default=()) if s["name"] not in safe]
    if names:
        yield f"forbidden sysctls ({', '.join(names)})"


def _escalation(spec: Json) -> Found:
    if names := _which(spec, lambda context: context.get("allowPrivilegeEscalation") is not False):
        yield f"allowPrivilegeEscalation != false ({names} must set securityContext.allowPrivilegeEscalation=false)"


def _drops_all(spec: Json) -> Found:
    def more(context: Json) -> set[str]:
        return {*dig(context, "capabilities", "add", default=())} - {"NET_BIND_SERVICE"}

    found = []
    if names := _which(spec, lambda context: "ALL" not in dig(context, "capabilities", "drop", default=())):
        found.append(f'{names} must set securityContext.capabilities.drop=["ALL"]')
    if names := _which(spec, more):
        added = sorted({name for c in _containers(spec) for name in more(c.get("securityContext") or {})})
        listed = ", ".join(f'"{name}"' for name in added)
        found.append(f"{names} must not include {listed} in securityContext.capabilities.add")
    if found:
        yield f"unrestricted capabilities ({'; '.join(found)})"


def _volume_types(spec: Json) -> Found:
    for volume in spec.get("volumes", ()):
        kinds = sorted({*volume} - {"name"} - _VOLUMES)
        if kinds:
            yield f'restricted volume types (volume "{volume["name"]}" uses restricted volume type "{kinds[0]}")'


def _non_root(spec: Json) -> Found:
    whole = dig(spec, "securityContext", "runAsNonRoot")
    if setters := _setters(spec, lambda context: context.get("runAsNonRoot") is False):
        yield f"runAsNonRoot != true ({setters} must not set securityContext.runAsNonRoot=false)"
    elif not whole and (names := _which(spec, lambda context: context.get("runAsNonRoot") is None)):
        yield f"runAsNonRoot != true (pod or {names} must set securityContext.runAsNonRoot=true)"


def _root_user(spec: Json) -> Found:
    if setters := _setters(spec, lambda context: context.get("runAsUser") == 0):
        yield f"runAsUser=0 ({setters} must not set runAsUser=0)"


def _profile(spec: Json) -> Found:
    def bad(context: Json) -> bool:
        return "seccompProfile" in context and context["seccompProfile"].get("type") not in _PROFILES

    whole = dig(spec, "securityContext", "seccompProfile", "type")
    if setters := _setters(spec, bad):
        yield f'seccompProfile ({setters} must not set securityContext.seccompProfile.type to "Unconfined")'
    elif not whole and (names := _which(spec, lambda context: "seccompProfile" not in context)):
        said = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
        yield f"seccompProfile (pod or {names} {said})"


def _unconfined(spec: Json) -> Found:
    if setters := _setters(spec, lambda context: dig(context, "seccompProfile", "type") == "Unconfined"):
        yield f'seccompProfile ({setters} must not set securityContext.seccompProfile.type to "Unconfined")'


_BASELINE: tuple[Check, ...] = (
    _host_namespaces, _privileged, _host_paths, _host_ports, _capabilities, _proc_mount,
    _apparmor, _sysctls,
)  # fmt: skip
_RESTRICTED: tuple[Check, ...] = (_escalation, _drops_all, _volume_types, _non_root, _root_user, _profile)
