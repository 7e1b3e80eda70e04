"""Who may do what in the cluster: the roles of the templates in an API server, and every identity trying every door."""

from collections.abc import Iterator
from typing import Any

import pytest
from specdecode import names

from constructs_lib.capacity.guard_access import GROUP
from constructs_lib.cluster.access import READER_GROUP, WATCHDOG_GROUP
from tests.rehearsal.kubernetes.conftest import Double, start
from tests.rehearsal.kubernetes.fake_aws import ACCOUNT, FakeAws, eks_token
from tests.templates import Templates

pytestmark = pytest.mark.synth

LOOKS, ACTS, GIVES, WATCHDOG, GUARD = "looks", "acts", "gives", "watches", "guards"
GROUPS = {
    LOOKS: {READER_GROUP},
    ACTS: {READER_GROUP, names.PIPELINE_GROUP},
    GIVES: {READER_GROUP, names.PIPELINE_GROUP, names.SESSIONS_GROUP},
    WATCHDOG: {READER_GROUP, names.PIPELINE_GROUP, WATCHDOG_GROUP},
    GUARD: {GROUP},
}
NONE: frozenset[str] = frozenset()
READERS = frozenset({LOOKS, ACTS, GIVES, WATCHDOG})
ACTORS = frozenset({ACTS, GIVES, WATCHDOG})
CORE, NS = "/api/v1", f"/api/v1/namespaces/{names.NAMESPACE}"
BATCH, APPS = f"/apis/batch/v1/namespaces/{names.NAMESPACE}", f"/apis/apps/v1/namespaces/{names.NAMESPACE}"
NETWORK = f"/apis/networking.k8s.io/v1/namespaces/{names.NAMESPACE}"
DRA, KARPENTER = "/apis/resource.k8s.io/v1", "/apis/karpenter.sh/v1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
OURS = [f"{NS}/services", f"{NS}/configmaps", f"{BATCH}/jobs", f"{APPS}/deployments"]
ELSEWHERE = ("kube-system", "default")

