"""Structured allocation of devices to ResourceClaims: classes, selectors, counts, `matchAttribute` constraints."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from rehearsal.kubernetes import cel
from rehearsal.kubernetes import resources as r
from rehearsal.kubernetes.etcd import Store
from rehearsal.kubernetes.machinery import Cluster
from rehearsal.kubernetes.objects import Json, dig, name_of, namespace_of, now, uid_of

CANNOT = "cannot allocate all claims"


@dataclass(frozen=True, kw_only=True)
class Device:
    """One device of a ResourceSlice."""

    driver: str
    pool: str
    name: str
    attributes: Json

    def attribute(self, qualified: str) -> object:
        """The value of `domain/name`, or None. The driver's own domain may be left out."""
        entry = self.attributes.get(qualified)
        if entry is None and qualified.startswith(f"{self.driver}/"):
            entry = self.attributes.get(qualified.removeprefix(f"{self.driver}/"))
        return next(iter(entry.values())) if entry else None


def claims_of(store: Store, pod: Json) -> list[tuple[str, str | None]]:
    """(name in the pod, name of the ResourceClaim) of each claim. The second is None until the claim is made."""
    made = {s["name"]: s.get("resourceClaimName") for s in dig(pod, "status", "resourceClaimStatuses", default=())}
    return [
        (entry["name"], entry.get("resourceClaimName") or made.get(entry["name"]))
        for entry in pod["spec"].get("resourceClaims", ())
    ]


def has_claims(store: Store, pod: Json) -> bool:
    """Whether all claims of the pod were made. The scheduler skips a pod without its claims and writes no condition."""
    return all(claim is not None for _, claim in claims_of(store, pod))


def waiting_for_claims(store: Store, pod: Json) -> str | None:
    """Why the pod's claims cannot be allocated yet, or None."""
    for _, claim in claims_of(store, pod):
        if claim is not None and store.get(r.CLAIMS, namespace_of(pod), claim) is None:
            return f'resourceclaim "{claim}" not found'
    return None


def allocate(store: Store, pod: Json, node: Json) -> list[tuple[Json, Json]] | str:
    """[(claim, its allocation)] for all claims of the pod on this node, or the reason why there is none."""
    found: list[tuple[Json, Json]] = []
    taken = _allocated(store)
    for _, name in claims_of(store, pod):
        claim = store.require(r.CLAIMS, namespace_of(pod), str(name))
        existing = dig(claim, "status", "allocation")
        if existing:
            if _node_of(existing) != name_of(node):
                return "node(s) cannot access the allocated claim"
            found.append((claim, existing))
            continue
        try:
            results = _solve(store, claim["spec"]["devices"], node, taken)
        except cel.Unsupported as problem:
            return f"resourceclaim {name}: {problem}"
        if results is None:
            return CANNOT
        taken |= {(result["pool"], result["device"]) for result in results}
        found.append((claim, _allocation(claim, results, node)))
    return found


def _solve(store: Store, devices: Json, node: Json, taken: set[tuple[str, str]]) -> list[Json] | None:
    """Devices for each request of one claim, or None. Constraints are met within one value of their attribute."""
    free = [d for d in _devices(store, node) if (d.pool, d.name) not in taken]
    constraints = [c for c in devices.get("constraints", ()) if "matchAttribute" in c]
    groups: dict[object, list[Device]] = {None: free}
    if constraints:
        groups = defaultdict(list)
        for device in free:
            values = tuple(device.attribute(c["matchAttribute"]) for c in constraints)
            if None not in values:
                groups[values].append(device)
    for _, group in sorted(groups.items(), key=lambda item: str(item[0])):
        results: list[Json] = []
        left = list(group)
        for request in devices.get("requests", ()):
            wanted = request["exactly"]
            fitting = [d for d in left if _selected(store, wanted, d)]
            every = [d for d in _devices(store, node) if _selected(store, wanted, d)]
            count = len(every) if wanted["allocationMode"] == "All" else wanted["count"]
            if not count or len(fitting) < count:
                break
            for device in fitting[:count]:
                left.remove(device)
                results.append(
                    {"request": request["name"], "driver": device.driver, "pool": device.pool, "device": device.name}
                )
        else:
            return results
    return None


def _selected(store: Store, wanted: Json, device: Device) -> bool:
    device_class = store.get(r.DEVICE_CLASSES, "", wanted["deviceClassName"])
    if device_class is None:
        return False
    selectors = [*dig(device_class, "spec", "selectors", default=()), *wanted.get("selectors", ())]
    return all(cel.holds(s["cel"]["expression"], device.driver, device.attributes) for s in selectors)


def _devices(store: Store, node: Json) -> Iterator[Device]:
    for published in store.list(r.SLICES):
        spec = published["spec"]
        if spec.get("nodeName") == name_of(node):
            for device in spec.get("devices", ()):
                pool = spec["pool"]["name"]
                yield Device(
                    driver=spec["driver"], pool=pool, name=device["name"], attributes=device.get("attributes", {})
                )


def _allocated(store: Store) -> set[tuple[str, str]]:
    return {
        (result["pool"], result["device"])
        for claim in store.list(r.CLAIMS)
        for result in dig(claim, "status", "allocation", "devices", "results", default=())
    }


def _allocation(claim: Json, results: list[Json], node: Json) -> Json:
    config = [{"source": "FromClaim", **entry} for entry in claim["spec"]["devices"].get("config", ())]
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name_of(node)]}]}
    devices: Json = {"results": results}
    if config:
        devices["config"] = config
    return {"devices": devices, "nodeSelector": {"nodeSelectorTerms": [term]}, "allocationTimestamp": now()}


def _node_of(allocation: Json) -> str:
    return str(dig(allocation, "nodeSelector", "nodeSelectorTerms", 0, "matchFields", 0, "values", 0))


def record(cluster: Cluster, claim: Json, allocation: Json, pod: Json) -> None:
    """Write the allocation and reserve the claim for the pod."""

    def change(obj: Json) -> None:
        status = obj.setdefault("status", {})
        status["allocation"] = allocation
        reserved = status.setdefault("reservedFor", [])
        reserved.append({"resource": "pods", "name": name_of(pod), "uid": uid_of(pod)})

    cluster.modify(r.CLAIMS, claim, change)
