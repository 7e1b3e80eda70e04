"""The rights of our pods in AWS: a session of a role, limited to the needs of one step of one run (ADR 127).

No service account of these pods has a role. The pipeline asks STS for the session and puts it into a Secret, which is
mounted only where our own bundle runs.
"""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Any

from pydantic import Field

from specdecode import names
from specdecode.experiment.model import Frozen
from specdecode.manifests.context import RenderContext
from specdecode.manifests.pods import KubeObject, meta

LIMIT = 2048
"""Most characters of a session policy (STS, AssumeRole, `Policy`)."""
VOLUME = "aws"
ENV = {"AWS_CONFIG_FILE": f"{VOLUME}/config"}
"""Relative, as every path of a pod is: no program of ours leaves its working directory."""
MOUNT = {"name": VOLUME, "mountPath": f"{names.WORKDIR}/{VOLUME}", "readOnly": True}
"""The whole folder: the kubelet never renews a file that is mounted by `subPath` (Kubernetes, "Secrets")."""
CONFIG = f"[default]\ncredential_process = cat {VOLUME}/credentials.json\n"
"""SDKs and the AWS CLI run the process again when `Expiration` nears (AWS SDKs guide, "Process provider")."""


class Rights(Frozen):
    """Keys of the artifact bucket, exact or beginnings that end with `*`, and whether the hub's token is needed."""

    reads: tuple[str, ...] = Field(default=())
    writes: tuple[str, ...] = Field(default=())
    token: bool = False


def session_policy(rights: Rights, ctx: RenderContext, *, partition: str = "aws") -> str:
    """The policy that narrows a role to `rights`, as STS takes it.

    The session may do what the role and this both allow. So `*` stands where the role names the resource itself: the
    bucket that is listed (without it a missing object answers 403, not 404), the key that decrypts, the one token.
    """
    objects = f"arn:{partition}:s3:::{ctx.bucket}/"
    bundle = f"arn:{partition}:s3:::{ctx.bundle_uri.removeprefix('s3://')}"
    anywhere = ["s3:ListBucket", "kms:Decrypt", "kms:GenerateDataKey"]
    anywhere += ["secretsmanager:GetSecretValue"] if rights.token else []
    statements: list[dict[str, Any]] = [
        _allow(["s3:GetObject"], [bundle, *(objects + key for key in rights.reads)]),
        _allow(anywhere, ["*"]),
    ]
    if rights.writes:
        writing = ["s3:PutObject", "s3:AbortMultipartUpload"]
        statements.append(_allow(writing, [objects + key for key in rights.writes]))
    return json.dumps({"Version": "2012-10-17", "Statement": statements}, separators=(",", ":"))


def _allow(actions: list[str], resources: list[str]) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": actions, "Resource": resources}


def volume(secret: str) -> KubeObject:
    """The volume of a pod whose session is in the Secret `secret`; the group of the pod reads it."""
    return {"name": VOLUME, "secret": {"secretName": secret, "defaultMode": 0o440}}


def session_secret(
    job: KubeObject, *, key_id: str, secret_key: str, token: str | None, until: datetime | None
) -> KubeObject:
    """The Secret with the session of the pods of `job`, called as the Job is; without `until` it is read once."""
    credentials: dict[str, Any] = {"Version": 1, "AccessKeyId": key_id, "SecretAccessKey": secret_key}
    if token is not None:
        credentials["SessionToken"] = token
    if until is not None:
        credentials["Expiration"] = until.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    files = {"config": CONFIG, "credentials.json": json.dumps(credentials)}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": meta(job["metadata"]["name"], job["metadata"]["labels"]),
        "data": {name: base64.b64encode(text.encode()).decode() for name, text in files.items()},
    }
