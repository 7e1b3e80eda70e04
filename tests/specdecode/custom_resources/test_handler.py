"""The guards as CloudFormation sees them: what they let through, refuse, wait for, and always answer."""

from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError
from specdecode import names
from specdecode.custom_resources import handler as guards
from specdecode.custom_resources import waiting
from specdecode.custom_resources.in_use import give_up
from specdecode.kubernetes.pools import NodePools

from tests.specdecode.custom_resources.world import GIVEN, MACHINE, NO_LAUNCH, Context, World
from tests.specdecode.steps.aws_fake import denied
from tests.specdecode.steps.cluster_fake import status


def updated(world: World, watched: str, before: dict[str, Any]) -> dict[str, Any]:
    return world.send(
        "Update", "update", properties={"Watched": watched}, PhysicalResourceId=before["PhysicalResourceId"]
    )


def created(world: World) -> dict[str, Any]:
    answer = world.send("Create", "update", properties={"Watched": "old"})
    assert answer["Status"] == "SUCCESS"
    return answer


def test_an_update_passes_while_no_run_has_the_node(world: World) -> None:
    world.pool(replicas=0)
    before = created(world)
    after = updated(world, "new", before)
    assert after["Status"] == "SUCCESS"
    assert after["PhysicalResourceId"] != before["PhysicalResourceId"]


@pytest.mark.parametrize(
    ("pools", "claims", "words"),
    [
        ({names.NODEPOOL: 1}, (), ("NodePool trn2 has 1 replica", "specdecode stop", "Nothing was changed")),
        ({names.NODEPOOL: 0, names.CPU_NODEPOOL: 1}, (), ("NodePool cpu has 1 replica",)),
        ({names.NODEPOOL: 0}, ("trn2-abc",), ("trn2-abc",)),
    ],
    ids=["a run holds it", "a check holds one without devices", "the last is still going away"],
)
def test_an_update_is_refused_while_there_is_a_node(
    world: World, pools: dict[str, int], claims: tuple[str, ...], words: tuple[str, ...]
) -> None:
    before = created(world)
    for name, replicas in pools.items():
        world.pool(replicas=replicas, name=name)
    for claim in claims:
        world.claim(claim)
    answer = updated(world, "new", before)
    assert (answer["Status"], answer["PhysicalResourceId"]) == ("FAILED", before["PhysicalResourceId"])
    assert all(word in answer["Reason"] for word in words)


def test_a_smaller_deployment_is_refused_while_a_run_holds_a_node_that_it_would_not_have(world: World) -> None:
    """The pool is no longer in the new settings, and the guard looks at it all the same."""
    before = created(world)
    world.pool(replicas=0)
    world.pool(replicas=1, name="trn2-16")
    answer = updated(world, "nodes: 1", before)
    assert answer["Status"] == "FAILED" and "NodePool trn2-16 has 1 replica" in answer["Reason"]
    world.pool(replicas=0, name="trn2-16")
    world.claim("going", pool="trn2-16")
    assert "still going away (NodeClaim/going)" in updated(world, "nodes: 1", before)["Reason"]


def test_a_teardown_gives_up_every_node(world: World) -> None:
    for pool in (names.NODEPOOL, "trn2-2", names.CPU_NODEPOOL):
        world.pool(replicas=1, name=pool)
        world.claim(f"of-{pool}", pool=pool)
    assert sorted(give_up(NodePools(world.cluster.client()))) == [
        "NodeClaim/of-cpu",
        "NodeClaim/of-trn2",
        "NodeClaim/of-trn2-2",
        *("NodePool/cpu", "NodePool/trn2", "NodePool/trn2-2"),
    ]
    assert [pool["spec"]["replicas"] for pool in world.cluster.all("NodePool")] == [0, 0, 0]


def test_the_rollback_of_a_refused_update_passes(world: World) -> None:
    before = created(world)
    world.pool(replicas=1)
    refused = updated(world, "new", before)
    back = updated(world, "old", refused)
    assert back["Status"] == "SUCCESS"
    assert back["PhysicalResourceId"] == before["PhysicalResourceId"]


def test_staging_nodes_do_not_hold_up_an_update(world: World) -> None:
    before = created(world)
    world.pool(replicas=0)
    world.claim("staging-abc", pool=names.STAGING_NODEPOOL)
    assert updated(world, "new", before)["Status"] == "SUCCESS"


def test_drain_waits_for_the_last_node_claim_and_asks_for_its_deletion(world: World) -> None:
    world.claim("trn2-abc", deletionTimestamp="2026-11-21T00:00:00Z")
    world.claim("left-behind", pool=names.STAGING_NODEPOOL)
    world.after[120] = lambda: world.cluster.remove("NodeClaim", "trn2-abc")
    assert world.send("Delete", "drain", PhysicalResourceId="Guard")["Status"] == "SUCCESS"
    assert world.slept == 120
    assert not world.cluster.all("NodeClaim")


