"""The guards that act while a stack is made: pools that are ready, log groups that forget, a watchdog that beats."""

import io
import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import botocore.session
import pytest
from botocore.exceptions import ReadTimeoutError
from botocore.stub import Stubber
from specdecode import names
from specdecode.custom_resources import handler, waiting
from specdecode.custom_resources.waiting import POLL_S, REFUSED_S, RESERVE_MS, SECOND_DEADLINE, SOON_S

from tests.specdecode.custom_resources.world import Context, World
from tests.specdecode.steps.aws_fake import client_error

WATCHDOG = "SpecDecodeStack-Watchdog"


def client(service: str) -> Any:
    session = botocore.session.get_session()
    return session.create_client(
        service, region_name="us-east-2", aws_access_key_id="test", aws_secret_access_key="test"
    )


def conditions(**parts: tuple[str, str, str]) -> dict[str, Any]:
    found = [
        {"type": kind, "status": status, "reason": reason, "message": message}
        for kind, (status, reason, message) in parts.items()
    ]
    return {"status": {"conditions": found}}


GOOD = conditions(Ready=("True", "Ready", ""))
NO_AMI = conditions(
    AMIsReady=("False", "AMINotFound", "AMISelector did not match any AMIs"),
    Ready=("False", "UnhealthyDependents", "AMIsReady=False"),
)
REFUSED = conditions(
    ValidationSucceeded=(
        "False",
        "RunInstancesAuthCheckFailed",
        "Controller isn't authorized to call ec2:RunInstances",
    ),
    Ready=("False", "UnhealthyDependents", "ValidationSucceeded=False"),
)


def put(world: World, *, trn2: dict[str, Any] = GOOD, staging: dict[str, Any] = GOOD) -> None:
    for name, class_name, status in ((names.NODEPOOL, "trn2-sdk-2-26", trn2), ("staging", "staging", staging)):
        reference = {"template": {"spec": {"nodeClassRef": {"name": class_name}}}}
        world.cluster.put({"kind": "EC2NodeClass", "metadata": {"name": class_name}, **status})
        world.cluster.put({"kind": "NodePool", "metadata": {"name": name}, "spec": reference, **GOOD})


def ready(world: World, kind: str = "Create", **more: Any) -> dict[str, Any]:
    return world.send(kind, "ready", properties={"Pools": [names.NODEPOOL, "staging"]}, **more)


@pytest.mark.parametrize("kind", ["Create", "Update"])
def test_a_class_without_an_ami_fails_it_with_karpenters_words(world: World, kind: str) -> None:
    put(world, trn2=NO_AMI)
    answer = ready(world, kind)
    assert answer["Status"] == "FAILED"
    for words in ("trn2-sdk-2-26", "AMINotFound", "AMISelector did not match any AMIs", "ReadyGuard"):
        assert words in answer["Reason"]
    assert world.slept == SOON_S


def test_the_staging_pool_counts_too_and_every_problem_is_told(world: World) -> None:
    put(world, trn2=NO_AMI, staging={})
    reason = ready(world)["Reason"]
    assert "trn2-sdk-2-26" in reason and "EC2NodeClass staging is not Ready" in reason


def test_a_pool_that_is_not_there_is_a_problem(world: World) -> None:
    assert "NodePool staging does not exist" in ready(world)["Reason"]


@pytest.mark.parametrize(
    ("first", "ready_after_s"),
    [(None, 0), ({"trn2": {}}, 30), ({"trn2": REFUSED}, 40 * 60)],
    ids=["at once", "in time", "Karpenter keeps a refused dry run for 30 minutes and looks again up to 10 later"],
)
def test_pools_that_become_ready_let_a_deployment_pass(
    world: World, first: dict[str, Any] | None, ready_after_s: int
) -> None:
    put(world, **(first or {}))
    world.after[ready_after_s] = lambda: put(world)
    assert ready(world)["Status"] == "SUCCESS"
    assert world.slept == ready_after_s


def test_a_dry_run_that_stays_refused_fails_it_within_the_hour_of_cloudformation(world: World) -> None:
    put(world, trn2={}, staging=GOOD)
    world.after[170] = lambda: put(world, trn2=REFUSED)
    answer = ready(world)
    assert answer["Status"] == "FAILED" and "RunInstancesAuthCheckFailed" in answer["Reason"]
    assert world.slept == 170 + REFUSED_S <= 50 * 60


def test_another_failed_validation_is_not_waited_for_so_long(world: World) -> None:
    """Nor is a refusal beside a missing AMI."""
    other = ("False", "UserDataTooLarge", "user data is too large")
    both = {**REFUSED["status"], "conditions": REFUSED["status"]["conditions"] + NO_AMI["status"]["conditions"][:1]}
    for number, status in enumerate((conditions(ValidationSucceeded=other), {"status": both}), start=1):
        put(world, trn2=status)
        assert ready(world)["Status"] == "FAILED"
        assert world.slept == number * SOON_S


