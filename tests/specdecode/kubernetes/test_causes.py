"""What really stands in statuses, events and logs, and the cause that a person reads of it."""

from typing import Any

import pytest
from specdecode.experiment import assets_dir
from specdecode.kubernetes.diagnosis import explain, load_table
from specdecode.kubernetes.pods import problems, refusals

TABLE = load_table(assets_dir() / "diagnosis.yaml")
IMAGE = "763104351884.dkr.ecr.us-east-2.amazonaws.com/pytorch-inference-vllm-neuronx:0.9.1"
NEURON = "2026-Aug-01 10:20:32.033402    11:11    ERROR {:<40}  {}"


def pod(**status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "r1-w0-sd"}, "spec": {"nodeName": "ip-10-0-1-2"}, "status": status}


def waiting(reason: str, message: str) -> dict[str, Any]:
    return {"name": "main", "image": IMAGE, "state": {"waiting": {"reason": reason, "message": message}}}


def ended(code: int, reason: str = "Error") -> dict[str, Any]:
    return {"name": "main", "image": IMAGE, "state": {"terminated": {"exitCode": code, "reason": reason}}}


LAYER = (
    f'Back-off pulling image "{IMAGE}": ErrImagePull: failed to pull and unpack image: failed to copy: httpReadSeeker: '
    "failed open: unexpected status code https://prod-us-east-2-starport-layer-bucket.s3.us-east-2.amazonaws.com/"
    "sha256:0a1b: 403 Forbidden"
)
PINNED = waiting("ErrImagePull", "not found") | {"image": f"{IMAGE}@sha256:{'0a' * 32}"}
CLAIMS = (
    "0/4 nodes are available: 1 cannot allocate all claims, 3 node(s) didn't match Pod's node affinity/selector. "
    "still not schedulable, preemption: 0/4 nodes are available: 4 Preemption is not helpful for scheduling."
)
DISK = (
    "The node was low on resource: ephemeral-storage. Threshold quantity: 53687091200, available: 48211Mi. "
    "Container main was using 412Gi, request is 0, has larger consumption of ephemeral-storage."
)
MEMORY = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 51208Ki."


