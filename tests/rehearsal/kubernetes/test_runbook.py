"""Every kubectl line of pages and messages, run unchanged with the real kubectl; those of docs/operations.md have their
effect.
"""

import json
import os
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from specdecode.cli.standalone_view import FUNCTIONS
from specdecode.names import NAMESPACE

from tests import printed
from tests.patience import PATIENCE_S
from tests.rehearsal.kubernetes.conftest import REPOSITORY, Double
from tests.rehearsal.kubernetes.manifests import job
from tests.rehearsal.kubernetes.test_karpenter import CLAIMS, POOLS, capacity, running
from tests.rehearsal.kubernetes.test_quotas import quota

__all__ = ["capacity"]
LINES = re.findall(r"^\s*kubectl (.+)$", (REPOSITORY / "docs" / "operations.md").read_text(), flags=re.M)
PRINTED = [line for _, line in (*printed.of_pages(), *printed.of_sources())]
OTHERS = {found[1] for line in PRINTED if (found := re.search(r"(?:^|\| )kubectl (.+)", line))} - {
    *LINES,
    "apply",  # these two are a name of the command
    "delete --wait",
}
JOB = job("printed", "true")
Kubectl = Callable[[str], str]


@pytest.fixture
def kubectl(kubectl_binary: Path, capacity: Double, tmp_path: Path) -> Kubectl:
    """Run a line of the runbook as an administrator, as after `aws eks update-kubeconfig`."""

    def run(line: str) -> str:
        command = shlex.join([str(kubectl_binary), *capacity.access, "--cache-dir", str(tmp_path / "cache")])
        home = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
        done = subprocess.run(
            ["bash", "-c", f"{command} {line}"],
            input=json.dumps(JOB),
            env=home,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0, (line, done.stderr)
        return done.stdout

    return run


def test_every_line_of_the_runbook_does_what_it_says(kubectl: Kubectl, capacity: Double) -> None:
    assert len(LINES) == 5, "each new line needs its effect here"
    look, pods, slices, scale, delete = LINES
    capacity.wait(CLAIMS, lambda listed: len(listed["items"]) == 1)
    capacity.namespace("specdecode")

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


def test_every_other_line_is_taken(kubectl: Kubectl, capacity: Double, tmp_path: Path) -> None:
    """Where it names a node, a namespace, a file, there is one."""
    assert len(OTHERS) > 5
    capacity.namespace("specdecode")
    capacity.namespace("chat")
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "theirs"}}
    capacity.ok("POST", "/api/v1/nodes", node)
    (tmp_path / "run.yaml").write_text(json.dumps(JOB))
    (tmp_path / "chat.key").write_text("secret")
    for line in sorted(OTHERS):
        given = line.replace("NAME", "theirs").replace(printed.HOLE, "a=b")
        if given.startswith("create "):  # kubectl sends it as protobuf, which the double does not read
            kubectl(f"{given} --dry-run=client --output json > made.json")
            kubectl("create --filename made.json")
        else:
            kubectl(given)
    labels = capacity.get("/api/v1/nodes/theirs")["metadata"]["labels"]
    assert labels["specdecode/accelerator"] == "trn2"
    assert capacity.get("/api/v1/namespaces/chat")["metadata"]["labels"]["specdecode/benchmarkable"] == "true"
    assert capacity.get("/api/v1/namespaces/specdecode/secrets/endpoint-chat")["data"].keys() == {"api-key"}
    assert capacity.get("/apis/batch/v1/namespaces/default/jobs/printed")


def test_the_shell_of_complete_manifests_gives_up_where_pods_are_refused(
    kubectl_binary: Path, double: Double, namespace: str, tmp_path: Path
) -> None:
    """It waited up to 200 minutes in silence."""
    quota(double, namespace, pods="0")
    made = job("mine", "true")
    double.ok("POST", f"/apis/batch/v1/namespaces/{namespace}/jobs", made | {"spec": made["spec"] | {"suspend": True}})
    (tmp_path / "kubectl").write_text(f'#!/bin/sh\nexec {kubectl_binary} {shlex.join(double.access)} "$@"\n')
    (tmp_path / "kubectl").chmod(0o755)
    home = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    quick = FUNCTIONS.replace(f"-n {NAMESPACE}", f"-n {namespace}").replace("sleep 5", "sleep 1")
    script = quick.replace("-lt 180", "-lt 3") + "\nstep mine"
    done = subprocess.run(["bash", "-e"], input=script, env=home, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 1, done.stderr
    assert "exceeded quota" in done.stdout and "mine: its pods are refused" in done.stdout
