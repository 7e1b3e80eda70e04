"""The paths of the rehearsal's tools, and the environment of its children."""

import errno
import os
import platform
import resource
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CLOUD_PYTHON = ROOT / ".rehearsal" / "cloud" / "bin" / "python"
IMAGE = ROOT / ".rehearsal" / "image"
CDK = ROOT / "node_modules" / ".bin" / "cdk"
VLLM = ROOT / ".rehearsal" / "vllm"
LLAMA = VLLM / "models"
"""The pair as Llama models, for real vLLM."""
IMAGES = {"specdecode.invalid/rehearsal/vllm:local": VLLM}
"""Images with other programs than IMAGE: reference -> the folder whose bin/ is first on their PATH."""
RUNS = ROOT / ".rehearsal" / "runs"
REGION = "us-east-2"
ACCOUNT = "000000000000"

RESULTS = ROOT / "results"
"""The folder into which runs are downloaded."""
RUN_BYTES, RESULT_BYTES = 500 << 20, 50 << 20
"""Measured: a rehearsal's own folder grows to 250 MB, a run's to 3 MB; twice that and room for longer ones."""
OPEN_FILES = 1024
"""Measured: the embedded AWS holds about 150 files, the Kubernetes double 120; 1024 is the usual limit of a shell."""
_REMEDIES = {
    errno.ENOSPC: "Make room on that disk and start again.",
    errno.EDQUOT: "Your quota on that disk is used up. Make room and start again.",
    errno.EROFS: "That disk is read-only. Use a checkout on another disk.",
    errno.EACCES: "Give yourself the right to write there, or use a checkout of your own.",
    errno.EPERM: "Give yourself the right to write there, or use a checkout of your own.",
    errno.ENOTDIR: "A file is in the way of a folder: move it.",
    errno.EEXIST: "A file is in the way of a folder: move it.",
    errno.EMFILE: f"Raise the limit of open files: ulimit -n {OPEN_FILES}",
    errno.ENFILE: "The whole machine has too many files open. Close programs and start again.",
    errno.ENOMEM: "The machine has too little memory. Close programs and start again.",
    errno.EAGAIN: "The machine has no room for more processes. Close programs, or raise ulimit -u.",
}

_DROPPED = ("AWS_", "CDK_", "JSII_", "SPECDECODE_", "PYTHON", "VIRTUAL_ENV")
"""Prefixes of variables that children do not get: with them a child could behave differently on each machine, or reach
a real account.
"""


NO_AWS = {
    "AWS_REGION": REGION,
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}
"""Variables of a child that calls no AWS: it knows the region, and finds no credentials of the user."""


class Unusable(Exception):
    """A rehearsal cannot run on this machine or checkout; the message says what to do."""


def environment(variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """The user's environment without the variables that must not reach the rehearsal, plus `variables`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_DROPPED)}
    return kept | {"NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost"} | dict(variables or {})


def aws_environment(endpoint: str) -> dict[str, str]:
    """Variables with which an AWS SDK or the CDK CLI calls the emulator as its administrator. They are the address of
    AWS, and what a user sets: credentials and AWS_REGION.
    """
    return NO_AWS | {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
    }


def check() -> None:
    """Raise Unusable if something is missing. The message names everything that is missing, and how to get it."""
    problems = []
    if sys.platform != "linux" or platform.machine() != "x86_64":
        problems.append(f"a rehearsal needs Linux on x86_64; this is {platform.system()} on {platform.machine()}")
    if shutil.which("node") is None:
        problems.append("node is missing: install Node.js 22 or 24 (https://nodejs.org)")
    if not all(path.exists() for path in (CLOUD_PYTHON, IMAGE / "bin" / "vllm", CDK)):
        problems.append("the rehearsal's environments are not installed: run `make rehearse`, which installs them")
    problems += [*_unwritable(), *_too_few_files()]
    if problems:
        raise Unusable("\n".join(problems))


def _unwritable() -> Iterator[str]:
    """Problems with the folders that a rehearsal writes to. They are found before the run, so that no result is
    lost.
    """
    for folder, needed in ((RUNS, RUN_BYTES), (RESULTS, RESULT_BYTES)):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                free = shutil.disk_usage(folder).free
        except OSError as error:
            yield refused_by_the_system(error)
            continue
        if free < needed:
            yield f"{folder} has {free >> 20} MiB free; a rehearsal needs {needed >> 20}: make room there"


def _too_few_files() -> Iterator[str]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= OPEN_FILES:
        return
    if hard == resource.RLIM_INFINITY or hard >= OPEN_FILES:
        resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, hard))
        return
    yield f"a process may open {hard} files here, a rehearsal needs {OPEN_FILES}: raise the hard limit (ulimit -Hn)"


def refused_by_the_system(error: OSError) -> str:
    """An error of the operating system in words: what failed, at which path, and what to do."""
    where = f" ({error.filename})" if error.filename else ""
    return f"{error.strerror or error}{where}. {_REMEDIES.get(error.errno or 0, 'Mend that and start again.')}"
