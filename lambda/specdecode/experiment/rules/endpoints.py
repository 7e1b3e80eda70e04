"""Rules of servers that already run: addresses that a pod may reach, and settings that they cannot have."""

import ipaddress
import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from specdecode.experiment.endpoints import OF_A_SERVED_ARM, OF_AN_ENDPOINT, Document, has_endpoints, variants_of
from specdecode.experiment.model import Sweep
from specdecode.experiment.rules.case import EndpointCase, Finding

IN_CLUSTER = (".svc", ".svc.cluster.local")
_METADATA_NAMES = ("metadata", "metadata.google.internal", "instance-data", "instance-data.ec2.internal")
_LOCAL_SERVICES = ipaddress.ip_network("fd00:ec2::/32")
"""EC2's link-local services over IPv6: instance metadata, time, Pod Identity."""
_SHARED = ipaddress.ip_network("100.64.0.0/10")
"""Pods' addresses in clusters with custom networking, beside the private ranges."""
_NUMBER = re.compile(r"(0x[0-9a-f]*|[0-9]+)(\.(0x[0-9a-f]*|[0-9]+))*\.?")
"""Texts that resolvers read as an IPv4 address, its unusual forms too (`2852039166`, `0xa9.0xfea9fe`)."""

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def all_or_none(document: Document) -> Iterator[Finding]:
    without = [variant for variant in variants_of(document) if variant.get("endpoint") is None]
    if has_endpoints(document) and without:
        names = ", ".join(str(variant.get("name")) for variant in without)
        message = f"{names} would be served by the pipeline, and the other arms already run"
        yield "variants", message, "give every variant an endpoint, or none"
    for variant in without:
        if alone := [field for field in OF_AN_ENDPOINT if variant.get(field) is not None]:
            message = f"{' and '.join(alone)} of an endpoint, and this variant has none"
            yield f"variants.{variant.get('name')}", message, "add endpoint, or leave them out"


def settings(document: Document) -> Iterator[Finding]:
    for variant in variants_of(document):
        set_here = [field for field in OF_A_SERVED_ARM if variant.get(field)]
        if variant.get("endpoint") is not None and set_here:
            message = f"{' and '.join(set_here)} cannot be set on a server that already runs"
            yield f"variants.{variant.get('name')}", message, "leave them out"
    if has_endpoints(document) and document.get("sweep") == Sweep.ADAPTIVE:
        message = "all arms run already, so there is none to choose"
        yield "sweep", message, "write sweep: grid, which measures every arm"
    if has_endpoints(document) and document.get("hold"):
        message = "servers that already run are not stopped, so there is nothing to hold"
        yield "hold", message, "leave it out, and ask them"


def hub_sets(case: EndpointCase) -> Iterator[Finding]:
    for prompt in case.experiment.workload.cases:
        if prompt.prompts is not None and prompt.prompts.hub is not None:
            message = "a run of servers that already run stages nothing, so nobody fetches a set from the hub"
            fix = "fetch the file and put it into the bucket: `specdecode prompts add FILE`"
            yield f"workload.cases.{prompt.name}.prompts", message, fix


def url(case: EndpointCase) -> Iterator[Finding]:
    for variant in case.experiment.variants:
        for message, fix in _url_problems(variant.endpoint):
            yield f"variants.{variant.name}.endpoint", message, fix


def same(case: EndpointCase) -> Iterator[Finding]:
    seen: dict[tuple[str, str], str] = {}
    for variant in case.experiment.variants:
        model = variant.served_model_name or case.experiment.target_of(variant).id
        asked = variant.endpoint.rstrip("/").removesuffix("/v1"), model
        if asked in seen:
            message = f"{seen[asked]} and {variant.name} ask the same server for the same model"
            fix = "give each its own endpoint, or its own name of the model (served_model_name)"
            yield f"variants.{variant.name}.endpoint", message, fix
        seen.setdefault(asked, variant.name)


def _url_problems(text: str) -> Iterator[tuple[str, str]]:
    """Message and fix of each problem of an endpoint."""
    write = "write https://HOST[:PORT][/PATH]"
    try:
        parts = urlsplit(text)
        host, _ = (parts.hostname or "").rstrip("."), parts.port
    except ValueError as error:
        yield f"{text!r} is no URL: {error}", write
        return
    if not re.fullmatch(r"[!-~]+", text) or parts.scheme not in ("http", "https") or not host:
        yield f"{text!r} is no http:// or https:// URL", write
        return
    if parts.username is not None or parts.password is not None:
        yield "a name or password in a URL is stored with the run and shown in its report", "use api_key_secret"
    if parts.query or parts.fragment:
        yield "a query or fragment is not part of a server's address", f"{write}, and a key in api_key_secret"
    address = _address(host)
    if address is None and _NUMBER.fullmatch(host):
        yield f"{host} is an unusual form of an IP address", "write it as four numbers, or give a name"
    elif host in _METADATA_NAMES or (address is not None and _is_refused(address)):
        what = "the machine's own services (metadata, credentials), not of a model server"
        yield f"{host} is an address of {what}", "give the server's own"
    elif (
        parts.scheme == "http"
        and not host.endswith(IN_CLUSTER)
        and not (address and (address.is_private or address in _SHARED))
    ):
        what = "prompts and key in clear text out of the cluster; the network policy blocks it"
        fix = "use https, or http to NAME.NAMESPACE.svc or to a private address"
        yield f"http to {host} would carry {what}", fix


def _address(host: str) -> Address | None:
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


def _is_refused(address: Address) -> bool:
    """Whether it is link-local (instance metadata, Pod Identity), or no address of a server."""
    special = address.is_link_local or address.is_multicast or address.is_unspecified or address.is_reserved
    return special or address in _LOCAL_SERVICES
