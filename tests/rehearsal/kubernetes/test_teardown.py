"""The pipeline's own client and teardown with the API, its garbage collector, and pods that end slowly."""

import json
from pathlib import Path
from typing import Any

from specdecode import names
from specdecode.kubernetes.client import Kubernetes
from specdecode.kubernetes.connect import https_transport
from specdecode.kubernetes.teardown import delete_workloads, run_selector
from specdecode.manifests import owned

from tests.rehearsal.kubernetes.conftest import Double
from tests.rehearsal.kubernetes.manifests import job, until_ended

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