LOOKING: list[tuple[str, str, frozenset[str]]] = [
    ("GET", f"{CORE}/nodes", READERS),
    ("GET", f"{CORE}/events", READERS),
    ("GET", f"{CORE}/nodes/n", NONE),
    ("GET", NS, READERS),
    ("GET", f"{CORE}/namespaces", NONE),
    *[("GET", f"{CORE}/namespaces/{ns}", NONE) for ns in ELSEWHERE],
    ("GET", f"{NS}/pods", READERS),
    ("GET", f"{NS}/pods?watch=true", NONE),
    ("GET", f"{NS}/pods/p", NONE),
    ("GET", f"{NS}/pods/p/log", READERS),
    *[("GET", collection, READERS) for collection in OURS],
    *[("GET", f"{collection}/x", READERS) for collection in OURS],
    ("GET", f"{DRA}/namespaces/{names.NAMESPACE}/resourceclaims", READERS),
    ("GET", f"{DRA}/resourceslices", READERS),
    ("GET", f"{KARPENTER}/nodepools", NONE),
    ("GET", f"{KARPENTER}/nodepools/{names.NODEPOOL}", READERS | {GUARD}),
    ("GET", f"{KARPENTER}/nodepools/{names.CPU_NODEPOOL}", READERS | {GUARD}),
    ("GET", f"{KARPENTER}/nodepools/{names.STAGING_NODEPOOL}", READERS | {GUARD}),
    ("GET", f"{KARPENTER}/nodepools/another", READERS),
    ("GET", "/apis/karpenter.k8s.aws/v1/ec2nodeclasses", NONE),
    ("GET", "/apis/karpenter.k8s.aws/v1/ec2nodeclasses/staging", READERS | {GUARD}),
    ("GET", f"{KARPENTER}/nodepools/{names.NODEPOOL}/scale", NONE),
    ("GET", f"{KARPENTER}/nodeclaims", READERS | {GUARD}),
    ("GET", f"{KARPENTER}/nodeclaims/c", NONE),
    *[("GET", f"{CORE}/namespaces/{ns}/{kind}", NONE) for ns in ELSEWHERE for kind in ("pods", "configmaps")],
    ("GET", f"{CORE}/pods", NONE),
    ("GET", f"{CORE}/namespaces", NONE),
    ("GET", f"{NS}/serviceaccounts", NONE),
    ("GET", f"{RBAC}/clusterroles", NONE),
    ("GET", "/metrics", NONE),
]
SECRETS = [
    ("POST", f"{NS}/secrets", ACTORS),
    ("GET", f"{NS}/secrets", NONE),
    ("GET", f"{NS}/secrets?watch=true", NONE),
    ("GET", f"{NS}/secrets/s", NONE),
    ("PUT", f"{NS}/secrets/s", frozenset({GIVES})),
    *[("PUT", f"{CORE}/namespaces/{ns}/secrets/s", NONE) for ns in ELSEWHERE],
    ("PATCH", f"{NS}/secrets/s", NONE),
    ("DELETE", f"{NS}/secrets/s", NONE),
    ("DELETE", f"{NS}/secrets", NONE),
    ("GET", f"{CORE}/secrets", NONE),
    *[(method, f"{CORE}/namespaces/{ns}/secrets", NONE) for ns in ELSEWHERE for method in ("GET", "POST")],
]
WRITING = [
    *[("POST", collection, ACTORS) for collection in OURS],
    *[(method, f"{collection}/x", ACTORS) for collection in OURS for method in ("PATCH", "DELETE")],
    *[("PUT", f"{collection}/x", NONE) for collection in OURS],
    *[("DELETE", collection, NONE) for collection in OURS],
    *[
        (method, collection.replace(names.NAMESPACE, ns) + suffix, NONE)
        for collection in OURS
        for ns in ELSEWHERE
        for method, suffix in (("POST", ""), ("PATCH", "/x"), ("DELETE", "/x"))
    ],
    ("PATCH", f"{APPS}/deployments/x/scale", NONE),
    ("PATCH", f"{BATCH}/jobs/x/status", NONE),
    ("POST", f"{NS}/pods", NONE),
    ("PATCH", f"{NS}/pods/p", NONE),
    ("DELETE", f"{NS}/pods/p", NONE),
    ("POST", f"{NS}/pods/p/eviction", NONE),
    ("POST", f"{NS}/pods/p/binding", NONE),
    *[(method, f"{CORE}/nodes/n", NONE) for method in ("PATCH", "DELETE")],
    ("PATCH", f"{KARPENTER}/nodepools/{names.NODEPOOL}/scale", ACTORS),
    ("PATCH", f"{KARPENTER}/nodepools/{names.CPU_NODEPOOL}/scale", ACTORS),
    ("PUT", f"{KARPENTER}/nodepools/{names.NODEPOOL}/scale", NONE),
    ("PATCH", f"{KARPENTER}/nodepools/{names.STAGING_NODEPOOL}/scale", NONE),
    ("PATCH", f"{KARPENTER}/nodepools/another/scale", NONE),
    *[(method, f"{KARPENTER}/nodepools/{names.NODEPOOL}", NONE) for method in ("PATCH", "PUT", "DELETE")],
    ("POST", f"{KARPENTER}/nodepools", NONE),
    ("DELETE", f"{KARPENTER}/nodeclaims/c", frozenset({WATCHDOG, GUARD})),
    ("DELETE", f"{KARPENTER}/nodeclaims", NONE),
    ("PATCH", f"{KARPENTER}/nodeclaims/c", NONE),
    ("PATCH", "/apis/karpenter.k8s.aws/v1/ec2nodeclasses/trn2", NONE),
    *[("POST", f"{RBAC}/{kind}", NONE) for kind in ("clusterroles", "clusterrolebindings")],
    *[("POST", f"{RBAC}/namespaces/{names.NAMESPACE}/{kind}", NONE) for kind in ("roles", "rolebindings")],
    ("PATCH", f"{RBAC}/namespaces/{names.NAMESPACE}/roles/specdecode-pipeline", NONE),
    ("PATCH", f"{NS}/serviceaccounts/specdecode-staging", NONE),
    *[(method, NS, NONE) for method in ("PATCH", "DELETE")],
    ("POST", f"{CORE}/namespaces", NONE),
    *[(method, f"{NS}/resourcequotas/{names.NAMESPACE}", NONE) for method in ("PATCH", "DELETE")],
    *[(method, f"{NS}/limitranges/{names.NAMESPACE}", NONE) for method in ("PATCH", "DELETE")],
    *[(method, f"{NETWORK}/networkpolicies/specdecode-default-deny", NONE) for method in ("PATCH", "DELETE")],
    ("DELETE", f"{CORE}/persistentvolumes/specdecode-models", NONE),
    ("DELETE", f"{NS}/persistentvolumeclaims/specdecode-models", NONE),
    ("PATCH", f"{DRA}/namespaces/{names.NAMESPACE}/resourceclaimtemplates/t", NONE),
    ("DELETE", f"{DRA}/namespaces/{names.NAMESPACE}/resourceclaims/c", NONE),
    ("DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/nodepools.karpenter.sh", NONE),
]  # fmt: skip
NEVER = [
    ("create", "", "pods/exec"),
    ("create", "", "pods/attach"),
    ("create", "", "pods/portforward"),
    ("update", "", "pods/ephemeralcontainers"),
    ("get", "", "services/proxy"),
    ("get", "", "nodes/proxy"),
    ("create", "", "serviceaccounts/token"),
    ("impersonate", "", "users"),
    ("impersonate", "", "groups"),
    ("bind", "rbac.authorization.k8s.io", "clusterroles"),
    ("escalate", "rbac.authorization.k8s.io", "roles"),
    ("approve", "certificates.k8s.io", "signers"),
]
"""Subresources and verbs that no path of the double serves: asked of the authorizer (SelfSubjectAccessReview)."""


