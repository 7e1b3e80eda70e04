"""Which objects are deleted with their owner, when, and which stay, as in kube-controller-manager's garbage
collector.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from specdecode import names
from specdecode.kubernetes.client import Kubernetes
from specdecode.kubernetes.connect import https_transport
from specdecode.kubernetes.teardown import delete_workloads, run_selector
from specdecode.manifests import owned

from tests.rehearsal.kubernetes.conftest import Double
from tests.rehearsal.kubernetes.manifests import job, until_ended


def maps(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


def reference(owner: Any, *, blocks: bool = True, **wrong: str) -> Any:
    of = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
    return {**of, "blockOwnerDeletion": blocks, **wrong}


def config(double: Double, namespace: str, name: str, *owners: Any) -> Any:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "ownerReferences": list(owners)}}
    return double.ok("POST", maps(namespace), body)


def gone(double: Double, path: str) -> None:
    double.wait(path, lambda obj: obj is None)


@pytest.mark.parametrize(
    "wrong",
    [{"uid": "11111111-2222-3333-4444-555555555555"}, {"name": "another"}, {"kind": "Secret"}],
    ids=["never existed", "another name", "another kind"],
)
def test_an_object_whose_owner_is_not_there_is_collected(double: Double, namespace: str, wrong: dict[str, str]) -> None:
    owner = config(double, namespace, "owner")
    config(double, namespace, "kept", reference(owner))
    config(double, namespace, "stray", reference(owner, **wrong))
    gone(double, f"{maps(namespace)}/stray")
    assert double.get(f"{maps(namespace)}/kept")


def test_an_owner_in_another_namespace_is_none(double: Double, namespace: str) -> None:
    elsewhere = double.namespace(f"{namespace}-elsewhere")
    config(double, elsewhere, "stray", reference(config(double, namespace, "owner")))
    gone(double, f"{maps(elsewhere)}/stray")


def test_an_owner_deleted_in_the_foreground_stays_until_what_blocks_it_is_gone(
    double: Double, namespace: str, tmp_path: Path
) -> None:
    owner = config(double, namespace, "owner")
    slow = job("slow", until_ended(flag := tmp_path / "flag"), terminationGracePeriodSeconds=600)
    slow["metadata"]["ownerReferences"] = [reference(owner)]
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    double.ok("POST", jobs, slow)
    double.wait(f"{jobs}/slow", lambda j: j.get("status", {}).get("ready") == 1)
    config(double, namespace, "blocking", reference(owner))
    config(double, namespace, "not-blocking", reference(owner, blocks=False))
    double.ok("DELETE", f"{maps(namespace)}/owner", {"propagationPolicy": "Foreground"})
    for name in ("blocking", "not-blocking"):
        gone(double, f"{maps(namespace)}/{name}")
    assert "deletionTimestamp" in double.get(f"{maps(namespace)}/owner")["metadata"], "the Job's pod is still going"
    flag.touch()
    gone(double, f"{maps(namespace)}/owner")
    assert double.get(f"/api/v1/namespaces/{namespace}/pods")["items"] == []


@pytest.mark.parametrize("policy", ["Foreground", "Background"])
def test_what_has_another_owner_stays(double: Double, namespace: str, policy: str) -> None:
    first, second = (config(double, namespace, name) for name in ("first", "second"))
    config(double, namespace, "shared", reference(first), reference(second))
    config(double, namespace, "own", reference(first))
    double.ok("DELETE", f"{maps(namespace)}/first", {"propagationPolicy": policy})
    gone(double, f"{maps(namespace)}/own")
    assert double.get(f"{maps(namespace)}/shared")
    double.ok("DELETE", f"{maps(namespace)}/second")
    gone(double, f"{maps(namespace)}/shared")


PODS = f"/api/v1/namespaces/{names.NAMESPACE}/pods"


def client(double: Double) -> Kubernetes:
    return Kubernetes(
        https_transport(endpoint=double.url, ca_pem=double.ca_file.read_text()), token=lambda renew: double.token
    )


def labels(run: str, component: str) -> dict[str, str]:
    return {names.RUN_LABEL: run, names.COMPONENT_LABEL: component}


def root(kube: Kubernetes, run: str) -> Any:
    metadata = {"name": f"{run}-run", "namespace": names.NAMESPACE, "labels": labels(run, names.ROOT_COMPONENT)}
    return kube.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})


def server(double: Double, name: str, run: Any, flag: Path, **labels: str) -> None:
    body = job(name, until_ended(flag), terminationGracePeriodSeconds=600)
    body["metadata"] |= {"namespace": names.NAMESPACE, "labels": labels}
    double.ok("POST", f"/apis/batch/v1/namespaces/{names.NAMESPACE}/jobs", owned(body, run))


def test_a_job_without_the_label_and_its_pod_are_gone_when_the_teardown_says_so(fresh: Double, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    fresh.namespace(names.NAMESPACE)
    kube = client(fresh)
    first, second = root(kube, "one"), root(kube, "two")
    server(fresh, "labelled", first, flag, **labels("one", "serving"))
    server(fresh, "lost", first, flag)
    server(fresh, "another", second, flag, **labels("two", "serving"))
    fresh.wait(PODS, lambda found: [pod["status"].get("phase") for pod in found["items"]] == ["Running"] * 3)
    seen = set()
    while left := delete_workloads(kube, selector=run_selector("one")):
        seen |= set(left)
        flag.touch()
    assert "ConfigMap/one-run" in seen
    jobs = [item["metadata"]["name"] for item in kube.list("Job", namespace=names.NAMESPACE)]
    assert jobs == ["another"], "the lost one was waited for, that of another run is untouched"
    assert len(kube.list("Pod", namespace=names.NAMESPACE)) == 1
    assert "deletionTimestamp" not in json.dumps(kube.list("ConfigMap", namespace=names.NAMESPACE))
