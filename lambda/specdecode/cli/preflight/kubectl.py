"""The user's kubectl: nobody of ours may look at the whole of somebody's cluster."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence

OBJECTS = ".venv/bin/python -m constructs_lib.cluster.administrator_objects | kubectl apply -f -"
"""What the cluster's administrator applies."""
TIMEOUT_S = 20

Kubectl = Callable[[Sequence[str]], str]
"""Arguments -> what it prints. OSError or LookupError says why it printed nothing."""


def kubectl(arguments: Sequence[str]) -> str:
    """What it prints, asked with the user's rights."""
    command = ["kubectl", *arguments, f"--request-timeout={TIMEOUT_S // 2}s"]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise LookupError(f"kubectl did not answer within {TIMEOUT_S} s") from None
    if ended.returncode:
        raise LookupError(" ".join(ended.stderr.split())[:300] or f"kubectl ended with {ended.returncode}")
    return ended.stdout