def test_a_second_wait_that_is_handed_over_keeps_its_own_deadline(world: World) -> None:
    put(world, trn2=REFUSED)
    pools = {"Pools": [names.NODEPOOL, "staging"]}
    assert world.send("Create", "ready", properties=pools, context=Context(minutes=0.5)) == {}
    (event,) = world.aws.invoked
    assert (event[SECOND_DEADLINE], "Deadline" in event) == (REFUSED_S, False)
    world.slept = REFUSED_S
    put(world, trn2={})
    answer = ready(world, **{SECOND_DEADLINE: REFUSED_S + 60})
    assert (answer["Status"], world.slept) == ("FAILED", REFUSED_S + 60)


def test_a_deletion_asks_nobody_whether_pools_are_ready(world: World) -> None:
    assert ready(world, "Delete", PhysicalResourceId="Guard")["Status"] == "SUCCESS"
    assert world.cluster.requests == []


def test_a_log_group_that_is_there_already_is_taken_over(world: World) -> None:
    logs = client("logs")
    with Stubber(logs) as stub:
        stub.add_client_error("create_log_group", "ResourceAlreadyExistsException")
        stub.add_response("put_retention_policy", {}, {"logGroupName": "/aws/eks/x/cluster", "retentionInDays": 30})
        stub.add_response("create_log_group", {}, {"logGroupName": "/aws/other"})
        stub.add_response("put_retention_policy", {}, {"logGroupName": "/aws/other", "retentionInDays": 30})
        world.aws.clients["logs"] = logs
        properties = {"Groups": ["/aws/eks/x/cluster", "/aws/other"], "Days": "30"}
        answer = world.send("Update", "retention", properties=properties)
        assert answer["Status"] == "SUCCESS", answer
        stub.assert_no_pending_responses()


def test_a_log_group_that_may_not_be_made_is_an_error(world: World) -> None:
    logs = world.aws.clients["logs"] = client("logs")
    with Stubber(logs) as stub:
        stub.add_client_error("create_log_group", "AccessDeniedException")
        answer = world.send("Update", "retention", properties={"Groups": ["/aws/eks/x/cluster"], "Days": "30"})
    assert answer["Status"] == "FAILED" and "AccessDenied" in answer["Reason"]


def test_log_groups_stay_when_the_stack_goes(world: World) -> None:
    """EKS would make its group again, with the last lines of the cluster, and keep it for ever."""
    properties = {"Groups": ["/aws/eks/x/cluster"], "Days": "30"}
    assert world.send("Delete", "retention", properties=properties, PhysicalResourceId="Guard")["Status"] == "SUCCESS"


THROTTLED = client_error("TooManyRequestsException", "Invoke", 429)
DENIED = client_error("AccessDeniedException", "Invoke", 403)
SLOW = ReadTimeoutError(endpoint_url="https://lambda.us-east-2.amazonaws.com")


class Watchdog:
    """Lambda and CloudWatch: `errors` come first, then `problems`; a heartbeat can be read after `slow` looks."""

    def __init__(self, *errors: str, problems: Sequence[str] = (), slow: int = 0) -> None:
        self.errors, self.problems, self.slow, self.calls = list(errors), list(problems), slow, 0

    def invoke(self, *, FunctionName: str, InvocationType: str, Payload: bytes) -> dict[str, Any]:
        assert (FunctionName, InvocationType, json.loads(Payload)) == (WATCHDOG, "RequestResponse", {})
        self.calls += 1
        if not self.errors:
            said = {"problems": [self.problems.pop(0)] if self.problems else []}
            return {"StatusCode": 200, "Payload": io.BytesIO(json.dumps(said).encode())}
        error = {"errorType": "Forbidden", "errorMessage": self.errors.pop(0)}
        return {"StatusCode": 200, "FunctionError": "Unhandled", "Payload": io.BytesIO(json.dumps(error).encode())}

    def get_metric_statistics(self, *, StartTime: datetime, EndTime: datetime, **asked: Any) -> dict[str, Any]:
        assert EndTime - StartTime == waiting.SEEN_WITHIN
        assert asked == {"Namespace": "Ours", "MetricName": "Beat", "Period": 300, "Statistics": ["Sum"]}
        self.slow -= 1
        return {"Datapoints": [{"Sum": 1.0}] if self.slow < 0 else []}


def beat(world: World, watchdog: Watchdog, kind: str = "Create", **more: Any) -> dict[str, Any]:
    world.aws.clients |= {"lambda": watchdog, "cloudwatch": watchdog}
    properties = {"Function": WATCHDOG, "Namespace": "Ours", "Metric": "Beat"}
    return world.send(kind, "beat", properties=properties, PhysicalResourceId="Guard", **more)


def test_the_first_heartbeat_is_the_watchdogs_own_and_seen_before_the_alarm(world: World) -> None:
    watchdog = Watchdog("timed out", problems=["node: access entry is not effective yet"], slow=2)
    assert beat(world, watchdog)["Status"] == "SUCCESS"
    assert watchdog.calls == 3, "again after an error and after a problem, not while CloudWatch is slow"
    assert world.slept == 40


