"""The rules of ConfigMaps and Secrets: kubernetes/kubernetes, pkg/apis/core/validation/validation.go
(ValidateConfigMapUpdate, ValidateSecret, ValidateSecretUpdate), as read at 000f26050b9b, which is older than 1.35.
"""

import base64
import json
from collections.abc import Iterator

from rehearsal.kubernetes import errors
from rehearsal.kubernetes.objects import Json, annotations_of

_LIMIT = 1024 * 1024
_ENTRIES = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
_ACCOUNT = "kubernetes.io/service-account.name"


def config_map(obj: Json, old: Json | None) -> Iterator[Json]:
    yield from _size(obj, "")
    for key in sorted({*(obj.get("data") or {})} & {*(obj.get("binaryData") or {})}):
        yield errors.invalid_value("data", key, "duplicate of key present in binaryData")
    yield from _frozen(obj, old)


def secret(obj: Json, old: Json | None) -> Iterator[Json]:
    yield from _size(obj, "data")
    yield from _frozen(obj, old)
    kind, data = obj["type"], _bytes(obj, "data") or {}
    if kind == "kubernetes.io/service-account-token" and not annotations_of(obj).get(_ACCOUNT):
        yield errors.required(f"metadata.annotations[{_ACCOUNT}]")
    if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & {*data}:
        for key in ("username", "password"):
            yield errors.required(f"data[{key}]")
    for key in _ENTRIES.get(kind, ()):
        if key not in data or (kind == "kubernetes.io/ssh-auth" and not data[key]):
            yield errors.required(f"data[{key}]")
        elif "docker" in kind and (said := _no_map(data[key])):
            yield errors.invalid_value(f"data[{key}]", "<secret contents redacted>", said)


def _no_map(raw: bytes) -> str:
    """Why Go's json.Unmarshal does not read `raw` into a map, which null fits too."""
    try:
        fits = isinstance(json.loads(raw.decode(errors="replace"), parse_constant=_no_number), dict | None)
    except (ValueError, RecursionError) as problem:
        return str(problem)
    return "" if fits else "json: cannot unmarshal into Go value of type map[string]interface {}"


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _size(obj: Json, path: str) -> Iterator[Json]:
    if sum(len(value) for field in ("data", "binaryData") for value in (_bytes(obj, field) or {}).values()) > _LIMIT:
        yield errors.cause(path, "FieldValueTooLong", f"Too long: may not be more than {_LIMIT} bytes")


def _frozen(obj: Json, old: Json | None) -> Iterator[Json]:
    """An empty map that is sent differs from none (reflect.DeepEqual); one that was stored is none (protobuf)."""
    if old is None or not old.get("immutable"):
        return
    changed = ["immutable"] if not obj.get("immutable") else []
    changed += [field for field in ("data", "binaryData") if _bytes(obj, field) != (_bytes(old, field) or None)]
    for field in changed:
        yield errors.field_forbidden(field, "field is immutable when `immutable` is set")


def _bytes(obj: Json, field: str) -> dict[str, bytes] | None:
    if obj.get(field) is None:
        return None
    if field == "data" and obj["kind"] == "ConfigMap":
        return {key: value.encode(errors="surrogatepass") for key, value in obj[field].items()}
    return {key: base64.b64decode(value) for key, value in obj[field].items()}
