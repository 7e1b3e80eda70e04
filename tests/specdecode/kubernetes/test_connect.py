"""The bearer token: the presigned request that EKS verifies; and that no run is too long for a token."""

import base64
from datetime import UTC, datetime, timedelta
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

import boto3
from specdecode.kubernetes import connect as connecting
from specdecode.kubernetes.client import Response
from specdecode.kubernetes.connect import eks_token

from tests.local_http import Handler, served


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


def test_no_token_of_a_long_run_is_older_than_eks_takes_it(monkeypatch):
    """A warm function that looks every minute for ten hours: signed anew each quarter of an hour, not at each look."""
    now, signed, used = [1_800_000_000.0], dict[str, float](), list[float]()

    def sign(session, **given):
        signed[token := f"token-{len(signed)}"] = now[0]
        return token

    def send(method, target, headers, body):
        used.append(now[0] - signed[headers["Authorization"].removeprefix("Bearer ")])
        return Response(200, b"{}")

    monkeypatch.setattr(connecting, "eks_token", sign)
    monkeypatch.setattr(connecting, "https_transport", lambda **given: send)
    monkeypatch.setattr(connecting.time, "time", lambda: now[0])
    environ = {"CLUSTER_NAME": "c", "AWS_REGION": "us-east-2", "CLUSTER_ENDPOINT": "https://c", "CLUSTER_CA": ""}
    kube = connecting.connect(environ)
    for _ in range(600):
        kube.get("NodePool", "trn2")
        now[0] += 60
    assert len(used) == 600 and max(used) < 15 * 60
    assert 600 / 15 <= len(signed) < 600 / 10


class Sts(Handler):
    """Gives credentials for less than ten minutes, so that they are always due; keeps the tokens that it was shown."""

    shown: ClassVar[list[str]] = []

    def do_POST(self):
        form = parse_qs(self.body().decode())
        self.shown.append(form["WebIdentityToken"][0])
        ends = (datetime.now(UTC) + timedelta(minutes=9)).isoformat()
        keys = f"<AccessKeyId>key-{len(self.shown)}</AccessKeyId><SecretAccessKey>s</SecretAccessKey>"
        keys += f"<SessionToken>t</SessionToken><Expiration>{ends}</Expiration>"
        name = "AssumeRoleWithWebIdentity"
        answer = f"<{name}Response><{name}Result><Credentials>{keys}</Credentials></{name}Result></{name}Response>"
        self.reply(body=answer.encode())


def test_a_pod_of_many_hours_shows_the_token_that_the_kubelet_wrote_last(tmp_path, monkeypatch):
    """Credentials of a role end after an hour, the projected token after a day: both are renewed without a restart."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::000000000000:role/benchmark")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with served(Sts) as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", url)
        (tmp_path / "token").write_text("first")
        held = boto3.Session(region_name="us-east-2").get_credentials()
        keys = [held.get_frozen_credentials().access_key]
        (tmp_path / "token").write_text("second")
        keys.append(held.get_frozen_credentials().access_key)
    assert Sts.shown[0] == "first" and Sts.shown[-1] == "second" and keys[0] != keys[1]