class Away(Watchdog):
    """It cannot be asked at first: each of `away` is raised once."""

    def __init__(self, *away: Exception) -> None:
        super().__init__()
        self.away = list(away)

    def invoke(self, **given: Any) -> dict[str, Any]:
        if self.away:
            raise self.away.pop(0)
        return super().invoke(**given)


@pytest.mark.parametrize("error", [THROTTLED, DENIED, SLOW])
def test_a_watchdog_that_cannot_be_asked_at_first_is_asked_again(world: World, error: Exception) -> None:
    assert beat(world, Away(*[error] * 3))["Status"] == "SUCCESS"
    assert world.slept == 30
    answer = beat(world, Away(*[error] * 100))
    assert (answer["Status"], "cannot be asked" in answer["Reason"]) == ("FAILED", True)


def test_a_watchdog_that_hangs_leaves_the_guard_time_to_answer() -> None:
    """Lambda's longest look begins after a pause and must end before the guard itself is ended."""
    asked = waiting.ASKED_ONCE
    assert asked.retries == {"total_max_attempts": 1}
    assert POLL_S + asked.connect_timeout + asked.read_timeout < RESERVE_MS / 1000


def test_a_watchdog_that_cannot_work_fails_the_deployment(world: World) -> None:
    for watchdog in (Watchdog(*["nodepools is forbidden"] * 100), Watchdog(problems=["nodepools is forbidden"] * 100)):
        answer = beat(world, watchdog)
        assert answer["Status"] == "FAILED"
        assert "nodepools is forbidden" in answer["Reason"]
        assert "gives the node back when nothing else does" in answer["Reason"]


def test_a_heartbeat_that_cloudwatch_shows_late_is_no_fault_of_the_watchdog(world: World) -> None:
    watchdog = Watchdog(*["timed out"] * 17, slow=60)
    assert beat(world, watchdog)["Status"] == "SUCCESS"
    assert world.slept == 170 + 600, "the second wait has a time of its own"


class Unreadable(Watchdog):
    def get_metric_statistics(self, **asked: Any) -> dict[str, Any]:
        raise client_error("AccessDenied", "GetMetricStatistics", 403)


@pytest.mark.parametrize("watchdog", [Watchdog(slow=1000), Unreadable()])
def test_a_heartbeat_that_cannot_be_read_lets_the_deployment_pass_and_is_logged(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, watchdog: Watchdog
) -> None:
    monkeypatch.setattr(handler.LOGGER, "propagate", True)  # the functions' own set-up of the log turns it off
    assert beat(world, watchdog)["Status"] == "SUCCESS"
    assert (world.slept, watchdog.calls) == (waiting.READABLE_S, 1)
    assert timedelta(seconds=waiting.READABLE_S) < waiting.SEEN_WITHIN
    assert "Beat" in caplog.text and "one false mail" in caplog.text


def test_a_watchdog_that_worked_is_not_run_again_after_a_handover(world: World) -> None:
    watchdog = Watchdog("broken now", slow=1)
    assert beat(world, watchdog, **{SECOND_DEADLINE: 60.0})["Status"] == "SUCCESS"
    assert (watchdog.calls, world.slept) == (0, 10)


@pytest.mark.parametrize("kind", ["Update", "Delete"])
def test_only_a_new_deployment_needs_a_first_heartbeat(world: World, kind: str) -> None:
    watchdog = Watchdog("broken")
    assert beat(world, watchdog, kind)["Status"] == "SUCCESS"
    assert watchdog.calls == 0


def coded(world: World, bundle: str, before: str) -> dict[str, Any]:
    return world.send("Update", "code", properties={"Watched": {"bundle": bundle}}, PhysicalResourceId=before)


def test_new_code_waits_for_a_run_on_servers_that_already_run(world: World) -> None:
    """Such a run has no node: its Jobs tell of it."""
    created = world.send("Create", "code", properties={"Watched": {"bundle": "old"}})
    world.pool(replicas=0)
    labels = {"app.kubernetes.io/managed-by": "specdecode"}
    world.cluster.put(
        {"kind": "Job", "metadata": {"name": "r1-w0-benchmark", "namespace": names.NAMESPACE, "labels": labels}}
    )
    answer = coded(world, "new", created["PhysicalResourceId"])
    assert answer["Status"] == "FAILED"
    for words in ("r1-w0-benchmark", "refused the code", "specdecode stop", "Nothing was changed"):
        assert words in answer["Reason"]
    assert coded(world, "old", created["PhysicalResourceId"])["Status"] == "SUCCESS", "the rollback passes"
    world.cluster.remove("Job", "r1-w0-benchmark")
    assert coded(world, "new", created["PhysicalResourceId"])["Status"] == "SUCCESS"


def test_new_code_waits_for_the_node(world: World) -> None:
    world.pool(replicas=1)
    assert "1 replica" in coded(world, "new", "update-guard-0")["Reason"]
