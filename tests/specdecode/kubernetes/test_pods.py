"""What pods, Jobs and claims say about themselves."""

from datetime import timedelta

import pytest
from specdecode.kubernetes.pods import Kind, Phase, is_ready, job_state, problems, refusals
from specdecode.kubernetes.resources import parse_time


def pod(name="p", **status):
    return {"metadata": {"name": name}, "spec": {"nodeName": "n"}, "status": status}


def node(name="n", ready="True"):
    return {"metadata": {"name": name}, "status": {"conditions": [{"type": "Ready", "status": ready}]}}


def container(state=None, last=None, restarts=0):
    return {"name": "main", "image": "i", "state": state or {}, "lastState": last or {}, "restartCount": restarts}


def ended(code, reason="Error"):
    return {"terminated": {"exitCode": code, "reason": reason}}


def waiting(reason):
    return {"waiting": {"reason": reason, "message": "m"}}


@pytest.mark.parametrize(
    ("subject", "kind", "fatal"),
    [
        (pod(conditions=[{"type": "PodScheduled", "status": "False", "message": "m"}]), Kind.UNSCHEDULABLE, False),
        (pod(phase="Failed", reason="Evicted"), Kind.EVICTED, True),
        (pod(phase="Failed", reason="NodeLost"), Kind.NODE_LOST, True),
        (pod(containerStatuses=[container(waiting("ErrImagePull"))]), Kind.IMAGE_PULL, False),
        (pod(containerStatuses=[container(waiting("ImagePullBackOff"))]), Kind.IMAGE_PULL, True),
        (pod(containerStatuses=[container(waiting("RunContainerError"))]), Kind.CONTAINER_CONFIG, True),
        (pod(containerStatuses=[container(ended(137, "OOMKilled"))]), Kind.OUT_OF_MEMORY, True),
        (pod(containerStatuses=[container(last=ended(137, "OOMKilled"))]), Kind.OUT_OF_MEMORY, True),
        (pod(containerStatuses=[container(ended(3))]), Kind.EXITED, False),
        (pod(containerStatuses=[container({}, ended(3), restarts=1)]), Kind.EXITED, False),
        (pod(containerStatuses=[container({}, ended(3), restarts=2)]), Kind.EXITED, False),
        (pod(containerStatuses=[container({}, ended(3), restarts=3)]), Kind.CRASH_LOOP, True),
        (pod(containerStatuses=[container(waiting("CrashLoopBackOff"), ended(3), restarts=1)]), Kind.CRASH_LOOP, True),
        (pod(initContainerStatuses=[container(waiting("InvalidImageName"))]), Kind.IMAGE_PULL, True),
    ],
)
def test_one_problem(subject, kind, fatal):
    (found,) = problems([subject], nodes=[node()])
    assert (found.kind, found.fatal) == (kind, fatal)


BORN = "2026-08-01T12:00:00Z"


@pytest.mark.parametrize(
    ("message", "age_s", "fatal"),
    [
        ('secret "r1-w0-base" not found', 30, False),
        ("failed to sync secret cache: timed out waiting for the condition", 30, False),
        ('secret "r1-w0-base" not found', 150, True),
        ("couldn't find key api-key in Secret specdecode/r1-w0-base", 30, True),
        ('configmap "spec" not found', 30, True),
    ],
)
def test_a_secret_may_appear_a_little_later_than_its_pod(message, age_s, fatal):
    state = {"waiting": {"reason": "CreateContainerConfigError", "message": message}}
    subject = pod(containerStatuses=[container(state)])
    subject["metadata"]["creationTimestamp"] = BORN
    (found,) = problems([subject], now=parse_time(BORN) + timedelta(seconds=age_s))
    assert (found.kind, found.fatal) == (Kind.CONTAINER_CONFIG, fatal)


QUOTA = 'Error creating: pods "r1-w0-smoke-x" is forbidden: exceeded quota: specdecode, requested: pods=1, used: pods=9'


@pytest.mark.parametrize(
    ("about", "message", "fatal"),
    [
        ({"kind": "Job", "name": "r1-w0"}, QUOTA, [True]),
        ({"kind": "ReplicaSet", "name": "r1-w0-6d4cf56db6"}, QUOTA, [True]),
        ({"kind": "Job", "name": "r1-w0"}, "Error creating: Internal error occurred: the server is busy", [False]),
        ({"kind": "Job", "name": "r1-w0-smoke"}, QUOTA, []),
        ({"kind": "ReplicaSet", "name": "r1-w0-sd-6d4cf56db6"}, QUOTA, []),
        ({"kind": "Pod", "name": "r1-w0"}, QUOTA, []),
    ],
)
def test_why_a_job_or_a_deployment_has_no_pod(about, message, fatal):
    event = {"type": "Warning", "reason": "FailedCreate", "message": message, "involvedObject": about}
    other = {**event, "reason": "SuccessfulCreate"}
    assert [problem.fatal for problem in refusals("r1-w0", [other, event])] == fatal


