"""The real kubectl, version 1.35, against the double."""

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import CompletedProcess

from tests.rehearsal.kubernetes.conftest import Double
from tests.rehearsal.kubernetes.manifests import deployment, job, service, wait_for

Kubectl = Callable[..., "CompletedProcess[str]"]


def manifest(*objects: object) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})


def test_a_job_from_apply_to_logs_to_delete(kubectl: Kubectl, namespace: str) -> None:
    n = ("-n", namespace)
    assert (
        "job.batch/hello created"
        in kubectl("apply", *n, "-f", "-", stdin=manifest(job("hello", "echo one; echo two"))).stdout
    )
    kubectl("wait", *n, "--for=condition=complete", "job/hello", "--timeout=300s")
    assert kubectl("logs", *n, "job/hello").stdout == "one\ntwo\n"
    assert kubectl("logs", *n, "job/hello", "--tail=1").stdout == "two\n"
    table = kubectl("get", *n, "jobs,pods").stdout.splitlines()
    assert table[0].split() == ["NAME", "STATUS", "COMPLETIONS", "AGE"] and table[1].split()[1:3] == ["Complete", "1/1"]
    assert any(line.split()[1:3] == ["0/1", "Completed"] for line in table[3:])
    assert "Job completed" in kubectl("describe", *n, "job/hello").stdout
    kubectl("delete", *n, "job/hello", "--timeout=300s")
    assert "No resources found" in kubectl("get", *n, "pods").stderr


def test_following_a_log_ends_with_the_container(kubectl: Kubectl, namespace: str, tmp_path: Path) -> None:
    n = ("-n", namespace)
    script = f"echo 1; {wait_for(flag := tmp_path / 'flag')}; echo 2; echo 3"
    kubectl("apply", *n, "-f", "-", stdin=manifest(job("talks", script)))
    kubectl("wait", *n, "--for=jsonpath={.status.ready}=1", "job/talks", "--timeout=300s")
    with ThreadPoolExecutor() as threads:
        following = threads.submit(kubectl, "logs", *n, "-f", "job/talks")
        time.sleep(0.5)
        assert not following.done()
        flag.touch()
        assert following.result().stdout == "1\n2\n3\n"


def test_apply_again_says_unchanged_then_configured(kubectl: Kubectl, namespace: str) -> None:
    n = ("-n", namespace)
    first = deployment("web", replicas=0)
    kubectl("apply", *n, "-f", "-", stdin=manifest(first, service("web")))
    again = kubectl("apply", *n, "-f", "-", stdin=manifest(first, service("web"))).stdout
    assert again.splitlines() == ["deployment.apps/web unchanged", "service/web unchanged"]
    first["spec"]["template"]["spec"]["containers"][0]["env"].append({"name": "MORE", "value": "1"})
    assert "configured" in kubectl("apply", *n, "-f", "-", stdin=manifest(first)).stdout
    env = kubectl("get", *n, "deploy/web", "-o", "jsonpath={.spec.template.spec.containers[0].env[*].name}").stdout
    assert env == "POD_IP MORE", "a strategic merge keeps what is in the list"


def test_server_side_apply_conflicts_until_forced(kubectl: Kubectl, namespace: str) -> None:
    n = ("-n", namespace)
    apply = ("apply", *n, "--server-side", "-f", "-")
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1", "b": "2"}}
    kubectl(*apply, "--field-manager=one", stdin=manifest(config))
    theirs = {**config, "data": {"a": "changed"}}
    refused = kubectl(*apply, "--field-manager=two", stdin=manifest(theirs), check=False)
    assert refused.returncode != 0 and 'conflict with "one"' in refused.stderr and ".data.a" in refused.stderr
    kubectl(*apply, "--field-manager=two", "--force-conflicts", stdin=manifest(theirs))
    kubectl(*apply, "--field-manager=one", stdin=manifest({**config, "data": {"c": "3"}}))
    data = json.loads(kubectl("get", *n, "cm/c", "-o", "json").stdout)["data"]
    assert data == {"a": "changed", "c": "3"}, "what `one` no longer applies goes, what `two` took stays"


def test_dry_run_and_diff_change_nothing(kubectl: Kubectl, namespace: str) -> None:
    n = ("-n", namespace)
    text = manifest(job("hello", "true"))
    assert "(server dry run)" in kubectl("apply", *n, "--dry-run=server", "-f", "-", stdin=text).stdout
    kubectl("apply", *n, "--server-side", "--dry-run=server", "-f", "-", stdin=text)
    assert "No resources found" in kubectl("get", *n, "jobs,pods").stderr


def test_rollout_scale_label_and_patch(kubectl: Kubectl, namespace: str) -> None:
    n = ("-n", namespace)
    kubectl("apply", *n, "-f", "-", stdin=manifest(deployment("web"), service("web")))
    assert "successfully rolled out" in kubectl("rollout", *n, "status", "deploy/web", "--timeout=300s").stdout
    kubectl("scale", *n, "deploy/web", "--replicas=0")
    kubectl("wait", *n, "--for=delete", "pod", "-l", "app=web", "--timeout=300s")
    kubectl("label", *n, "deploy/web", "tier=x")
    kubectl("annotate", *n, "deploy/web", "note=y")
    kubectl("patch", *n, "deploy/web", "-p", '{"spec":{"replicas":0}}')
    assert kubectl("get", *n, "deploy", "-l", "tier=x", "-o", "name").stdout == "deployment.apps/web\n"
    assert kubectl("get", *n, "deploy", "-l", "tier=other", "-o", "name").stdout == ""


def test_discovery(kubectl: Kubectl, double: Double) -> None:
    names = kubectl("api-resources", "-o", "name").stdout.split()
    assert {"pods", "jobs.batch", "resourceclaims.resource.k8s.io"} <= set(names)
    assert "v1.35" in kubectl("version").stdout


def test_namespace_deletion_takes_everything_along(kubectl: Kubectl, double: Double, namespace: str) -> None:
    kubectl("apply", "-n", namespace, "-f", "-", stdin=manifest(deployment("web"), service("web")))
    double.wait(
        f"/apis/apps/v1/namespaces/{namespace}/deployments/web", lambda d: d["status"].get("readyReplicas") == 1
    )
    kubectl("delete", "namespace", namespace, "--timeout=300s")
    assert double.request("GET", f"/api/v1/namespaces/{namespace}")[0] == 404
