"""The table of causes: whole, in a sensible order, and readable."""

import pytest
from specdecode.experiment import assets_dir
from specdecode.kubernetes.diagnosis import explain, load_table

TABLE = load_table(assets_dir() / "diagnosis.yaml")
CREATING = "r: Error creating:"
DENIED = 'admission webhook "policy.example" denied the request: no strangers'
DEAD = 'failed calling webhook "policy.example": failed to call webhook: Post "https://p.svc:443": connection refused'
ENDING = "unable to create new content in namespace n because it is being terminated"
POLICY = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: x"


def test_rows_have_unique_names_and_whole_sentences():
    names = [row.name for row in TABLE.causes]
    assert len(set(names)) == len(names)
    for row in TABLE.causes:
        assert row.cause[0].isupper() or row.cause[0] == "{"
        assert row.cause.endswith(".")
        assert row.fix.endswith(".")
        assert set(row.look_in) <= {"error", "status", "logs"}


@pytest.mark.parametrize(
    ("evidence", "row"),
    [
        ({"error": "InvalidExperiment: 1 problem"}, "invalid-experiment"),
        ({"logs": "NRT: nrt_init failed with error 2"}, "driver-too-new"),
        ({"logs": "Cannot access gated repo for url https://huggingface.co/x"}, "hugging-face-denied"),
        ({"logs": "specdecode: error 67: no token"}, "hugging-face-denied"),
        ({"logs": "when calling the PutObject operation: Access Denied"}, "s3-denied"),
        ({"status": "p: FailedMount: MountVolume.SetUp failed: mountpoint-s3: Forbidden: 403"}, "s3-denied"),
        ({"status": "pod: Evicted: The node was low on resource: ephemeral-storage."}, "disk-full"),
        ({"status": "pod: container main ran out of memory"}, "out-of-memory"),
        ({"status": "pod: ImagePullBackOff of repo/engine:1: not found"}, "image-pull"),
        ({"error": "CapacityUnavailable: Karpenter says InsufficientCapacityError: no"}, "no-capacity"),
        ({"error": "CapacityUnavailable: no usable node within 30 min"}, "no-node"),
        ({"error": "CapacityUnavailable: VcpuLimitExceeded: You have requested more vCPU capacity"}, "quota"),
        ({"status": "pod: its node ip-1 no longer exists"}, "node-lost"),
        ({"status": "pod: its node ip-1 is not Ready since 10:04 UTC: Kubelet stopped posting"}, "node-hung"),
        ({"status": "pod: not scheduled: 0/3 nodes are available"}, "unschedulable"),
        (
            {"error": "BenchmarkFailed: arm sd died under load: x", "status": "new: FailedMount: MountVolume.SetUp"},
            "arm-died",
        ),
        ({"error": "ClientError: An error occurred (SlowDown) when calling the PutObject operation"}, "s3-away"),
        ({"error": 'ReadTimeoutError: Read timeout on endpoint URL: "https://b.s3.amazonaws.com/k"'}, "s3-away"),
        ({"error": "Lambda.TooManyRequestsException: Rate Exceeded."}, "functions-throttled"),
        ({"error": "Runtime.ExitError: RequestId: 1 Error: Runtime exited"}, "function-died"),
        ({"status": "p: FailedPrepareDynamicResources: strict decoding error"}, "device-claim"),
        (
            {"error": 'x cannot finish: p: FailedResourceClaimCreation: resourceclaimtemplate "trn2-8dev" not found'},
            "claim-template-missing",
        ),
        ({"status": "p: FailedResourceClaimCreation: timeout"}, "device-claim"),
        ({"error": 'r1-w0 cannot finish: r1-w0: Error creating: Pod "x" is invalid: spec: too much'}, "pod-refused"),
        ({"error": f"CompileFailed: j: {CREATING} {DENIED}"}, "policy-denied"),
        ({"error": f"InvalidManifest: PATCH /apis/batch/v1/jobs/x: 400 {DENIED}"}, "policy-denied"),
        ({"error": f"Forbidden: PATCH /apis/batch/v1/jobs/x: 403 {DENIED}"}, "policy-denied"),
        (
            {"error": f"{CREATING} pods x is forbidden: {POLICY}"},
            "policy-denied",
        ),
        ({"error": f"ServeNotReady: {CREATING} {DEAD}"}, "webhook-down"),
        ({"error": f"ClusterUnavailable: PATCH /x: 500 {DEAD}"}, "webhook-down"),
        (
            {"error": f"{CREATING} x is forbidden: failed quota: q: must specify limits.cpu for: m"},
            "quota-wants-limits",
        ),
        (
            {"error": 'Forbidden: PATCH /x: 403 x is forbidden: User "u" cannot patch resource "jobs" in'},
            "right-missing",
        ),
        ({"error": "Forbidden: GET /api/v1/nodes: 401 Unauthorized"}, "token-refused"),
        ({"error": 'NotFound: PATCH /x: 404 namespaces "specdecode" not found'}, "namespace-gone"),
        (
            {"error": f"{CREATING} x is forbidden: {ENDING}"},
            "namespace-ending",
        ),
        ({"error": "NotFound: GET /apis/a/v1/b: 404 the server could not find the requested resource"}, "kind-missing"),
        ({"error": 'NotFound: GET /api/v1/x: 404 secrets "y" not found'}, "object-gone"),
        ({"error": "Conflict: PUT /x: 409 the object has been modified"}, "objects-changed"),
        ({"error": "CompileFailed: r1-compile failed: DeadlineExceeded: Job was active longer"}, "too-slow"),
        ({"error": "CapacityUnavailable: no node can come: NodePool trn2 is not Ready: x"}, "pool-not-ready"),
        (
            {
                "logs": "cp: error reading 'x': Transport endpoint is not connected\nx has no COMPLETE.json",
                "status": "p: container main keeps ending with exit code 66",
            },
            "mount-died",
        ),
        ({"error": "BenchmarkFailed: arm sd died under load: x"}, "arm-died"),
        ({"error": "States.Timeout: "}, "timeout"),
        ({"error": "ValueError: what"}, "unknown"),
    ],
)
def test_evidence_leads_to_its_cause(evidence, row):
    assert explain(TABLE, evidence)[0] == row


def test_the_paragraph_names_what_was_found():
    _, text = explain(TABLE, {"status": "p: ImagePullBackOff of repo/engine:1: manifest unknown"})
    assert "repo/engine:1" in text
    assert "{" not in text


def test_a_telling_cause_wins_over_a_general_one():
    evidence = {"error": "ServeNotReady: keeps ending with exit code 1", "logs": "nrt_init failed"}
    assert explain(TABLE, evidence)[0] == "driver-too-new"
