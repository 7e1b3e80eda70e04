"""The bearer token that EKS accepts: a presigned STS GetCallerIdentity request, as `aws eks get-token` makes it."""

from __future__ import annotations

import base64
from typing import Any

from botocore.signers import RequestSigner

PREFIX = "k8s-aws-v1."
LIFETIME_S = 14 * 60
"""Lifetime of a token. EKS takes it for 15 minutes after it was signed; a minute is kept for clocks that differ."""


def eks_token(session: Any, *, cluster_name: str, region: str) -> str:
    """Sign a token for `cluster_name` with the credentials of the boto3 `session`. It sends no request."""
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
