"""Updates that the mutants do not make, as the source of kubernetes/kubernetes v1.35 has them. A real 1.35.3 gave these
answers too; `make conformance` sends them to any other.
"""

import copy
from collections.abc import Callable

import pytest

from rehearsal.kubernetes import volume_rules
from rehearsal.kubernetes.errors import ApiError
from tests.conformance.mutants import seeds
from tests.conformance.server import Json, Server, path_of

META = "apimachinery/pkg/api/validation/objectmeta.go"
JOBS, CORE = (f"pkg/apis/{group}/validation/validation.go" for group in ("batch", "core"))
NETWORK, MERGE = "pkg/apis/networking/validation/validation.go", "structured-merge-diff typed/helpers.go"
DECODE = "apimachinery/pkg/runtime/serializer/json/json.go"
EVENT = {"apiVersion": "v1", "kind": "Event", "name": "seed", "uid": "1"}
KINDS = ("ConfigMap", "Deployment", "Job", "Pod", "RoleBinding", "Service")
UPDATES: list[tuple[str, str, Callable[[Json], object], int, str, str]] = [
    ("Job", "another backoffLimit", lambda o: o["spec"].update(backoffLimit=3), 200, "", JOBS),
    ("Service", "another ipFamily", lambda o: o["spec"].update(ipFamilies=["IPv6"]), 422, "ipFamilies", CORE),
    ("PersistentVolumeClaim", "it grows and is not bound", lambda o: _grow(o), 422, "spec is immutable", CORE),
    ("Deployment", "a probe's port is empty", lambda o: _probe(o).update(port=""), 422, "startupProbe.httpGet", CORE),
    ("NetworkPolicy", "a port is empty", lambda o: _port(o).update(port=""), 422, "ports[0].port", NETWORK),
    ("Service", "a targetPort is empty", lambda o: o["spec"]["ports"][0].update(targetPort=""), 200, "", CORE),
    *(
        (kind, what, lambda o, field=field: o["metadata"].update(field), status, said, META)
        for kind in KINDS
        for what, field, status, said in (
            ("a deletionTimestamp", {"deletionTimestamp": "2026-01-01T00:00:00Z"}, 422, "deletionTimestamp"),
            ("an Event as owner", {"ownerReferences": [EVENT]}, 422, "disallowed from being an owner"),
            ("another uid", {"uid": "another"}, 409, "Precondition failed"),
            ("a label more", {"labels": {"app": "seed", "more": "yes"}}, 200, ""),
        )
    ),
]

STATUS = ("Deployment", "Job", "Pod", "Service", "PersistentVolumeClaim")
APPLIED: list[tuple[str, str, Callable[[Json], object], int, str]] = [
    ("Deployment", "a container without name", lambda o: _container(o).pop("name"), 422, "containers[1].name"),
    ("Deployment", "a port without number", lambda o: _ports(o)[0].pop("containerPort"), 422, "containerPort"),
    ("Deployment", "a port without protocol", lambda o: _ports(o)[0].pop("protocol", None), 200, ""),
    ("Service", "a port without number", lambda o: o["spec"]["ports"][0].pop("port"), 422, "].port: "),
]


def _grow(obj: Json) -> None:
    obj["spec"]["resources"]["requests"].update(storage="900Gi")


def _pod(obj: Json) -> Json:
    found: Json = obj["spec"]["template"]["spec"]
    return found


def _container(obj: Json) -> Json:
    found: Json = _pod(obj)["containers"][0]
    return found


def _ports(obj: Json) -> list[Json]:
    return list(_container(obj).setdefault("ports", [{"containerPort": 8000, "protocol": "TCP"}])[:1])


def _probe(obj: Json) -> Json:
    found: Json = _container(obj).setdefault("startupProbe", {"httpGet": {"path": "/", "port": 1}})["httpGet"]
    return found


def _port(obj: Json) -> Json:
    spec = obj["spec"]
    (rule, *_) = [*spec.get("ingress", ()), *spec.get("egress", ())]
    found: Json = rule["ports"][0]
    return found


@pytest.fixture(scope="module")
def made(server: Server) -> dict[str, tuple[str, Json]]:
    """Kind -> the path of an object made of its seed, and the object."""
    namespace, found = server.namespace(), {}
    for kind in sorted({row[0] for row in UPDATES} | {*STATUS}):
        body = copy.deepcopy(seeds()[kind])
        path = path_of(body, namespace)
        server.ok("POST", path, body)
        found[kind] = (f"{path}/{body['metadata']['name']}", body)
    return found


@pytest.mark.parametrize(
    ("kind", "change", "status", "said"),
    [pytest.param(kind, change, status, said, id=f"{kind}, {what}") for kind, what, change, status, said, _ in UPDATES],
)
def test_an_update_gets_the_answer_of_upstream_s_source(
    server: Server,
    made: dict[str, tuple[str, Json]],
    kind: str,
    change: Callable[[Json], object],
    status: int,
    said: str,
) -> None:
    path, _ = made[kind]
    body = copy.deepcopy(server.ok("GET", path))
    body["metadata"].pop("resourceVersion")
    change(body)
    got, answer = server.request("PUT", f"{path}?dryRun=All", body)
    assert got == status and said in answer.get("message", said), answer


@pytest.mark.parametrize("kind", STATUS)
@pytest.mark.parametrize(("asked", "status"), [("Strict", 400), ("Warn", 200)])
def test_a_field_of_status_that_nobody_knows_is_read_like_every_other(
    server: Server, made: dict[str, tuple[str, Json]], kind: str, asked: str, status: int
) -> None:
    """DECODE: the whole body is decoded before the status is put aside."""
    path, _ = made[kind]
    body = copy.deepcopy(server.ok("GET", path))
    body["metadata"].pop("resourceVersion")
    body["status"] = {**body.get("status", {}), "frobnicate": 1}
    got, answer = server.request("PUT", f"{path}?dryRun=All&fieldValidation={asked}", body)
    assert got == status and (got == 200 or 'unknown field "status.frobnicate"' in answer["message"]), answer


@pytest.mark.parametrize(
    ("kind", "change", "status", "said"),
    [pytest.param(*row[:1], *row[2:], id=f"{row[0]}, {row[1]}") for row in APPLIED],
)
def test_an_apply_without_the_key_of_a_list_s_item_names_another_item(
    server: Server,
    made: dict[str, tuple[str, Json]],
    kind: str,
    change: Callable[[Json], object],
    status: int,
    said: str,
) -> None:
    """MERGE: a key that is left out has its type's default ("" or 0 in the schemas of 1.35), and names another item."""
    path, seed = made[kind]
    body = copy.deepcopy(seed)
    change(body)
    asked = "dryRun=All&fieldManager=conformance&force=true"
    headers = {"Content_Type": "application/apply-patch+yaml"}
    got, answer = server.request("PATCH", f"{path}?{asked}", body, **headers)
    assert got == status and said in answer.get("message", said), answer


def test_a_bound_claim_grows_in_no_class_of_ours() -> None:
    """plugin/pkg/admission/storage/persistentvolume/resize/admission.go. Of the double alone: elsewhere only a
    controller binds a claim.
    """
    bound = {**copy.deepcopy(seeds()["PersistentVolumeClaim"]), "status": {"phase": "Bound"}}
    grown = copy.deepcopy(bound)
    _grow(grown)
    assert not [*volume_rules.claim(copy.deepcopy(bound), bound)]
    with pytest.raises(ApiError, match="only dynamically provisioned pvc can be resized") as refused:
        list(volume_rules.claim(grown, bound))
    assert refused.value.code == 403