def claim_event(message):
    about = {"name": "p"}
    return {"type": "Warning", "reason": "FailedResourceClaimCreation", "message": message, "involvedObject": about}


def test_a_pod_without_its_claim_template_will_never_be_scheduled():
    missing = 'PodResourceClaim neuron: resourceclaimtemplate.resource.k8s.io "trn2-8dev-lnc2" not found'
    (problem,) = problems([pod(phase="Pending")], events=[claim_event(missing)])
    assert (problem.kind, problem.fatal) == (Kind.DEVICE_CLAIM, True)
    (passing,) = problems([pod(phase="Pending")], events=[claim_event("PodResourceClaim neuron: etcdserver: timeout")])
    assert not passing.fatal, "the controller tries again"
    made = pod(phase="Pending", resourceClaimStatuses=[{"name": "neuron", "resourceClaimName": "x"}])
    assert problems([made], events=[claim_event(missing)]) == [], "somebody made the template"


def test_a_pod_that_a_limit_range_makes_invalid_is_never_created():
    said = 'Error creating: Pod "r1-w0-x" is invalid: spec.containers[0].resources.requests: Invalid value: "80"'
    event = {"reason": "FailedCreate", "message": said, "involvedObject": {"kind": "Job", "name": "r1-w0"}}
    assert [problem.fatal for problem in refusals("r1-w0", [event])] == [True]
    event["message"] = 'pods "r1-w0-x" is forbidden: status unknown for quota: new, resources: pods'
    assert [problem.fatal for problem in refusals("r1-w0", [event])] == [False], "the quota was made a moment ago"


def at(minutes):
    return (parse_time(BORN) + timedelta(minutes=minutes)).isoformat()


def refusal(message, first, last):
    about = {"kind": "Job", "name": "j"}
    event = {"reason": "FailedCreate", "message": message, "involvedObject": about}
    return {**event, "firstTimestamp": at(first), "lastTimestamp": at(last)}


@pytest.mark.parametrize(
    ("events", "born", "fatal"),
    [
        ([refusal("denied", 2, 4)], [], [False]),
        ([refusal("denied", 0, 4)], [], [True]),
        ([refusal("denied: pod x", 0, 0), refusal("denied: pod y", 4, 4)], [], [True]),  # other words each time
        ([refusal(QUOTA, 0, 0)], [], []),
        ([refusal("denied", 0, 4)], [1], [True]),  # one of two pods was made
        ([refusal("denied", 0, 4)], [5], []),
    ],
)
def test_refusals_count_while_they_are_repeated_and_after_the_newest_pod(events, born, fatal):
    pods = [{"metadata": {"name": "p", "creationTimestamp": at(minutes)}} for minutes in born]
    found = refusals("j", events, pods=pods, now=parse_time(at(4.5)))
    assert [problem.fatal for problem in found] == fatal


NO_DISK = "0/2 nodes are available: 1 Insufficient ephemeral-storage, 1 node(s) didn't match Pod's node affinity"
NO_NODE = "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."
UNREACHABLE = "0/1 nodes are available: 1 node(s) had untolerated taint {node.kubernetes.io/unreachable: }."


@pytest.mark.parametrize(
    ("message", "labels", "minutes", "fatal"),
    [
        (NO_DISK, [{"specdecode/accelerator": "trn2"}], 2, False),
        (NO_DISK, [{"specdecode/accelerator": "trn2"}], 3, True),
        (NO_DISK, [], 3, True),  # we see no nodes, but the scheduler does
        ("0/1 nodes are available: 1 cannot allocate all claims.", [], 3, True),
        (UNREACHABLE, [{"specdecode/accelerator": "trn2"}], 7, False),
        (UNREACHABLE, [{"specdecode/accelerator": "trn2"}], 8, True),
        (NO_NODE, [{"specdecode/accelerator": "trn2-2"}], 60, False),
        (NO_NODE, [], 60, False),
    ],
)
def test_a_pod_does_not_wait_for_room_on_the_node_that_is_there(message, labels, minutes, fatal):
    condition = {"type": "PodScheduled", "status": "False", "message": message, "lastTransitionTime": BORN}
    held, nodes = pod(conditions=[condition]) | {"spec": {}}, [node(str(n)) for n in range(len(labels))]
    for each, said in zip(nodes, labels, strict=True):
        each["metadata"]["labels"] = said
    assert not problems([held], nodes=nodes, now=parse_time(at(90)))[0].fatal, "another node may come for it"
    held["spec"] = {"nodeSelector": {"specdecode/accelerator": "trn2"}}
    (found,) = problems([held], nodes=nodes, now=parse_time(at(minutes)))
    assert (found.kind, found.fatal) == (Kind.UNSCHEDULABLE, fatal)


