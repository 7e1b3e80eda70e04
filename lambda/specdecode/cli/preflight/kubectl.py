"""The user's kubectl. Nothing of ours may look at the whole of a cluster of yours."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence

OBJECTS = ".venv/bin/python -m constructs_lib.administrator_objects | kubectl apply -f -"
"""The command of the cluster's administrator."""
TIMEOUT_S = 20

Kubectl = Callable[[Sequence[str]], str]
"""Arguments -> output of kubectl. OSError or LookupError says why there is none."""


def kubectl(arguments: Sequence[str]) -> str:
    """The output of kubectl, run with the user's rights."""
    command = ["kubectl", *arguments, f"--request-timeout={TIMEOUT_S // 2}s"]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise LookupError(f"kubectl did not answer within {TIMEOUT_S} s") from None
    if ended.returncode:
        raise LookupError(" ".join(ended.stderr.split())[:300] or f"kubectl ended with {ended.returncode}")
    return ended.stdout
