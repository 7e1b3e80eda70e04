"""The client of the cluster that the Lambda's environment names."""

import base64
import ssl
import time
from collections.abc import Mapping
from typing import Any

import urllib3
from botocore.signers import RequestSigner

from specdecode import aws, names
from specdecode.kubernetes.client import Kubernetes, Response, Transport

PREFIX = "k8s-aws-v1."
LIFETIME_S = 14 * 60
"""Lifetime of a token. EKS takes it for 15 minutes after it was signed; a minute is kept for clocks that differ."""


def eks_token(session: Any, *, cluster_name: str, region: str) -> str:
    """The bearer token that EKS accepts: a presigned GetCallerIdentity request of STS, as `aws eks get-token` makes it,
    signed with the credentials of the boto3 `session`. It sends no request.
    """
    sts = session.client("sts", region_name=region)
    signer = RequestSigner(
        sts.meta.service_model.service_id, region, "sts", "v4", session.get_credentials(), session.events
    )
    url = signer.generate_presigned_url(
        {
            "method": "GET",
            "url": f"{sts.meta.endpoint_url}/?Action=GetCallerIdentity&Version=2011-06-15",
            "body": {},
            "headers": {"x-k8s-aws-id": cluster_name},
            "context": {},
        },
        region_name=region,
        expires_in=60,
        operation_name="",
    )
    return PREFIX + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")


def https_transport(*, endpoint: str, ca_pem: str) -> Transport:
    """A transport that verifies the API server by the cluster's own CA and never retries by itself.

    An `ssl_context`: urllib3 1.26, which Lambda's runtime may have for its boto3, knows no `ca_cert_data`.
    """
    pool = urllib3.PoolManager(
        ssl_context=ssl.create_default_context(cadata=ca_pem),
        retries=False,
        timeout=urllib3.Timeout(connect=5.0, read=20.0),
    )

    def send(method: str, target: str, headers: Mapping[str, str], body: bytes | None) -> Response:
        answer = pool.request(method, endpoint.rstrip("/") + target, headers=dict(headers), body=body)
        return Response(status=answer.status, data=answer.data, headers=dict(answer.headers))

    return send


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
