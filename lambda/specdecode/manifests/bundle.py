"""How a pod runs a program of ours: it fetches the bundle from S3, checks its hash, and starts Python.

Its rights in AWS are a session of a role, limited to the needs of one step of one run (ADR 127), in a Secret that is
mounted only where the bundle runs. No service account of these pods has a role.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC
from typing import Any, NamedTuple

from pydantic import Field

from specdecode import names
from specdecode.exit_codes import PERMANENT, Exit
from specdecode.experiment.base import Frozen
from specdecode.experiment.engine_parts import Resources
from specdecode.manifests.naming import RenderContext
from specdecode.manifests.pods import (
    CONTAINER,
    KubeObject,
    config_map,
    container,
    job,
    on_cpu_nodes,
    pod_template,
    secret,
    word,
)
from specdecode.planning import Plan

HOME = """\
set -eu
export HOME="$PWD" XDG_CACHE_HOME="$PWD/.cache" XDG_CONFIG_HOME="$PWD/.config" LOGNAME=specdecode
export NEURON_COMPILE_CACHE_URL="$PWD/.cache/neuron"
"""
"""What libraries keep beside their files lies on the pod's own volume.

PyTorch asks for the user's name (getpass.getuser), and not every image has one for our number. Neuron's compile cache
is in /var/tmp by default, in the image's own file system. Scratch (NxD Inference, vLLM's sockets, inductor) goes to
/tmp, a volume too.
"""
_PATH = """\
export PYTHONPATH="$PWD/bundle${LAMBDA_RUNTIME_DIR:+:$LAMBDA_RUNTIME_DIR}"
"""
"""The bundle, and boto3 in those of Lambda's images that have it beside their runtime (aws-lambda-web-adapter#454)."""
_FETCH = f"""\
import hashlib, os, sys, zipfile
uri, sha256 = os.environ["BUNDLE_URI"], os.environ["BUNDLE_SHA256"]
try:
    import boto3
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    boto3.client("s3").download_file(bucket, key, "bundle.zip")
except Exception as error:
    code = {Exit.UNAVAILABLE.value}
    print(f"specdecode: error {{code}}: cannot fetch the bundle {{uri}}: {{error}}", file=sys.stderr)
    sys.exit(code)
with open("bundle.zip", "rb") as file:
    found = hashlib.file_digest(file, "sha256").hexdigest()
if found != sha256:
    code = {Exit.CORRUPT.value}
    print(f"specdecode: error {{code}}: {{uri}} is not the bundle of this run ({{sha256}})", file=sys.stderr)
    sys.exit(code)
zipfile.ZipFile("bundle.zip").extractall("bundle")
"""
"""Python 3.11 or newer and boto3 are all that it needs of an image."""


LIMIT = 2048
"""Most characters of a session policy (STS, AssumeRole, `Policy`)."""
VOLUME = "aws"
ENV = {"AWS_CONFIG_FILE": f"{VOLUME}/config"}
"""Relative, as every path of a pod is: no program of ours leaves its working directory."""
MOUNT = {"name": VOLUME, "mountPath": f"{names.WORKDIR}/{VOLUME}", "readOnly": True}
"""The whole folder: the kubelet never renews a file that is mounted by `subPath` (Kubernetes, "Secrets")."""
CONFIG = f"[default]\ncredential_process = cat {VOLUME}/credentials.json\n"
"""SDKs and the AWS CLI run the process again when `Expiration` nears (AWS SDKs guide, "Process provider")."""


def bundle_script(module: str, arguments: Sequence[str], *, fetches: bool = True) -> str:
    """Shell script that fetches the bundle, verifies it and becomes `python3 -m module` with `arguments`, words of
    shell source: quote literals with `pods.word`. Without `fetches`, the pod's first container has done it.
    """
    fetched = f"python3 -P -c {word(_FETCH)}\n" if fetches else ""
    return f"{HOME}{_PATH}{fetched}exec python3 -m {' '.join([module, *arguments])}"


def bundle_env(ctx: RenderContext) -> dict[str, str]:
    """Environment variables of a pod that runs the bundle.

    The region has both names: EKS's webhook adds neither where one stands (amazon-eks-pod-identity-webhook v0.6.9,
    pkg/handler/handler.go), and boto3 reads the second alone.
    """
    return {
        "BUCKET": ctx.bucket,
        "BUNDLE_URI": ctx.bundle_uri,
        "BUNDLE_SHA256": ctx.bundle_sha256,
        "AWS_REGION": ctx.region,
        "AWS_DEFAULT_REGION": ctx.region,
        "AWS_RETRY_MODE": "standard",
        "AWS_MAX_ATTEMPTS": "10",
        "PYTHONUNBUFFERED": "1",
    }


