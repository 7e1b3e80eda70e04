"""How a container runs a program of ours: it fetches the bundle from S3, checks its hash, and starts Python."""

from __future__ import annotations

from collections.abc import Sequence

from specdecode.exit_codes import Exit
from specdecode.manifests.context import RenderContext
from specdecode.manifests.pods import word

HOME = """\
set -eu
export HOME="$PWD" XDG_CACHE_HOME="$PWD/.cache" XDG_CONFIG_HOME="$PWD/.config" LOGNAME=specdecode
export NEURON_COMPILE_CACHE_URL="$PWD/.cache/neuron"
"""
"""First lines of every script: what libraries keep beside their files lies on the pod's own volume.

PyTorch asks for the user's name (getpass.getuser), and not every image has one for our number.
Neuron's compile cache is in /var/tmp by default, where the image's own file system would grow. What is scratch (NxD
Inference's /tmp/nxd_model, vLLM's sockets, PyTorch's inductor) goes to /tmp, a volume too.
"""
_PATH = """\
export PYTHONPATH="$PWD/bundle${LAMBDA_RUNTIME_DIR:+:$LAMBDA_RUNTIME_DIR}"
"""
"""Where Python finds the bundle, and boto3 in those of Lambda's images that have it beside their runtime
(aws/aws-lambda-web-adapter#454); the one for Python 3.11 has it among its own packages.
"""
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


def bundle_script(module: str, arguments: Sequence[str]) -> str:
    """Shell script that fetches the bundle, verifies it and becomes `python3 -m module`.

    `arguments` are words of shell source: quote literals with `specdecode.manifests.pods.word`.
    """
    return f"{HOME}{_PATH}python3 -P -c {word(_FETCH)}\n{_run(module, arguments)}"


def fetched_bundle_script(module: str, arguments: Sequence[str]) -> str:
    """The same in a container of a pod whose first container has fetched and verified the bundle."""
    return HOME + _PATH + _run(module, arguments)


def bundle_env(ctx: RenderContext) -> dict[str, str]:
    """Environment variables of a pod that runs the bundle.

    The region stands under both names: EKS's webhook adds neither where a pod has one (amazon-eks-pod-identity-webhook
    v0.6.9, pkg/handler/handler.go), and boto3 reads the second alone.
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


def _run(module: str, arguments: Sequence[str]) -> str:
    return "exec python3 -m " + " ".join([module, *arguments])