def test_drain_hands_over_when_its_invocation_ends_and_keeps_the_deadline(world: World) -> None:
    world.claim("trn2-abc", deletionTimestamp="2026-11-21T00:00:00Z")
    assert world.send("Delete", "drain", context=Context(minutes=0.5)) == {}
    (event,) = world.aws.invoked
    assert event[waiting.DEADLINE] == waiting.LIMIT_S
    assert event["RequestType"] == "Delete"
    world.after[60] = lambda: world.cluster.remove("NodeClaim", "trn2-abc")
    guards.handler(event, Context())
    assert world.answers[-1]["Status"] == "SUCCESS"


def test_drain_gives_up_at_the_deadline_and_names_what_is_left(world: World) -> None:
    world.claim("trn2-abc", deletionTimestamp="2026-11-21T00:00:00Z")
    answer = world.send("Delete", "drain")
    assert answer["Status"] == "FAILED"
    assert "NodeClaim/trn2-abc" in answer["Reason"]
    assert "still be billed" in answer["Reason"]
    assert world.slept == waiting.LIMIT_S


def test_teardown_ends_runs_and_waits_for_the_node(world: World) -> None:
    world.pool(replicas=1)
    world.claim("trn2-abc")
    labels = {"app.kubernetes.io/managed-by": "specdecode"}
    metadata = {"name": "r1-base-serving", "namespace": names.NAMESPACE, "labels": labels}
    world.cluster.put({"kind": "Deployment", "metadata": metadata})
    world.after[60] = lambda: world.cluster.remove("NodeClaim", "trn2-abc")
    world.aws.attached = {*(("karpenter", policy) for policy in NO_LAUNCH), ("karpenter", "arn:another")}
    assert world.send("Delete", "teardown", properties=GIVEN)["Status"] == "SUCCESS"
    assert world.aws.attached == {("karpenter", "arn:another")}
    assert world.aws.stopped == ["run-1", "run-2"]
    assert world.cluster.all("NodePool")[0]["spec"]["replicas"] == 0
    assert not world.cluster.all("Deployment")


def test_teardown_of_a_stack_that_never_came_up_passes(world: World) -> None:
    world.aws.running = []
    assert world.send("Delete", "teardown", properties=GIVEN)["Status"] == "SUCCESS"


def test_a_teardown_passes_if_somebody_has_deleted_the_bucket(world: World) -> None:
    def gone(operation: str, key: str) -> None:
        raise world.aws.s3.exceptions.NoSuchBucket({"Error": {"Code": "NoSuchBucket"}}, operation)

    world.aws.s3.before = gone
    assert world.send("Delete", "teardown", properties=GIVEN)["Status"] == "SUCCESS"


def test_a_lease_that_cannot_be_closed_is_no_torn_down_stack(world: World) -> None:
    world.aws.s3.before = denied
    answer = world.send("Delete", "teardown", properties=GIVEN)
    assert answer["Status"] == "FAILED" and "AccessDenied" in answer["Reason"]


@pytest.mark.parametrize("guard", ["drain", "teardown"])
@pytest.mark.parametrize("kind", ["Create", "Update"])
def test_the_deletion_guards_do_nothing_before(world: World, guard: str, kind: str) -> None:
    world.pool(replicas=1)
    assert world.send(kind, guard, properties=GIVEN)["Status"] == "SUCCESS"
    assert world.aws.stopped == world.aws.s3.uploads == []
    assert world.cluster.requests == []


@pytest.mark.parametrize(("kind", "guard"), [("Delete", "drain"), ("Delete", "nonsense")])
def test_whatever_goes_wrong_is_answered(world: World, kind: str, guard: str) -> None:
    world.cluster.fault = lambda method, path: status(403, "nodeclaims is forbidden")
    answer = world.send(kind, guard)
    assert answer["Status"] == "FAILED"
    assert answer["Reason"]


def test_a_teardown_without_a_backstop_takes_nothing_off_a_role(world: World) -> None:
    """As on a cluster that exists, where there is none."""
    world.aws.attached = {("karpenter", NO_LAUNCH[0])}
    given = {"StateMachineArn": MACHINE, "Bucket": "bucket"}
    assert world.send("Delete", "teardown", properties=given)["Status"] == "SUCCESS"
    assert world.aws.attached and world.aws.stopped == ["run-1", "run-2"]


STACKS = {"cluster": "arn:aws:cloudformation:us-east-2:1:stack/TrainiumClusterStack/1", "own": ""}
STACKS["own"] = STACKS["cluster"].replace("TrainiumClusterStack", "SpecDecodeStack")
KEPT = {"region": "us-east-2", "alert_email": "you@example.com"}


