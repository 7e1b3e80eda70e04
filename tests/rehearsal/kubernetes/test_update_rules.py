"""Updates and typed Secrets, as the source of kubernetes/kubernetes has them. No real server's answers to these are
recorded: each row names the function that it follows.
"""

import base64
import copy
from collections.abc import Callable

import pytest

from tests.rehearsal.kubernetes.conftest import Double
from tests.rehearsal.kubernetes.manifests import Json, made, pod, service

ZONE, BETA_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
CSI = {"driver": "s3.csi.aws.com", "volumeHandle": "v", "volumeAttributes": {"bucketName": "b"}}
VOLUME = made(
    "v1", "PersistentVolume", "v", {"accessModes": ["ReadOnlyMany"], "capacity": {"storage": "1Gi"}, "csi": CSI}
)
INIT = {"name": "init", "image": "example.com/engine:1", "command": ["/bin/true"]}
FROZEN = "field is immutable when `immutable` is set"
DELETED = "no new finalizers can be added if the object is being deleted"


def _map(**more: object) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"entry": "text"}, **more}


def _secret(**more: object) -> Json:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"entry": "AAAA"}, **more}


def _near(key: str) -> Json:
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": ["a"]}]}
    return {"required": {"nodeSelectorTerms": [term]}}


def _volume(**more: object) -> Json:
    return {**VOLUME, "spec": {**VOLUME["spec"], **more}}


def _no_key(obj: Json) -> None:
    del obj["data"]["tls.key"]


