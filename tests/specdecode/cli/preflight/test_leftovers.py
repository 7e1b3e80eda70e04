"""What an earlier deployment left, with the command that removes it."""

import pytest
from specdecode.cli.preflight.account import leftovers

from tests.specdecode.cli.preflight.aws import Aws, error, hours

NO_STACK = error("ValidationError", "Stack with id X does not exist")
NOTHING = {
    "DescribeStacks": NO_STACK,
    "DescribeCluster": error("ResourceNotFoundException"),
    "ListQueues": {},
    "DescribeInstances": {"Reservations": []},
    "DescribeNetworkInterfaces": {"NetworkInterfaces": []},
    "DescribeLaunchTemplates": {"LaunchTemplates": []},
    "DescribeLogGroups": {"logGroups": []},
    "GetResources": {"ResourceTagMappingList": []},
}


def found(**answers):
    return {check.name: check for check in leftovers(Aws(**NOTHING | answers).ask())}


def test_nothing_is_left():
    assert {name: check.verdict for name, check in found().items()} == {"leftovers": "ok"}


def only(name):
    """The stack of that name is there in a state, the other is not."""
    return lambda status: (
        lambda given: (
            {"Stacks": [{"StackName": name, "CreationTime": hours(0), "StackStatus": status}]}
            if given["StackName"] == name
            else NO_STACK
        )
    )


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("ROLLBACK_FAILED", "delete-stack --stack-name SpecDecodeStack --region us-east-2"),
        ("DELETE_FAILED", "delete-stack"),
        ("DELETE_IN_PROGRESS", "wait until it ends"),
        ("CREATE_COMPLETE", None),
        ("REVIEW_IN_PROGRESS", None),
    ],
)
def test_a_stack_that_cannot_be_deployed_again(status, words):
    checks = found(DescribeStacks=only("SpecDecodeStack")(status))
    if words is None:
        assert "stack SpecDecodeStack" not in checks
    else:
        assert (checks["stack SpecDecodeStack"].verdict, words in checks["stack SpecDecodeStack"].fix) == ("fail", True)


def test_a_stack_that_was_rolled_back_is_deleted_by_the_next_deployment():
    check = found(DescribeStacks=only("SpecDecodeStack")("ROLLBACK_COMPLETE"))["stack SpecDecodeStack"]
    assert (check.verdict, "the next cdk deploy deletes it" in check.fix) == ("warn", True)


def test_a_stack_that_was_rolled_back_owns_nothing():
    gone = only("TrainiumClusterStack")("ROLLBACK_COMPLETE")
    assert found(DescribeStacks=gone, DescribeCluster={"cluster": {}})["leftover cluster"].verdict == "fail"


QUEUE = {"QueueUrls": ["https://sqs/1/specdecode-other", "https://sqs/1/specdecode"]}
INSTANCE = {"Instances": [{"InstanceId": "i-1", "InstanceType": "trn2.48xlarge"}]}
INTERFACE = {"NetworkInterfaces": [{"NetworkInterfaceId": "eni-1"}]}
TEMPLATE = {"LaunchTemplates": [{"LaunchTemplateId": "lt-1"}]}
GROUP = {"logGroups": [{"logGroupName": "/aws/eks/specdecode/cluster"}]}
BUCKET = {"ResourceTagMappingList": [{"ResourceARN": "arn:aws:s3:::specdecodestack-artifacts"}]}


@pytest.mark.parametrize(
    ("answers", "name", "verdict", "words"),
    [
        ({"DescribeCluster": {"cluster": {}}}, "leftover cluster", "fail", "cluster_name"),
        ({"ListQueues": QUEUE}, "leftover queue", "fail", "cluster_name"),
        ({"DescribeInstances": {"Reservations": [INSTANCE]}}, "leftover instances", "fail", "terminate-instances"),
        ({"DescribeNetworkInterfaces": INTERFACE}, "leftover network interfaces", "warn", "eni-1"),
        ({"DescribeLaunchTemplates": TEMPLATE}, "leftover launch templates", "warn", "lt-1"),
        ({"DescribeLogGroups": GROUP}, "leftover log groups", "warn", "/aws/eks/specdecode/cluster"),
        ({"GetResources": BUCKET}, "leftover buckets", "warn", "s3://specdecodestack-artifacts"),
    ],
)
def test_each_kind_is_named_with_what_to_do(answers, name, verdict, words):
    check = found(**answers)[name]
    assert (check.verdict, words in check.fix) == (verdict, True)


def test_what_the_cluster_s_own_stack_has_is_no_leftover():
    """The first stack is there, the second was never deployed."""
    there = only("TrainiumClusterStack")("CREATE_COMPLETE")
    checks = found(DescribeStacks=there, DescribeCluster={"cluster": {}}, DescribeLogGroups=GROUP)
    assert {check.verdict for check in checks.values()} == {"ok"}


def test_what_may_not_be_seen_hides_nothing_else():
    checks = found(DescribeInstances={"Reservations": [INSTANCE]}, DescribeCluster=error("AccessDeniedException"))
    assert checks["leftover cluster"].verdict == "warn"
    assert checks["leftover instances"].verdict == "fail"
