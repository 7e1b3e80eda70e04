"""A dry run of the pods of a run, and the cluster's DNS, asked with the user's kubectl."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from specdecode.cli.preflight import admitted
from specdecode.experiment import load_preset

from tests.specdecode.cli.preflight.test_cluster import world

QWEN = load_preset("qwen3-32b")
DENIED = 'Error from server: admission webhook "policy.example" denied the request: no pods of strangers'


class Api:
    """kubectl create --dry-run=server: refuses the pods of some components."""

    def __init__(self, **refused: str) -> None:
        self.refused, self.pods = refused, dict[str, Any]()

    def __call__(self, arguments: Sequence[str]) -> str:
        assert arguments[:2] == ["create", "--dry-run=server"]
        pod = json.loads(Path(arguments[-1]).read_text("utf-8"))
        component = pod["metadata"]["labels"]["app.kubernetes.io/component"]
        self.pods[component] = pod
        if component in self.refused:
            raise LookupError(self.refused[component])
        return f"pod/{pod['metadata']['name']}"


def test_a_pod_of_each_kind_as_its_controller_would_make_it():
    api = Api()
    (check,) = admitted.of_pods(world().ask(), QWEN, ask_kubectl=api)
    assert check.verdict == "ok" and set(api.pods) >= {"staging", "compile", "serving", "smoke", "benchmark"}
    assert {pod["metadata"]["ownerReferences"][0]["kind"] for pod in api.pods.values()} == {"Job", "ReplicaSet"}
    assert api.pods["serving"]["spec"]["resourceClaims"]


@pytest.mark.parametrize(
    ("words", "verdict", "fix"),
    [
        (DENIED, "fail", "The cluster's administrator excepts the namespace specdecode"),
        ('pods "x" is forbidden: failed quota: q: must specify limits.cpu for: main', "fail", "takes limits.cpu"),
        (
            'Error from server (Forbidden): error when creating "/x.json": pods "x" is forbidden: violates PodSecurity '
            '"restricted:latest": allowPrivilegeEscalation != false',
            "fail",
            "those of this version",
        ),
        ("Unable to connect to the server: dial tcp 10.0.0.1:443: i/o timeout", "warn", "reaches the cluster"),
        ('pods "x" is forbidden: error looking up service account specdecode/compile: not found', "warn", "after it"),
        ('pods is forbidden: User "me" cannot create resource "pods" in API group ""', "warn", "administrator"),
    ],
)
def test_what_a_cluster_refuses_is_said_with_who_must_do_what(words, verdict, fix):
    refused, others = admitted.of_pods(world().ask(), QWEN, ask_kubectl=Api(compile=words))
    assert (refused.name, refused.verdict, others.verdict) == ("pod of compile", verdict, "ok")
    assert fix in refused.fix


def dns(selector: dict[str, str] | None = None, *local: str) -> str:
    args = ["-localip", ",".join(local)] if local else []
    service = {"spec": {"selector": {"k8s-app": "kube-dns"} if selector is None else selector}}
    caches = [{"spec": {"template": {"spec": {"containers": [{"args": args}]}}}}]

    def answer(arguments: Sequence[str]) -> str:
        return json.dumps(service if arguments[1] == "service" else {"items": caches})

    return admitted.of_dns(answer).verdict


def test_the_cluster_s_dns_is_one_that_network_policies_open():
    assert dns() == "ok" == dns(None, "169.254.20.10")
    assert dns(None, "169.254.20.10", "172.20.0.10") == "warn"
    assert dns(None, "169.254.20.25") == "fail"
    assert dns({"app": "dns"}) == "warn" == admitted.of_dns(lambda arguments: "").verdict