@pytest.fixture(scope="module")
def cluster(templates: Templates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Double]:
    """An API server with the access of the templates and nothing else."""
    aws = FakeAws()
    double = start(tmp_path_factory.mktemp("rbac"), "--aws-endpoint", aws.url)
    chart = {"namespace": "kube-system", "chart": "karpenter-crd", "version": "1.14.1"}
    double.control("helm", request="Create", release="crd", **chart)
    double.namespace(names.NAMESPACE)
    for obj in templates.manifests().values():
        if obj["apiVersion"].startswith("rbac."):
            scope = f"/namespaces/{obj['metadata']['namespace']}" if "namespace" in obj["metadata"] else ""
            double.ok("POST", f"{RBAC}{scope}/{obj['kind'].lower()}s", obj)
    for identity, groups in GROUPS.items():
        principal = f"arn:aws:iam::{ACCOUNT}:role/{identity}"
        double.control(
            "access-entry", request="Create", principal_arn=principal, type="STANDARD", groups=sorted(groups)
        )
    yield double
    double.stop()
    aws.stop()


def test_every_identity_of_the_templates_is_one_of_these(templates: Templates) -> None:
    entries = templates.properties("AWS::EKS::AccessEntry").values()
    standing = [set(entry["KubernetesGroups"]) for entry in entries if "KubernetesGroups" in entry]
    assert standing and all(groups in GROUPS.values() for groups in standing)


@pytest.mark.parametrize("identity", GROUPS)
@pytest.mark.parametrize("doors", [LOOKING, SECRETS, WRITING], ids=["looking", "secrets", "writing"])
def test_who_may_do_what(cluster: Double, identity: str, doors: list[tuple[str, str, frozenset[str]]]) -> None:
    """403 is a refusal; any other answer (mostly that there is no such object, or that it is no good) is none."""
    token, wrong = eks_token(identity), []
    for method, path, allowed in doors:
        body: Any = None if method in ("GET", "DELETE") else {"kind": "nothing of the sort"}
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        code, answer = cluster.request(method, path, body, kind=kind, token=token)
        assert code != 401, answer
        if (code != 403) is not (identity in allowed):
            wrong.append((method, path, code))
        if code == 403:
            assert "cannot" in answer["message"], answer
    assert wrong == []


@pytest.mark.parametrize("identity", GROUPS)
def test_what_nobody_may(cluster: Double, identity: str) -> None:
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    for verb, group, resource in NEVER:
        plural, _, sub = resource.partition("/")
        for namespace in (names.NAMESPACE, "kube-system", ""):
            asked = {"verb": verb, "group": group, "resource": plural, "subresource": sub, "namespace": namespace}
            body = {"spec": {"resourceAttributes": asked}}
            _, answer = cluster.request("POST", path, body, token=eks_token(identity))
            assert answer["status"]["allowed"] is False, (identity, asked)


def test_the_reviews_would_say_so_if_it_were_allowed(cluster: Double) -> None:
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    asked = {"verb": "get", "group": "", "resource": "pods", "subresource": "log", "namespace": names.NAMESPACE}
    _, answer = cluster.request("POST", path, {"spec": {"resourceAttributes": asked}}, token=eks_token(LOOKS))
    assert answer["status"]["allowed"] is True


def test_a_pipeline_that_applies_what_does_not_exist_may_create_it(cluster: Double) -> None:
    metadata = {"name": "applied", "namespace": names.NAMESPACE}
    path = f"{NS}/configmaps/applied?fieldManager=specdecode&force=true"
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    codes = {
        identity: cluster.request("PATCH", path, body, kind="application/apply-patch+yaml", token=eks_token(identity))[
            0
        ]
        for identity in (LOOKS, GUARD, ACTS)
    }
    assert codes == {LOOKS: 403, GUARD: 403, ACTS: 201}
