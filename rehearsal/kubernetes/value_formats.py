"""The formats of names, keys, paths and numbers in Kubernetes. `schemas/values.yaml` uses the same names of formats.

Rules and texts: k8s.io/apimachinery pkg/util/validation/validation.go and pkg/api/resource/quantity.go; attribute and
driver names: pkg/apis/resource/validation/validation.go of kubernetes/kubernetes, v1.35.
"""

import base64
import ipaddress
import re
from collections.abc import Callable
from typing import Any

from rehearsal.kubernetes import quantity

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_QUALIFIED_TEXT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character"
)
_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character"
)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_INT = {"int32": 2**31, "int64": 2**63}
_STANDARD = ("cpu", "memory", "ephemeral-storage")


def malformed(name: str, value: Any) -> str:
    """Why a value of this form cannot be read at all, which is a 400. "" if it can."""
    if name in _INT and isinstance(value, int) and not -_INT[name] <= value < _INT[name]:
        return f"json: cannot unmarshal number {value} into Go value of type {name}"
    if name == "quantity":
        try:
            quantity.parse(value)
        except ValueError:
            return "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    if name == "byte":
        try:
            base64.b64decode(value.replace("\n", "").replace("\r", ""), validate=True)
        except ValueError:
            return "illegal base64 data at input byte 0"
    if name == "date-time" and not _TIME.fullmatch(value):
        return f'parsing time "{value}" as "2006-01-02T15:04:05Z07:00": cannot parse'
    return ""


def problem(name: str, value: Any) -> str:
    """Why `value` is not of the format, which is a 422. "" if it is."""
    check = _CHECKS.get(name)
    return check(value) if check else ""


def dns_label(value: str) -> str:
    if len(value) > 63:
        return "must be no more than 63 characters"
    fits = re.fullmatch(_LABEL, value)
    return "" if fits else "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-'"


def dns_subdomain(value: str) -> str:
    if len(value) > 253:
        return "must be no more than 253 characters"
    return "" if re.fullmatch(rf"{_LABEL}(\.{_LABEL})*", value) else _SUBDOMAIN_TEXT


def dns_1035_label(value: str) -> str:
    if len(value) > 63:
        return "must be no more than 63 characters"
    fits = re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", value)
    return (
        ""
        if fits
        else "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with a letter"
    )


def qualified_name(value: str) -> str:
    prefix, slash, name = value.rpartition("/")
    if slash and (not prefix or dns_subdomain(prefix)):
        return f"prefix part {dns_subdomain(prefix) if prefix else 'must be non-empty'}"
    if not name:
        return "name part must be non-empty"
    if len(name) > 63:
        return "name part must be no more than 63 characters"
    return "" if re.fullmatch(_QUALIFIED, name) else _QUALIFIED_TEXT


def label_value(value: str) -> str:
    if len(value) > 63:
        return "must be no more than 63 characters"
    fits = re.fullmatch(f"({_QUALIFIED})?", value)
    return (
        "" if fits else "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.'"
    )


def _config_key(value: str) -> str:
    if len(value) > 253:
        return "must be no more than 253 characters"
    if not re.fullmatch(r"[-._a-zA-Z0-9]+", value):
        return "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
    return "must not be '.' or start with '..'" if value == "." or value.startswith("..") else ""


def _environment_name(value: str) -> str:
    fits = all(" " <= char <= "~" and char != "=" for char in value)
    return (
        ""
        if fits
        else "a valid environment variable name must consist only of printable ASCII characters other than '='"
    )


def _port_name(value: str) -> str:
    if len(value) > 15:
        return "must be no more than 15 characters"
    fits = re.fullmatch(r"[-a-z0-9]+", value) and re.search("[a-z]", value) and "--" not in value
    return (
        ""
        if fits and value.strip("-") == value
        else "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
    )


def _port(value: str | int) -> str:
    if isinstance(value, str):
        return _port_name(value)
    return "" if 1 <= value <= 65535 else "must be between 1 and 65535, inclusive"


def _container_resource(value: str) -> str:
    if said := qualified_name(value):
        return said
    known = "/" in value or value in _STANDARD or value.startswith("hugepages-")
    return "" if known else "must be a standard resource type or fully qualified"


def _inner_path(value: str) -> str:
    if value.startswith("/"):
        return "must be a relative path"
    return "must not contain '..'" if ".." in value.split("/") else ""


def _cidr(value: str) -> str:
    try:
        ipaddress.ip_network(value, strict=False)
    except ValueError:
        return "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
    return "" if "/" in value else "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"


def path_segment(value: str) -> str:
    """The format of names of roles: apimachinery pkg/api/validation/path."""
    fits = value not in (".", "..") and "/" not in value and "%" not in value
    return "" if fits else "may not be '.' or '..', and may not contain '/' or '%'"


def _driver_name(value: str) -> str:
    return "must be no more than 63 characters" if len(value) > 63 else dns_subdomain(value.lower())


def _attribute_name(value: str) -> str:
    domain, slash, name = value.partition("/")
    if not slash:
        return "a fully qualified name must be a domain and a name separated by a slash"
    if said := _driver_name(domain):
        return said
    if len(name) > 32:
        return "must be no more than 32 characters"
    return (
        ""
        if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)
        else "a valid C identifier must start with alphabetic character or '_'"
    )


def _trimmed(value: str) -> str:
    return "" if value.strip() == value else "must not have leading or trailing whitespace"


_CHECKS: dict[str, Callable[[Any], str]] = {
    "attribute-name": _attribute_name,
    "cidr": _cidr,
    "config-key": _config_key,
    "container-resource": _container_resource,
    "dns-label": dns_label,
    "dns-subdomain": dns_subdomain,
    "driver-name": _driver_name,
    "environment-name": _environment_name,
    "inner-path": _inner_path,
    "path-segment": path_segment,
    "label-value": label_value,
    "port": _port,
    "port-name": _port_name,
    "qualified-name": qualified_name,
    "target-port": lambda value: _port(value) if value else "",
    "trimmed": _trimmed,
}
