"""Who may do what: tokens, access entries, RBAC."""

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.rehearsal.kubernetes.conftest import Double, start
from tests.rehearsal.kubernetes.fake_aws import ACCOUNT, FakeAws, eks_token
from tests.rehearsal.kubernetes.manifests import job, static_pool

RBAC = "/apis/rbac.authorization.k8s.io/v1"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Double]:
    aws = FakeAws()
    folder: Path = tmp_path_factory.mktemp("guarded")
    double = start(folder, "--aws-endpoint", aws.url)
    double.namespace("apps")
    double.namespace("other")
    double.helm("karpenter-crd", "1.14.1")
    double.ok("POST", "/apis/karpenter.sh/v1/nodepools", static_pool())
    entry(double, "pipeline", groups=["specdecode:pipeline"])
    rules: list[Any] = [
        {
            "apiGroups": ["karpenter.sh"],
            "resources": ["nodepools/scale"],
            "resourceNames": ["trn2"],
            "verbs": ["get", "patch"],
        },
        {"apiGroups": ["karpenter.sh"], "resources": ["nodepools"], "verbs": ["get"]},
    ]
    namespaced: list[Any] = [
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create", "get", "list"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch"]},
    ]
    subject = [{"kind": "Group", "name": "specdecode:pipeline"}]
    head = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "pipeline"}}
    ref = {"apiGroup": "rbac.authorization.k8s.io", "name": "pipeline"}
    double.ok("POST", f"{RBAC}/clusterroles", {**head, "kind": "ClusterRole", "rules": rules})
    binding = {**head, "kind": "ClusterRoleBinding", "subjects": subject, "roleRef": {**ref, "kind": "ClusterRole"}}
    double.ok("POST", f"{RBAC}/clusterrolebindings", binding)
    double.ok("POST", f"{RBAC}/namespaces/apps/roles", {**head, "kind": "Role", "rules": namespaced})
    binding = {**head, "kind": "RoleBinding", "subjects": subject, "roleRef": {**ref, "kind": "Role"}}
    double.ok("POST", f"{RBAC}/namespaces/apps/rolebindings", binding)
    yield double
    double.stop()
    aws.stop()
    assert "Traceback" not in (folder / "stderr").read_text()


def entry(double: Double, role: str, **body: Any) -> None:
    double.control(
        "access-entry",
        request="Create",
        principal_arn=f"arn:aws:iam::{ACCOUNT}:role/path/{role}",
        type="STANDARD",
        **body,
    )


REQUESTS = [
    ("POST", "/apis/batch/v1/namespaces/apps/jobs", job("a", "true"), 201),
    ("GET", "/apis/batch/v1/namespaces/apps/jobs", None, 200),
    ("POST", "/apis/batch/v1/namespaces/other/jobs", job("a", "true"), 403),
    ("DELETE", "/apis/batch/v1/namespaces/apps/jobs/a", None, 403),
    ("GET", "/apis/batch/v1/jobs", None, 403),
    ("GET", "/api/v1/namespaces/apps/pods", None, 200),
    ("GET", "/api/v1/namespaces/apps/pods/none", None, 404),
    ("GET", "/api/v1/namespaces/apps/pods/none/log", None, 403),
    ("GET", "/api/v1/namespaces/apps/secrets", None, 403),
    ("GET", "/apis/karpenter.sh/v1/nodepools/trn2", None, 200),
    ("GET", "/apis/karpenter.sh/v1/nodepools/trn2/scale", None, 200),
    ("GET", "/apis/karpenter.sh/v1/nodepools/other/scale", None, 403),
    ("DELETE", "/apis/karpenter.sh/v1/nodepools/trn2", None, 403),
    ("GET", "/apis", None, 200),
    ("GET", "/metrics", None, 403),
    ("POST", "/_rehearsal/faults", {}, 403),
]


@pytest.mark.parametrize(("method", "path", "body", "code"), REQUESTS, ids=[f"{r[0]} {r[1]}" for r in REQUESTS])
def test_a_role_gets_what_its_groups_are_bound_to(
    guarded: Double, method: str, path: str, body: Any, code: int
) -> None:
    status, answer = guarded.request(method, path, body, token=eks_token("pipeline"))
    assert status == code, answer


def test_a_refusal_says_who_what_and_where(guarded: Double) -> None:
    _, answer = guarded.request("GET", "/api/v1/namespaces/apps/secrets", token=eks_token("pipeline"))
    who = f"arn:aws:sts::{ACCOUNT}:assumed-role/pipeline/session"
    assert answer["message"] == (
        f'secrets is forbidden: User "{who}" cannot list resource "secrets" in API group "" in the namespace "apps"'
    )


def test_an_apply_that_creates_needs_the_right_to_create(guarded: Double) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    path = "/api/v1/namespaces/apps/configmaps"

    def apply() -> tuple[int, Any]:
        url, kind = f"{path}/a?fieldManager=x", "application/apply-patch+yaml"
        return guarded.request("PATCH", url, body, kind=kind, token=eks_token("pipeline"))

    status, answer = apply()
    assert status == 403 and 'cannot create resource "configmaps"' in answer["message"]
    guarded.ok("POST", path, body)
    assert apply()[0] == 200


STALE = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    "token",
    [
        eks_token("stranger"),
        eks_token("pipeline", signed=STALE),
        eks_token("pipeline", headers="host"),
        "k8s-aws-v1.bm90IGEgdXJs",
        "nonsense",
    ],
    ids=["no access entry", "expired", "no cluster in it", "no URL", "no token"],
)
def test_who_is_not_known_is_refused(guarded: Double, token: str) -> None:
    status, answer = guarded.request("GET", "/api/v1/namespaces/apps/pods", token=token)
    assert (status, answer["reason"]) == (401, "Unauthorized")


def test_access_policies_and_the_end_of_an_entry(guarded: Double) -> None:
    policy = "arn:aws:eks::aws:cluster-access-policy/"
    entry(guarded, "admin", policies=[{"policy_arn": policy + "AmazonEKSClusterAdminPolicy", "scope": "cluster"}])
    entry(
        guarded,
        "viewer",
        policies=[{"policy_arn": policy + "AmazonEKSViewPolicy", "scope": "namespace", "namespaces": ["apps"]}],
    )

    def code(role: str, method: str, path: str) -> int:
        return guarded.request(method, path, {} if method == "POST" else None, token=eks_token(role))[0]

    assert code("admin", "GET", "/api/v1/nodes") == 200
    assert code("viewer", "GET", "/api/v1/namespaces/apps/pods") == 200
    assert code("viewer", "GET", "/api/v1/namespaces/other/pods") == 403
    assert code("viewer", "POST", "/api/v1/namespaces/apps/pods") == 403
    guarded.control("access-entry", request="Delete", principal_arn=f"arn:aws:iam::{ACCOUNT}:role/path/admin")
    assert code("admin", "GET", "/api/v1/nodes") == 401


def test_self_subject_access_review(guarded: Double) -> None:
    asked = {"resource": "jobs", "group": "batch", "verb": "create", "namespace": "apps"}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    for namespace, allowed in (("apps", True), ("other", False)):
        body = {"spec": {"resourceAttributes": {**asked, "namespace": namespace}}}
        _, answer = guarded.request("POST", path, body, token=eks_token("pipeline"))
        assert answer["status"]["allowed"] is allowed
