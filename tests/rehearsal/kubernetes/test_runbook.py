"""The kubectl lines of docs/operations.md, run unchanged with the real kubectl. Each has its effect."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from specdecode.cli.standalone_view import FUNCTIONS
from specdecode.names import NAMESPACE

from tests.patience import PATIENCE_S
from tests.rehearsal.kubernetes.conftest import REPOSITORY, Double
from tests.rehearsal.kubernetes.manifests import claim_template, job
from tests.rehearsal.kubernetes.test_karpenter import CLAIMS, POOLS, capacity, running
from tests.rehearsal.kubernetes.test_quotas import quota

__all__ = ["capacity"]
LINES = re.findall(r"^\s*kubectl (.+)$", (REPOSITORY / "docs" / "operations.md").read_text(), flags=re.M)
Kubectl = Callable[[str], str]


def access_of(double: Double) -> list[str]:
    return ["--server", double.url, "--certificate-authority", str(double.ca_file), "--token", double.token]


@pytest.fixture
def kubectl(kubectl_binary: Path, capacity: Double, tmp_path: Path) -> Kubectl:
    """Run a line of the runbook as an administrator, as after `aws eks update-kubeconfig`."""

    def run(line: str) -> str:
        access = access_of(capacity)
        command = [str(kubectl_binary), *access, "--cache-dir", str(tmp_path / "cache"), *shlex.split(line)]
        home = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
        done = subprocess.run(command, env=home, capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.returncode == 0, (line, done.stderr)
        return done.stdout

    return run


def test_every_line_of_the_runbook_does_what_it_says(kubectl: Kubectl, capacity: Double) -> None:
    assert len(LINES) == 6, "each new line needs its effect here"
    look, pods, slices, scale, delete, templates = LINES
    capacity.wait(CLAIMS, lambda listed: len(listed["items"]) == 1)
    capacity.namespace("specdecode")
    place = "/apis/resource.k8s.io/v1/namespaces/specdecode/resourceclaimtemplates"
    capacity.ok("POST", place, claim_template(8))

    shown = kubectl(look)
    assert "nodepool.karpenter.sh/trn2" in shown and "nodeclaim.karpenter.sh/trn2-" in shown
    kubectl(pods)
    assert "neuron" in kubectl(slices)
    kubectl(delete)  # Karpenter makes another while the pool is at 1
    capacity.wait(CLAIMS, lambda listed: len(listed["items"]) == 1)
    kubectl(scale)
    assert capacity.get(f"{POOLS}/trn2")["spec"]["replicas"] == 0
    kubectl(delete)
    capacity.wait(CLAIMS, lambda listed: not listed["items"])
    assert not running(capacity), "the instance is gone"
    kubectl(templates)
    assert not capacity.get(place)["items"]


def test_the_shell_of_complete_manifests_gives_up_where_pods_are_refused(
    kubectl_binary: Path, double: Double, namespace: str, tmp_path: Path
) -> None:
    """It waited up to 200 minutes in silence."""
    quota(double, namespace, pods="0")
    made = job("mine", "true")
    double.ok("POST", f"/apis/batch/v1/namespaces/{namespace}/jobs", made | {"spec": made["spec"] | {"suspend": True}})
    (tmp_path / "kubectl").write_text(f'#!/bin/sh\nexec {kubectl_binary} {shlex.join(access_of(double))} "$@"\n')
    (tmp_path / "kubectl").chmod(0o755)
    home = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    quick = FUNCTIONS.replace(f"-n {NAMESPACE}", f"-n {namespace}").replace("sleep 5", "sleep 1")
    script = quick.replace("-lt 180", "-lt 3") + "\nstep mine"
    done = subprocess.run(["bash", "-e"], input=script, env=home, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 1, done.stderr
    assert "exceeded quota" in done.stdout and "mine: its pods are refused" in done.stdout
