"""Where the rehearsal's tools lie, and the environment that its children get."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CLOUD_PYTHON = ROOT / ".rehearsal" / "cloud" / "bin" / "python"
IMAGE = ROOT / ".rehearsal" / "image"
CDK = ROOT / "node_modules" / ".bin" / "cdk"
VLLM = ROOT / ".rehearsal" / "vllm"
LLAMA = VLLM / "models"
"""The pair as Llama models, for real vLLM."""
IMAGES = {"specdecode.invalid/rehearsal/vllm:local": VLLM}
"""Images whose programs are not IMAGE's: reference -> the folder whose bin/ comes first on their PATH."""
RUNS = ROOT / ".rehearsal" / "runs"
REGION = "us-east-2"
ACCOUNT = "000000000000"

_DROPPED = ("AWS_", "CDK_", "JSII_", "SPECDECODE_", "PYTHON", "VIRTUAL_ENV")
"""Prefixes of variables with which a child would behave differently on each machine, or reach a real account."""


class Unusable(Exception):
    """A rehearsal cannot run on this machine or checkout; the message says what to do."""


def environment(variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """The user's environment without what would leak into the rehearsal, plus `variables`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_DROPPED)}
    return kept | {"NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost"} | dict(variables or {})


def aws_environment(endpoint: str) -> dict[str, str]:
    """What points an AWS SDK or the CDK CLI at the emulator's administrator, and at nothing else.

    Where AWS is, and otherwise no more than a user sets: credentials and AWS_REGION.
    """
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_REGION": REGION,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    }


def check() -> None:
    """Raise Unusable with everything that is missing, and how to get it."""
    problems = []
    if sys.platform != "linux" or platform.machine() != "x86_64":
        problems.append(f"a rehearsal needs Linux on x86_64; this is {platform.system()} on {platform.machine()}")
    if shutil.which("node") is None:
        problems.append("node is missing: install Node.js 20 or newer (https://nodejs.org)")
    if not all(path.exists() for path in (CLOUD_PYTHON, IMAGE / "bin" / "vllm", CDK)):
        problems.append("the rehearsal's environments are not installed: run `make rehearse`, which installs them")
    if problems:
        raise Unusable("\n".join(problems))
