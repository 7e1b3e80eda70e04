"""The bearer token: the presigned request that EKS verifies."""

import base64
from urllib.parse import parse_qs, urlsplit

import boto3
from specdecode.cluster.token import eks_token


def test_the_token_is_a_presigned_identity_request_bound_to_the_cluster():
    session = boto3.Session("AKIDEXAMPLE", "secret", "session-token", region_name="us-east-2")
    token = eks_token(session, cluster_name="specdecode", region="us-east-2")
    prefix, _, encoded = token.partition("k8s-aws-v1.")
    assert (prefix, "=" in encoded) == ("", False)
    url = urlsplit(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode())
    query = {key: values[0] for key, values in parse_qs(url.query).items()}
    assert (url.scheme, url.netloc) == ("https", "sts.us-east-2.amazonaws.com")
    assert (query["Action"], query["X-Amz-Expires"]) == ("GetCallerIdentity", "60")
    assert "x-k8s-aws-id" in query["X-Amz-SignedHeaders"].split(";")
    assert query["X-Amz-Credential"].endswith("/us-east-2/sts/aws4_request")
    assert query["X-Amz-Security-Token"] == "session-token"
