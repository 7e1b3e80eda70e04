"""Ctrl-C in the middle of the contract: everything that it made on the server is deleted."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.conformance.server import Json
from tests.patience import PATIENCE_S
from tests.rehearsal.kubernetes.conftest import REPOSITORY, Double, start

KINDS = ("namespaces", "nodes")


@pytest.mark.slow
def test_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    double = start(tmp_path)
    try:
        before = _names(double)
        environment = {**os.environ, "CONFORMANCE_KUBECONFIG": str(_kubeconfig(double, tmp_path))}
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "tests/conformance/until_stopped.py",
        ]
        with subprocess.Popen(
            command,
            cwd=REPOSITORY,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            # A shell's background jobs ignore Ctrl-C, and their children inherit that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        ) as suite:
            double.wait("/api/v1/nodes", lambda found: len(found["items"]) > len(before["nodes"]))
            double.wait(
                "/api/v1/pods", lambda found: any("conformance-" in p["metadata"]["namespace"] for p in found["items"])
            )
            suite.send_signal(signal.SIGINT)
            told, _ = suite.communicate(timeout=PATIENCE_S)
        assert suite.returncode == 2, told
        assert _names(double) == before
    finally:
        double.stop()


def _names(double: Double) -> dict[str, list[str]]:
    return {kind: sorted(o["metadata"]["name"] for o in double.get(f"/api/v1/{kind}")["items"]) for kind in KINDS}


def _kubeconfig(double: Double, folder: Path) -> Path:
    config: Json = {
        "current-context": "double",
        "contexts": [{"name": "double", "context": {"cluster": "double", "user": "admin"}}],
        "clusters": [
            {"name": "double", "cluster": {"server": double.url, "certificate-authority": str(double.ca_file)}}
        ],
        "users": [{"name": "admin", "user": {"token": double.token}}],
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path
