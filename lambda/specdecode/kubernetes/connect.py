"""The client of the cluster that the Lambda's environment names."""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping

from specdecode import aws, names
from specdecode.kubernetes.client import Kubernetes
from specdecode.kubernetes.token import LIFETIME_S, eks_token
from specdecode.kubernetes.transport import https_transport

SEES = {names.NAMESPACE_RIGHTS: (), names.GROUP_RIGHTS: ("Node", "ResourceSlice")}
"""Rights in somebody else's cluster -> kinds outside a namespace that they show. Without such rights: all kinds."""


def connect(environ: Mapping[str, str]) -> Kubernetes:
    """A client for CLUSTER_NAME at CLUSTER_ENDPOINT. It verifies the server by CLUSTER_CA (base64 of its PEM)."""
    sees = SEES.get(environ.get(names.RIGHTS_VARIABLE, ""))
    cluster, region = environ["CLUSTER_NAME"], environ["AWS_REGION"]
    session = aws.session(region=region)
    held: dict[str, tuple[str, float]] = {}

    def token(renew: bool) -> str:
        value, signed_at = held.get("token", ("", 0.0))
        if renew or time.time() - signed_at > LIFETIME_S or not value:
            value, signed_at = eks_token(session, cluster_name=cluster, region=region), time.time()
            held["token"] = (value, signed_at)
        return value

    ca_pem = base64.b64decode(environ["CLUSTER_CA"]).decode()
    transport = https_transport(endpoint=environ["CLUSTER_ENDPOINT"], ca_pem=ca_pem)
    return Kubernetes(transport, token=token, sees=sees)