class Rights(Frozen):
    """Keys of the artifact bucket, exact or beginnings that end with `*`, and whether the hub's token is needed."""

    reads: tuple[str, ...] = Field(default=())
    writes: tuple[str, ...] = Field(default=())
    clears: bool = False
    """Whether what it writes is a folder of files: those that an earlier upload left there may be deleted."""
    token: bool = False


def session_policy(rights: Rights, ctx: RenderContext, *, partition: str = "aws") -> str:
    """The policy that narrows a role to `rights`, as STS takes it: a session may do what both allow.

    So `*` stands where the role names the resource itself: the bucket that is listed (without it a missing object
    answers 403, not 404), the key that decrypts, the one token.
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
        writing = ["s3:PutObject", "s3:AbortMultipartUpload", *(["s3:DeleteObject"] if rights.clears else [])]
        statements.append(_allow(writing, [objects + key for key in rights.writes]))
    return json.dumps({"Version": "2012-10-17", "Statement": statements}, separators=(",", ":"))


def fits(rights: Rights, ctx: RenderContext) -> bool:
    """Whether STS takes the policy of `rights`, in any partition."""
    return len(session_policy(rights, ctx, partition="aws-us-gov")) <= LIMIT


def _allow(actions: list[str], resources: list[str]) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": actions, "Resource": resources}


def volume(name: str) -> KubeObject:
    """The volume of a pod whose session is in the Secret `name`; the group of the pod reads it."""
    return {"name": VOLUME, "secret": {"secretName": name, "defaultMode": 0o440}}


def session_secret(job: KubeObject, credentials: Mapping[str, Any]) -> KubeObject:
    """The Secret with the session of the pods of `job`, called as the Job is. `credentials`: as STS gives them; without
    `Expiration` they are read once.
    """
    until = credentials.get("Expiration")
    expires = {"Expiration": until.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")} if until else {}
    files = {"config": CONFIG, "credentials.json": json.dumps({"Version": 1, **credentials, **expires})}
    return secret(job["metadata"]["name"], job["metadata"]["labels"], files)


class StepJob(NamedTuple):
    """A Job for which a step waits, and what belongs to it."""

    job: KubeObject
    minutes: int
    """How long the step waits."""
    rights: Rights = Rights()
    """Of its pods, in AWS."""
    config: tuple[KubeObject, ...] = ()
    """The ConfigMap that it reads, if any: of its name."""

    @property
    def objects(self) -> tuple[KubeObject, ...]:
        return *self.config, self.job


def program_job(
    plan: Plan,
    ctx: RenderContext,
    module: str,
    arguments: Sequence[str],
    *,
    name: str,
    labels: Mapping[str, str],
    resources: Resources,
    minutes: int,
    retries: int,
    rights: Rights = Rights(),  # noqa: B008 (it is frozen)
    image: str | None = None,
    env: Mapping[str, str] | None = None,
    references: Sequence[KubeObject] = (),
    files: Mapping[str, Mapping[str, str]] | None = None,
    folders: Mapping[str, KubeObject] | None = None,
    placement: KubeObject | None = None,
    account: str = names.PLAIN_ACCOUNT,
    indexes: int = 1,
    finds_services: bool = False,
) -> StepJob:
    """Job of one container, which runs a program of the bundle with the session in the Secret of the Job's name.

    It reads below the working directory `files`, text by name in one folder, and `folders`, volumes. By default in the
    small image, on an ordinary CPU node, by an account without a role.
    """
    files = files or {}
    folders = {key: {"configMap": {"name": name}} for key in files} | dict(folders or {})
    main = container(
        image=image or plan.engine.tools_reference,
        script=bundle_script(module, arguments),
        env=bundle_env(ctx) | ENV | dict(env or {}),
        references=references,
        resources=resources,
        mounts=[MOUNT, *({"name": it, "mountPath": f"{names.WORKDIR}/{it}", "readOnly": True} for it in folders)],
        read_only_root=True,
    )
    template = pod_template(
        labels=labels,
        service_account=account,
        main=main,
        without_credentials=() if account == names.PLAIN_ACCOUNT else (CONTAINER,),
        volumes=[volume(name), *({"name": key, **source} for key, source in folders.items())],
        placement=on_cpu_nodes(makes_nodes=ctx.makes_nodes) if placement is None else placement,
        restart_policy="Never",
        finds_services=finds_services,
    )
    made = job(
        name=name,
        labels=labels,
        template=template,
        retries=retries,
        deadline_minutes=minutes,
        permanent_exits=PERMANENT,
        indexes=indexes,
    )
    return StepJob(made, minutes, rights, tuple(config_map(name, labels, data) for data in files.values()))
