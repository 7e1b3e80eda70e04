"""The table of causes: whole, in a sensible order, and readable."""

import pytest
from specdecode.experiment import assets_dir
from specdecode.kubernetes.diagnosis import explain, load_table

TABLE = load_table(assets_dir() / "diagnosis.yaml")


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
        ({"status": "pod: not scheduled: 0/3 nodes are available"}, "unschedulable"),
        ({"status": "p: FailedPrepareDynamicResources: strict decoding error"}, "device-claim"),
        (
            {"error": 'x cannot finish: p: FailedResourceClaimCreation: resourceclaimtemplate "trn2-8dev" not found'},
            "claim-template-missing",
        ),
        ({"status": "p: FailedResourceClaimCreation: timeout"}, "device-claim"),
        ({"error": 'r1-w0 cannot finish: r1-w0: Error creating: Pod "x" is invalid: spec: too much'}, "pod-refused"),
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