TLS = _secret(type="kubernetes.io/tls", data={"tls.crt": "", "tls.key": ""})
UPDATES: list[tuple[str, str, Json, Callable[[Json], object], int, str]] = [
    *(
        ("patchAllocatedValues", f"a Service, {what}", service("s"), change, status, said)
        for what, change, status, said in (
            ("no clusterIP", lambda o: o["spec"].pop("clusterIP"), 200, ""),
            ("no clusterIPs", lambda o: o["spec"].pop("clusterIPs"), 200, ""),
            ("empty clusterIPs", lambda o: o["spec"].update(clusterIPs=[]), 200, ""),
            ("another clusterIP", lambda o: o["spec"].update(clusterIP="10.0.0.1", clusterIPs=[]), 422, "imm"),
            ("without address", lambda o: o["spec"].update(clusterIP="None", clusterIPs=["None"]), 422, "imm"),
        )
    ),
    *(
        ("ValidateConfigMapUpdate", f"an immutable map, {what}", _map(immutable=True), change, status, said)
        for what, change, status, said in (
            ("other data", lambda o: o.update(data={"entry": "other"}), 422, f"data: Forbidden: {FROZEN}"),
            ("binaryData", lambda o: o.update(binaryData={"raw": "AAAA"}), 422, f"binaryData: Forbidden: {FROZEN}"),
            ("no entry in binaryData", lambda o: o.update(binaryData={}), 422, f"binaryData: Forbidden: {FROZEN}"),
            ("immutable: false", lambda o: o.update(immutable=False), 422, f"immutable: Forbidden: {FROZEN}"),
            ("immutable dropped", lambda o: o.pop("immutable"), 422, f"immutable: Forbidden: {FROZEN}"),
            ("a label", lambda o: o["metadata"].update(labels={"a": "b"}), 200, ""),
        )
    ),
    ("ValidateConfigMapUpdate", "a map is frozen", _map(), lambda o: o.update(immutable=True, data={}), 200, ""),
    *(
        ("ValidateSecretUpdate", f"an immutable Secret, {what}", _secret(immutable=True), change, status, said)
        for what, change, status, said in (
            ("immutable: false", lambda o: o.update(immutable=False), 422, f"immutable: Forbidden: {FROZEN}"),
            ("other stringData", lambda o: o.update(stringData={"other": "x"}), 422, f"data: Forbidden: {FROZEN}"),
            ("the same stringData", lambda o: o.update(stringData={"entry": "\0\0\0"}), 200, ""),
            ("the same data in two lines", lambda o: o.update(data={"entry": "AA\nAA"}), 200, ""),
        )
    ),
    ("ValidateSecret", "a TLS Secret, tls.key dropped", TLS, _no_key, 422, "data[tls.key]: Required value"),
    ("ValidatePersistentVolumeUpdate", "a volume, volumeMode", VOLUME, lambda o: o["spec"].update(volumeMode="Block"),
     422, "volumeMode: Invalid value"),
    ("ValidatePersistentVolumeUpdate", "a volume, nodeAffinity is set", VOLUME,
     lambda o: o["spec"].update(nodeAffinity=_near("a")), 200, ""),
    ("ValidatePersistentVolumeUpdate", "a volume, controllerExpandSecretRef is set", VOLUME,
     lambda o: o["spec"]["csi"].update(controllerExpandSecretRef={"name": "a", "namespace": "b"}), 200, ""),
    ("ValidatePersistentVolumeUpdate", "a volume, nodePublishSecretRef is set", VOLUME,
     lambda o: o["spec"]["csi"].update(nodePublishSecretRef={"name": "a", "namespace": "b"}), 422, "is immutable"),
    *(
        ("validatePvNodeAffinity", f"a volume near {what}", _volume(nodeAffinity=_near(before)), change, status, said)
        for what, before, change, status, said in (
            ("another", "a", lambda o: o["spec"].update(nodeAffinity=_near("b")), 422, "field is immutable, except"),
            ("none now", "a", lambda o: o["spec"].pop("nodeAffinity"), 422, "field is immutable, except"),
            ("a GA label", BETA_ZONE, lambda o: o["spec"].update(nodeAffinity=_near(ZONE)), 200, ""),
            ("a beta label", ZONE, lambda o: o["spec"].update(nodeAffinity=_near(BETA_ZONE)), 422, "except"),
        )
    ),
    ("ValidatePodUpdate", "a pod, another init image", pod("p", "true", initContainers=[INIT], nodeSelector={"a": "b"}),
     lambda o: o["spec"]["initContainers"][0].update(image="example.com/engine:2"), 200, ""),
    ("ValidatePodUpdate", "a pod, another init command",
     pod("p", "true", initContainers=[INIT], nodeSelector={"a": "b"}),
     lambda o: o["spec"]["initContainers"][0].update(command=["/bin/false"]), 422, "may not change fields other than"),
    *(
        ("ValidateAnnotationsSize", f"annotations of {what}", _map(), change, status, said)
        for what, change, status, said in (
            ("280,001 bytes", lambda o: o["metadata"].update(annotations={"a": "é" * 140_000}), 422, "Too long"),
            ("262,144 bytes", lambda o: o["metadata"].update(annotations={"ab": "é" * 131_071}), 200, ""),
            ("half a character", lambda o: o["metadata"].update(annotations={"a": "\ud800"}), 200, ""),
        )
    ),
]  # fmt: skip
SECRETS: list[tuple[str, Json, int, str]] = [
    ("kubernetes.io/tls", {"data": {"tls.crt": ""}}, 422, "data[tls.key]: Required value"),
    ("kubernetes.io/tls", {"data": {"tls.key": ""}}, 422, "data[tls.crt]: Required value"),
    ("kubernetes.io/tls", {"stringData": {"tls.crt": "a", "tls.key": "b"}}, 201, ""),
    ("kubernetes.io/basic-auth", {}, 422, "data[username]: Required value, data[password]: Required value"),
    ("kubernetes.io/basic-auth", {"data": {"password": ""}}, 201, ""),
    ("kubernetes.io/ssh-auth", {"data": {"ssh-privatekey": ""}}, 422, "data[ssh-privatekey]: Required value"),
    ("kubernetes.io/ssh-auth", {"data": {"ssh-privatekey": "AAAA"}}, 201, ""),
    ("kubernetes.io/dockercfg", {}, 422, "data[.dockercfg]: Required value"),
    ("kubernetes.io/dockercfg", {"stringData": {".dockercfg": "{"}}, 422, "data[.dockercfg]: Invalid value"),
    ("kubernetes.io/dockercfg", {"stringData": {".dockercfg": "null"}}, 201, ""),
    ("kubernetes.io/dockercfg", {"stringData": {".dockercfg": "[" * 100_000}}, 422, "Invalid value"),
    ("kubernetes.io/dockerconfigjson", {}, 422, "data[.dockerconfigjson]: Required value"),
    ("kubernetes.io/dockerconfigjson", {"stringData": {".dockerconfigjson": "[]"}}, 422, "Invalid value"),
    ("kubernetes.io/dockerconfigjson", {"stringData": {".dockerconfigjson": '{"auths": {}}'}}, 201, ""),
    ("kubernetes.io/service-account-token", {}, 422, "[kubernetes.io/service-account.name]: Required value"),
    ("example.com/other", {}, 201, ""),
    ("", {"data": {"whole": base64.b64encode(bytes(1024 * 1024)).decode()}}, 201, ""),
    ("", {"data": {"whole": base64.b64encode(bytes(1024 * 1024 + 1)).decode()}}, 422, "Too long"),
]