def deploy(
    world: World, stack: str, deployed: dict[str, str], settings: dict[str, str], replaces: dict[str, str], status: str
) -> dict[str, Any]:
    """The answer to `settings` over `deployed` ones, in a stack of this status."""
    guard = {"Type": "Custom::SpecDecodeSettingsGuard", "Properties": {"Settings": deployed}}
    world.aws.clients["cloudformation"] = SimpleNamespace(
        describe_stacks=lambda StackName: {"Stacks": [{"StackStatus": status}]},
        get_template=lambda StackName: {"TemplateBody": {"Resources": {"Guard": guard}}},
        exceptions=SimpleNamespace(ClientError=ClientError),
    )
    before = {"OldResourceProperties": {"Settings": deployed}} if stack == "own" else {}
    given = {"Settings": settings} | ({"Replaces": replaces} if replaces else {})
    return world.send("Update", "settings", properties=given, StackId=STACKS[stack], **before)


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize(
    ("settings", "replaces", "status", "result"),
    [
        (KEPT | {"nodes": "2"}, {}, "UPDATE_IN_PROGRESS", "SUCCESS"),
        ({"region": "us-east-2"}, {}, "UPDATE_IN_PROGRESS", "FAILED"),
        ({"region": "us-east-2"}, {"alert_email": "you@example.com"}, "UPDATE_IN_PROGRESS", "SUCCESS"),
        ({"region": "us-east-2"}, {}, "UPDATE_ROLLBACK_IN_PROGRESS", "SUCCESS"),
    ],
    ids=["more", "dropped", "dropped on purpose", "rolled back"],
)
def test_settings_of_the_deployed_stack_are_not_lost(
    world: World, stack: str, settings: dict[str, str], replaces: dict[str, str], status: str, result: str
) -> None:
    answer = deploy(world, stack, KEPT, settings, replaces, status)
    assert answer["Status"] == result
    assert ("alert_email: you@example.com -> none" in answer["Reason"]) == (result == "FAILED")


GROUP = {"region": "us-east-2", "existing_cluster": "theirs", "existing_node_group": "trainium"}


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize(
    ("deployed", "change", "words"),
    [
        (GROUP, {"existing_node_group": "other"}, "existing_node_group: trainium -> other"),
        (GROUP, {"existing_cluster": "other"}, "existing_cluster: theirs -> other"),
        (KEPT, {"karpenter_node_role": "nodes"}, "karpenter_node_role: none -> nodes"),
        (KEPT, {"existing_cluster": "theirs"}, "existing_cluster: none -> theirs"),
        (KEPT, {"cluster_name": "other"}, "cluster_name: none -> other"),
        (KEPT | {"bucket_encryption": "kms"}, {"bucket_encryption": ""}, "bucket_encryption: kms -> none"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_a_source_of_nodes_and_a_key_of_the_bucket_stay_though_the_change_is_meant(
    world: World, stack: str, deployed: dict[str, str], change: dict[str, str], words: str
) -> None:
    """Whether or not a run goes on: one may begin before the functions change. Only the rollback of that passes."""
    wanted = {key: value for key, value in (deployed | change).items() if value}
    replaces = {key: deployed[key] for key in change.keys() & deployed.keys()}
    answer = deploy(world, stack, deployed, wanted, replaces, "UPDATE_IN_PROGRESS")
    assert answer["Status"] == "FAILED"
    for each in (words, "`.venv/bin/specdecode destroy`, then deploy", "Nothing was changed"):
        assert each in answer["Reason"]
    back = deploy(world, stack, wanted, deployed, {}, "UPDATE_ROLLBACK_IN_PROGRESS")
    assert (back["Status"], world.aws.invoked) == ("SUCCESS", [])


def test_a_bucket_may_get_a_key(world: World) -> None:
    given = KEPT | {"bucket_encryption": "kms"}
    assert deploy(world, "own", KEPT, given, {}, "UPDATE_IN_PROGRESS")["Status"] == "SUCCESS"


def test_a_first_deployment_has_nothing_to_lose(world: World) -> None:
    def absent(StackName: str) -> None:
        error = {"Code": "ValidationError", "Message": f"Stack with id {StackName} does not exist"}
        raise ClientError({"Error": error}, "GetTemplate")

    exceptions = SimpleNamespace(ClientError=ClientError)
    world.aws.clients["cloudformation"] = SimpleNamespace(get_template=absent, exceptions=exceptions)
    for stack in STACKS.values():
        answer = world.send("Create", "settings", properties={"Settings": KEPT}, StackId=stack)
        assert answer["Status"] == "SUCCESS"