@pytest.mark.parametrize(("count", "minutes", "fatal"), [(1, 60, False), (4, 7, False), (4, 8, True)])
@pytest.mark.parametrize("reason", ["FailedMount", "FailedPrepareDynamicResources", "FailedResourceClaimCreation"])
def test_an_event_that_repeats_ends_the_wait(reason, count, minutes, fatal):
    event = {"type": "Warning", "reason": reason, "message": "m", "involvedObject": {"name": "p"}}
    event |= {"firstTimestamp": BORN, "count": count}
    (found,) = problems([pod(phase="Pending")], events=[event], now=parse_time(at(minutes)))
    assert found.fatal == fatal


@pytest.mark.parametrize(("minutes", "fatal"), [(7, []), (8, [True])])
def test_where_nodes_are_not_seen_a_pod_that_does_not_end_tells_of_its_node(minutes, fatal):
    going = pod(phase="Running")
    going["metadata"]["deletionTimestamp"] = BORN
    assert [found.fatal for found in problems([going], now=parse_time(at(minutes)))] == fatal


def test_a_pod_whose_node_is_gone_or_not_ready():
    (gone,) = problems([pod(phase="Running")], nodes=[node("other")])
    (away,) = problems([pod(phase="Running")], nodes=[node(ready="Unknown")])
    assert (gone.kind, gone.fatal) == (Kind.NODE_LOST, True)
    assert (away.kind, away.fatal) == (Kind.NODE_LOST, False)


def test_probe_and_mount_events_count_for_their_pod_only():
    events = [
        {"type": "Warning", "reason": reason, "message": "m", "involvedObject": {"name": about}}
        for reason, about in (("Unhealthy", "p"), ("FailedMount", "p"), ("FailedMount", "q"), ("Pulled", "p"))
    ]
    assert [found.kind for found in problems([pod()], events=events)] == [Kind.NOT_READY, Kind.MOUNT]


def test_a_mount_that_succeeded_in_the_end_is_no_problem():
    event = {"type": "Warning", "reason": "FailedMount", "message": "m", "involvedObject": {"name": "p"}}
    assert problems([pod(phase="Pending")], events=[event])
    assert problems([pod(phase="Running")], events=[event]) == []


def test_a_pod_that_did_its_work_has_no_problem():
    assert problems([pod(phase="Succeeded", containerStatuses=[container(ended(1))])]) == []


def test_the_fatal_come_first():
    mild = pod("mild", containerStatuses=[container(ended(3))])
    bad = pod("bad", containerStatuses=[container(waiting("ImagePullBackOff"))])
    assert [found.pod for found in problems([mild, bad])] == ["bad", "mild"]


def test_a_pod_on_its_way_out_is_not_ready():
    ready = pod(conditions=[{"type": "Ready", "status": "True"}])
    assert is_ready(ready)
    ready["metadata"]["deletionTimestamp"] = "2026-08-01T00:00:00Z"
    assert not is_ready(ready)


@pytest.mark.parametrize(
    ("status", "phase", "words"),
    [
        ({"active": 1}, Phase.ACTIVE, "1 pod running"),
        ({"conditions": [{"type": "Complete", "status": "True"}]}, Phase.COMPLETE, "complete"),
        (
            {"failed": 2, "conditions": [{"type": "Failed", "status": "True", "reason": "DeadlineExceeded"}]},
            Phase.FAILED,
            "DeadlineExceeded",
        ),
        (
            {"active": 1, "conditions": [{"type": "FailureTarget", "status": "True", "reason": "PodFailurePolicy"}]},
            Phase.FAILED,
            "PodFailurePolicy",
        ),
        ({"conditions": [{"type": "Failed", "status": "False"}]}, Phase.ACTIVE, "0 pod running"),
    ],
)
def test_job_state(status, phase, words):
    found = job_state({"status": status})
    assert found.phase is phase
    assert words in found.message