@pytest.mark.parametrize(
    ("subject", "row", "words"),
    [
        (pod(containerStatuses=[waiting("ImagePullBackOff", LAYER)]), "image-pull", IMAGE),
        (pod(containerStatuses=[PINNED]), "image-pull", f"image {PINNED['image']} could not be pulled"),
        (
            pod(conditions=[{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": CLAIMS}]),
            "unschedulable",
            "1 cannot allocate all claims",
        ),
        (pod(containerStatuses=[ended(137, "OOMKilled")]), "out-of-memory", "max_model_len"),
        (pod(phase="Failed", reason="Evicted", message=MEMORY), "out-of-memory", "max_model_len"),
        (pod(phase="Failed", reason="Evicted", message=DISK), "disk-full", "instance-store"),
        (
            pod(phase="Failed", reason="Evicted", message="Pod was rejected: The node had condition: [DiskPressure]. "),
            "disk-full",
            "instance-store",
        ),
    ],
    ids=["image-pull", "image-by-digest", "unschedulable", "oom", "evicted-memory", "evicted-disk", "disk-pressure"],
)
def test_the_state_of_a_pod(subject, row, words):
    status = "\n".join(str(problem) for problem in problems([subject]))
    found, text = explain(TABLE, {"error": "ServeNotReady: 0 of 2 arms are ready", "status": status})
    assert found == row
    assert words in text
    assert ".." not in text


MOUNT = (
    'MountVolume.SetUp failed for volume "specdecode-models" : rpc error: code = Internal desc = Could not mount '
    '"specdecode-models" at "/var/lib/kubelet/pods/1/volumes/kubernetes.io~csi/specdecode-models/mount": Mount failed: '
    "Error: Failed to create S3 client: initial ListObjectsV2 failed: Client error: Forbidden: Access Denied"
)


def test_a_policy_that_denies_in_several_lines_is_told_in_one():
    """As Kyverno does."""
    said = (
        'Error creating: admission webhook "validate.kyverno.svc-fail" denied the request: \n\nresource '
        "Pod/specdecode/r1-w0-x was blocked due to the following policies \n\nrequire-labels:\n  team: rule failed"
    )
    event = {"reason": "FailedCreate", "message": said, "involvedObject": {"kind": "Job", "name": "r1-w0"}}
    (problem,) = refusals("r1-w0", [event])
    row, text = explain(TABLE, {"error": f"CompileFailed: {problem}"})
    assert row == "policy-denied" and "the following policies require-labels: team: rule failed." in text


def test_the_event_of_a_refused_mount():
    event = {"type": "Warning", "reason": "FailedMount", "message": MOUNT, "involvedObject": {"name": "r1-w0-sd"}}
    (problem,) = problems([pod(phase="Pending")], events=[event])
    assert explain(TABLE, {"error": "ServeNotReady: not ready", "status": str(problem)})[0] == "s3-denied"


KARPENTER = (
    "CapacityUnavailable: no node within 30 min; Karpenter says InsufficientCapacityError: NodeClaim trn2-x7k2p event: "
    "creating instance, insufficient capacity, with fleet error(s), "
)


@pytest.mark.parametrize(
    ("reason", "row"),
    [
        ("InsufficientInstanceCapacity: We currently do not have sufficient trn2.48xlarge capacity", "no-capacity"),
        ("VcpuLimitExceeded: You have requested more vCPU capacity than your current vCPU limit of 0", "quota"),
    ],
)
def test_karpenter_s_event_about_a_node_that_did_not_come(reason, row):
    assert explain(TABLE, {"error": KARPENTER + reason})[0] == row


@pytest.mark.parametrize(
    ("log", "row"),
    [
        (
            NEURON.format("NRT:nrt_init", "This Neuron Runtime (compatibility id: 6) is not compatible"),
            "driver-too-new",
        ),
        (NEURON.format("NRT:nrt_init", "Failed to initialize devices, error:1"), "driver-too-new"),
        (NEURON.format("NRT:nrt_tensor_allocate", "Failed to allocate 805306368 bytes"), "device-memory"),
        (NEURON.format("NRT:nrt_infodump", "Failure: NRT_RESOURCE in nrt_load()"), "device-memory"),
        ('RuntimeError: nrt_tensor_allocate status=4 message="Allocation Failure"', "device-memory"),
        ("MemoryError: Cannot allocate memory", "out-of-memory"),
        (
            "HTTPError: 401 Client Error: Unauthorized for url: https://huggingface.co/api/models/x",
            "hugging-face-denied",
        ),
        (
            "An error occurred (AccessDenied) when calling the PutObject operation: User: x is not authorized",
            "s3-denied",
        ),
        ("fatal error: An error occurred (403) when calling the HeadObject operation: Forbidden", "s3-denied"),
        ("specdecode: error 65: models/acme--head@v1/ has no weights in safetensors (only a.bin)", "weights-format"),
        ("specdecode: error 75: 8 Neuron devices were claimed and 7 are here", "node-unfit"),
    ],
)
def test_the_log_of_a_pod(log, row):
    status = "r1-w0-sd: container main keeps ending with exit code 1 (3 restarts)"
    assert explain(TABLE, {"error": "ServeNotReady: x", "status": status, "logs": log})[0] == row


def test_a_job_that_failed_for_no_known_reason_is_named():
    found, text = explain(TABLE, {"error": "BenchmarkFailed: r1-w0-benchmark failed: BackoffLimitExceeded: Job has"})
    assert found == "job-failed"
    assert "The pods of r1-w0-benchmark failed" in text


@pytest.mark.parametrize(
    ("evidence", "row", "words"),
    [
        (
            {"status": 'r1-w0-smoke-0: CreateContainerConfigError of container main: secret "endpoint-chat" not found'},
            "api-key-missing",
            "The Secret endpoint-chat with the API key",
        ),
        (
            {"status": "of container main: couldn't find key api-key in Secret specdecode/endpoint-chat"},
            "api-key-missing",
            "The Secret endpoint-chat with the API key",
        ),
        ({"logs": 'specdecode: error 78: base: HTTP 401: {"error": "no"}'}, "endpoint-denied", "arm base refused"),
        (
            {"logs": "specdecode: error 78: sd-k7: not reachable: <[Errno 111] Connection refused>; x: y"},
            "endpoint-away",
            "arm sd-k7 could not be reached: <[Errno 111] Connection refused>.",
        ),
    ],
    ids=["no-secret", "no-entry", "refused", "away"],
)  # fmt: skip
def test_a_server_that_already_runs(evidence, row, words):
    found, text = explain(TABLE, {"error": "SmokeFailed: r1-w0-smoke failed: BackoffLimitExceeded", **evidence})
    assert (found, words in text) == (row, True), text


@pytest.mark.parametrize("code", ["137", "1"])
def test_an_arm_that_dies_under_load_is_that_even_while_its_container_is_started_again(code: str) -> None:
    ends = f"pod r1-w0-sd: container main keeps ending with exit code {code} (1 restarts)"
    assert (
        explain(TABLE, {"error": f"BenchmarkFailed: arm sd died under load: {ends}", "status": ends})[0] == "arm-died"
    )
    assert explain(TABLE, {"error": f"ServeNotReady: {ends}", "status": ends})[0] == "crash-loop"
