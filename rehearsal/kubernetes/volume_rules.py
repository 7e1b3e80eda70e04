"""The rules of PersistentVolumes and their claims: kubernetes/kubernetes v1.35, pkg/apis/core/validation/validation.go
(ValidatePersistentVolume, ValidatePersistentVolumeClaim). The rehearsal has volumes of the S3 CSI driver only.
"""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from rehearsal.kubernetes import errors, quantity
from rehearsal.kubernetes import resources as r
from rehearsal.kubernetes.objects import Json, dig, name_of

_CSI_SECRETS = (
    "controllerExpandSecretRef", "controllerPublishSecretRef", "nodeExpandSecretRef", "nodePublishSecretRef",
)  # fmt: skip
_VOLUME_FIELDS = {
    "accessModes", "capacity", "claimRef", "mountOptions", "nodeAffinity", "persistentVolumeReclaimPolicy",
    "storageClassName", "volumeAttributesClassName", "volumeMode",
}  # fmt: skip
_GA_LABELS = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
}


def volume(obj: Json, old: Json | None) -> Iterator[Json]:
    spec = obj["spec"]
    driver = dig(spec, "csi", "driver")
    if driver != "s3.csi.aws.com":
        yield errors.unsupported("spec.csi.driver", "a volume that is not a Mountpoint for Amazon S3 (s3.csi.aws.com)")
    elif not dig(spec, "csi", "volumeAttributes", "bucketName"):
        yield errors.unsupported("spec.csi.volumeAttributes", "an S3 volume without bucketName")
    for kind in sorted({*spec} - _VOLUME_FIELDS - {"csi"}) if driver else ():
        yield errors.field_forbidden(f"spec.{kind}", "may not specify more than 1 volume type")
    if "nodeAffinity" in spec and not dig(spec, "nodeAffinity", "required"):
        yield errors.required("spec.nodeAffinity.required", "must specify required node constraints")
    for reference in _CSI_SECRETS:
        named = dig(spec, "csi", reference)
        if named is not None and not (named.get("name") and named.get("namespace")):
            yield errors.required(f"spec.csi.{reference}", "must have a name and a namespace")
    if {*(spec.get("capacity") or {})} - {"storage"}:
        yield errors.cause("spec.capacity", "FieldValueNotSupported", 'Unsupported value: supported values: "storage"')
    for key in ("accessModes", "capacity"):
        if not spec.get(key):
            yield errors.required(f"spec.{key}")
    yield from _positive_storage(spec.get("capacity") or {}, "spec.capacity")
    if old is not None:
        yield from _volume_update(spec, old["spec"])


def _volume_update(spec: Json, old: Json) -> Iterator[Json]:
    """ValidatePersistentVolumeUpdate, without the feature gate MutablePVNodeAffinity (alpha in 1.35, off)."""
    later = set() if "controllerExpandSecretRef" in old["csi"] else {"controllerExpandSecretRef"}
    if {key: value for key, value in (spec.get("csi") or {}).items() if key not in later} != old["csi"]:
        message = "spec.persistentvolumesource is immutable after creation"
        yield errors.field_forbidden("spec.persistentvolumesource", message)
    if spec["volumeMode"] != old["volumeMode"]:
        yield errors.invalid_value("volumeMode", spec["volumeMode"], "field is immutable")
    before, after = old.get("nodeAffinity"), spec.get("nodeAffinity")
    if before is not None and not _same_affinity(after, before):
        message = "field is immutable, except for updating from beta label to GA"
        yield errors.invalid_value("nodeAffinity", "…", message)


def _same_affinity(new: Any, old: Any) -> bool:
    """validatePvNodeAffinity: a requirement's key may change from a beta label to its GA label. To it, nothing and an
    empty list are the same.
    """
    if isinstance(new, dict) and isinstance(old, dict):
        pairs = {key: (new.get(key), old.get(key)) for key in {*new, *old}}
        return all(
            _same_affinity(after, before) or (key == "key" and _GA_LABELS.get(str(before), before) == after)
            for key, (after, before) in pairs.items()
        )
    if isinstance(new, list) and isinstance(old, list):
        return len(new) == len(old) and all(map(_same_affinity, new, old))
    return bool(new == old) or (not new and not old)


def claim(obj: Json, old: Json | None) -> Iterator[Json]:
    if not dig(obj, "spec", "accessModes"):
        yield errors.required("spec.accessModes", "at least 1 access mode is required")
    if not dig(obj, "spec", "resources", "requests", "storage"):
        yield errors.required("spec.resources[storage]")
    yield from _positive_storage(dig(obj, "spec", "resources", "requests", default={}), "spec.resources")
    if old is None:
        return
    before, after = _fixed_part(old, old), _fixed_part(obj, old)
    bound = dig(old, "spec", "volumeName")
    if before != after or (bound and bound != dig(obj, "spec", "volumeName")):
        yield errors.field_forbidden(
            "spec", "spec is immutable after creation except resources.requests for bound claims"
        )
    elif _storage(obj) > _storage(old):
        # No class of ours lets a claim grow: plugin/pkg/admission/storage/persistentvolume/resize/admission.go
        why = (
            "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support "
        )
        raise errors.forbidden(r.VOLUME_CLAIMS, name_of(obj), f"{why}resize")


def _fixed_part(obj: Json, old: Json) -> Json:
    """What no update changes in the claim that is `old`: not the volume's name, and not the storage if it is bound."""
    spec = {key: value for key, value in obj["spec"].items() if key != "volumeName"}
    if dig(old, "status", "phase") == "Bound":
        amounts = spec.get("resources") or {}
        spec["resources"] = {**amounts, "requests": {**amounts.get("requests", {}), "storage": ""}}
    return spec


def _storage(obj: Json) -> Decimal:
    return quantity.parse(dig(obj, "spec", "resources", "requests", "storage", default="0"))


def _positive_storage(amounts: Json, path: str) -> Iterator[Json]:
    if "storage" in amounts and quantity.parse(amounts["storage"]) <= 0:
        yield errors.invalid_value(f"{path}[storage]", amounts["storage"], "must be greater than zero")