def _made(double: Double, namespace: str, seed: Json) -> str:
    """The path of an object that is now there."""
    body = copy.deepcopy(seed)
    folder = f"/api/v1/namespaces/{namespace}/{body['kind'].lower()}s"
    if body["kind"] == "PersistentVolume":
        folder, body["metadata"]["name"] = "/api/v1/persistentvolumes", namespace
    double.ok("POST", folder, body)
    return f"{folder}/{body['metadata']['name']}"


@pytest.mark.parametrize(
    ("seed", "change", "status", "said"), [pytest.param(*row[2:], id=f"{row[0]}: {row[1]}") for row in UPDATES]
)
def test_an_update_gets_the_answer_of_upstreams_source(
    double: Double, namespace: str, seed: Json, change: Callable[[Json], object], status: int, said: str
) -> None:
    path = _made(double, namespace, seed)
    body = double.get(path)
    del body["metadata"]["resourceVersion"]
    change(body)
    got, answer = double.request("PUT", f"{path}?dryRun=All", body)
    assert got == status and said in answer.get("message", said), answer


@pytest.mark.parametrize(("kind", "more", "status", "said"), SECRETS)
def test_a_typed_secret_has_the_entries_that_validate_secret_asks_for(
    double: Double, namespace: str, kind: str, more: Json, status: int, said: str
) -> None:
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "typed"}, "type": kind, **more}
    got, answer = double.request("POST", f"/api/v1/namespaces/{namespace}/secrets?dryRun=All", body)
    assert got == status and said in answer.get("message", said), answer


def test_a_service_is_replaced_by_the_manifest_that_made_it(double: Double, namespace: str) -> None:
    """patchAllocatedValues of pkg/registry/core/service/storage/storage.go: as `kubectl replace` does."""
    path = _made(double, namespace, service("s"))
    before = double.get(path)
    assert double.ok("PUT", path, service("s"))["spec"] == before["spec"]
    double.ok("PUT", path, service("s", 8001))
    assert double.get(path)["spec"]["clusterIP"] == before["spec"]["clusterIP"]


def test_the_policy_of_a_service_is_kept_too(double: Double, namespace: str) -> None:
    """initIPFamilyFields of pkg/registry/core/service/storage/alloc.go: an update adopts the policy from before."""
    body = service("s")
    body["spec"]["ipFamilyPolicy"] = "PreferDualStack"
    path = _made(double, namespace, body)
    assert double.ok("PUT", path, service("s"))["spec"]["ipFamilyPolicy"] == "PreferDualStack"


def test_string_data_is_in_data_once_it_is_stored(double: Double, namespace: str) -> None:
    """Convert_v1_Secret_To_core_Secret of pkg/apis/core/v1/conversion.go: StringData overwrites Data."""
    path = _made(double, namespace, _secret(stringData={"entry": "é", "other": ""}))
    stored = double.get(path)
    assert stored["data"] == {"entry": base64.b64encode("é".encode()).decode(), "other": ""}
    assert "stringData" not in stored
    applied = _secret(stringData={"more": "x"})
    applied.pop("data")
    double.ok("PATCH", f"{path}?fieldManager=test", applied, kind="application/apply-patch+yaml")
    assert double.get(path)["data"] == {**stored["data"], "more": "eA=="}


@pytest.mark.parametrize(
    ("finalizers", "status", "said"),
    [(["example.com/a", "example.com/b"], 422, DELETED), (["example.com/a"], 200, ""), ([], 200, "")],
)
def test_an_object_under_deletion_gets_no_new_finalizer(
    double: Double, namespace: str, finalizers: list[str], status: int, said: str
) -> None:
    """ValidateNoNewFinalizers of apimachinery/pkg/api/validation/objectmeta.go, for every kind."""
    path = _made(double, namespace, _map(metadata={"name": "m", "finalizers": ["example.com/a"]}))
    double.ok("DELETE", path)
    body = double.get(path)
    body["metadata"]["finalizers"] = finalizers
    got, answer = double.request("PUT", path, body)
    assert got == status and said in answer.get("message", said), answer
    if finalizers:
        double.ok("PATCH", path, {"metadata": {"finalizers": None}}, kind="application/merge-patch+json")
