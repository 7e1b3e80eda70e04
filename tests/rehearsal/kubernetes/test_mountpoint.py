"""S3 as a read-only folder: credentials, the Mountpoint pod, failures."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.rehearsal.kubernetes.conftest import Double, start
from tests.rehearsal.kubernetes.fake_aws import FakeAws
from tests.rehearsal.kubernetes.manifests import made, pod

ROLE = "arn:aws:iam::111122223333:role/serving"
_names = iter(range(1000))


@pytest.fixture(scope="module")
def aws() -> Iterator[FakeAws]:
    fake = FakeAws()
    fake.objects = {"models/a/config.json": b"{}", "models/a/x/weights": b"w" * 1000, "compiled/secret": b"s"}
    yield fake
    fake.stop()


@pytest.fixture(scope="module")
def mounting(tmp_path_factory: pytest.TempPathFactory, aws: FakeAws) -> Iterator[Double]:
    folder: Path = tmp_path_factory.mktemp("mounting")
    double = start(folder, "--aws-endpoint", aws.url)
    double.namespace("apps")
    for name, role in (("serving", ROLE), ("denied", ROLE.replace("serving", "denied"))):
        account = {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": name, "annotations": {"eks.amazonaws.com/role-arn": role}},
        }
        double.ok("POST", "/api/v1/namespaces/apps/serviceaccounts", account)
    yield double
    double.stop()
    assert "Traceback" not in (folder / "stderr").read_text()


def driver(double: Double) -> None:
    double.control(
        "addon", request="Create", name="aws-mountpoint-s3-csi-driver", version="v2", configuration="", role_arn=""
    )


def volume(double: Double, *, options: list[str] | None = None, **attributes: str) -> str:
    """A volume and its claim; returns their name."""
    name = f"models-{next(_names)}"
    attributes = {"bucketName": "bucket", "authenticationSource": "pod", "stsRegion": "us-east-2"} | attributes
    both: Any = {"accessModes": ["ReadOnlyMany"], "storageClassName": ""}
    given = {"volumeAttributes": {k: v for k, v in attributes.items() if v}}
    spec = {
        "capacity": {"storage": "1Ti"},
        "mountOptions": ["read-only", "prefix models/"] if options is None else options,
        "csi": {"driver": "s3.csi.aws.com", "volumeHandle": name, **given},
    }
    double.ok("POST", "/api/v1/persistentvolumes", made("v1", "PersistentVolume", name, both | spec))
    claim = {"volumeName": name, "resources": {"requests": {"storage": "1Ti"}}}
    body = made("v1", "PersistentVolumeClaim", name, both | claim)
    double.ok("POST", "/api/v1/namespaces/apps/persistentvolumeclaims", body)
    return name


def reader(
    name: str, claim: str, *, account: str = "serving", script: str = "find models -type f | sort", **extra: Any
) -> Any:
    mounts = [{"name": "apps", "mountPath": "/w"}, {"name": "m", "mountPath": "/w/models"}]
    container = {"volumeMounts": mounts, "workingDir": "/w", **extra.pop("container", {})}
    volumes = [{"name": "apps", "emptyDir": {}}, {"name": "m", "persistentVolumeClaim": {"claimName": claim}}]
    return pod(name, script, container=container, volumes=volumes, serviceAccountName=account, **extra)


def create(double: Double, body: Any) -> str:
    double.ok("POST", "/api/v1/namespaces/apps/pods", body)
    return f"/api/v1/namespaces/apps/pods/{body['metadata']['name']}"


def failed_mount(double: Double, name: str, text: str) -> None:
    def told(events: Any) -> bool:
        return any(e["involvedObject"]["name"] == name and text in e["message"] for e in events["items"])

    double.wait("/api/v1/namespaces/apps/events", told)


def test_without_the_driver_nothing_mounts(mounting: Double) -> None:
    path = create(mounting, reader("early", volume(mounting)))
    failed_mount(mounting, "early", "driver name s3.csi.aws.com not found")
    driver(mounting)
    mounting.wait(path, lambda p: p["status"]["phase"] == "Succeeded")


def test_the_prefix_is_a_read_only_folder_with_the_pods_own_role(mounting: Double, aws: FakeAws) -> None:
    driver(mounting)
    script = (
        "find models -type f | sort; touch models/new || echo refused; echo x > models/a/config.json || echo refused"
    )
    path = create(mounting, reader("reads", volume(mounting), script=script))
    mounting.wait(path, lambda p: p["status"]["phase"] == "Succeeded")
    lines = mounting.request("GET", f"{path}/log")[1].splitlines()
    assert lines[:2] == ["models/a/config.json", "models/a/x/weights"] and lines.count("refused") == 2
    assert (ROLE, "system:serviceaccount:apps:serving") in aws.assumed
    mounting.wait("/api/v1/namespaces/mount-s3/pods", lambda p: not p["items"])


def test_a_mountpoint_pod_that_does_not_fit_keeps_the_workload_waiting(mounting: Double) -> None:
    driver(mounting)
    name = volume(mounting, mountpointContainerResourcesRequestsCpu="64")
    path = create(mounting, reader("crowded", name))
    failed_mount(mounting, "crowded", "Insufficient cpu")
    found = mounting.get(path)
    assert found["status"]["phase"] == "Pending" and found["spec"]["nodeName"]


FAULTY = [
    ("no region", {"stsRegion": ""}, {}, "failed to detect the STS region"),
    ("no role", {}, {"account": "default"}, "has no IAM role"),
    ("a role that is denied", {}, {"account": "denied"}, "AccessDenied"),
    ("a writable mount", {"options": ["prefix models/"]}, {}, "read-only"),
    ("an unknown option", {"options": ["read-only", "frobnicate"]}, {}, "frobnicate"),
    ("not root, not allowed", {}, {"securityContext": {"runAsUser": 1000}}, "allow-other"),
]


@pytest.mark.parametrize(("volume_change", "pod_change", "text"), [f[1:] for f in FAULTY], ids=[f[0] for f in FAULTY])
def test_what_would_fail_on_aws_fails_here(mounting: Double, volume_change: Any, pod_change: Any, text: str) -> None:
    driver(mounting)
    name = f"faulty-{next(_names)}"
    create(mounting, reader(name, volume(mounting, **volume_change), **pod_change))
    failed_mount(mounting, name, text)


def test_the_pod_gets_role_token_and_endpoint(mounting: Double, aws: FakeAws) -> None:
    script = 'echo $AWS_ROLE_ARN $AWS_REGION $AWS_ENDPOINT_URL; cut -d. -f2 "$AWS_WEB_IDENTITY_TOKEN_FILE"'
    path = create(mounting, pod("irsa", script, serviceAccountName="serving"))
    mounting.wait(path, lambda p: p["status"].get("phase") == "Succeeded")
    first, claims = mounting.request("GET", f"{path}/log")[1].splitlines()
    assert first == f"{ROLE} us-east-2 {aws.url}" and len(claims) > 100


def test_a_pod_that_names_its_region_gets_no_other_variable_of_it(mounting: Double) -> None:
    """As in EKS's webhook, the variables come together or not at all."""
    body = pod("half", "env", serviceAccountName="serving")
    body["spec"]["containers"][0]["env"] = [{"name": "AWS_REGION", "value": "us-east-2"}]
    path = create(mounting, body)
    mounting.wait(path, lambda p: p["status"].get("phase") == "Succeeded")
    log = mounting.request("GET", f"{path}/log")[1]
    assert "AWS_REGION=us-east-2" in log and "AWS_ROLE_ARN=" in log and "AWS_DEFAULT_REGION" not in log


def test_a_container_that_the_pods_annotation_names_gets_neither_role_nor_token(mounting: Double) -> None:
    show = 'echo "role=${AWS_ROLE_ARN-} token=${AWS_WEB_IDENTITY_TOKEN_FILE:+there}"'
    body = pod("skipping", show, serviceAccountName="serving")
    body["metadata"]["annotations"] = {"eks.amazonaws.com/skip-containers": "engine,main"}
    other = {**body["spec"]["containers"][0], "name": "other", "volumeMounts": []}
    body["spec"]["initContainers"] = [other]
    path = create(mounting, body)
    mounting.wait(path, lambda p: p["status"].get("phase") == "Succeeded")
    assert mounting.request("GET", f"{path}/log?container=main")[1] == "role= token=\n"
    assert mounting.request("GET", f"{path}/log?container=other")[1] == f"role={ROLE} token=there\n"
