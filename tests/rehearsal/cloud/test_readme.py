"""The README's AWS lines as a user types them, in a shell with credentials and AWS_REGION and nothing else of AWS."""

import json
import os
import shlex
import subprocess

import pytest

from constructs_lib.settings.facts import document
from constructs_lib.settings.fields import Settings
from rehearsal import tools
from tests.docs.markdown import ROOT, blocks
from tests.patience import PATIENCE_S

USER = {"AWS_REGION": tools.REGION, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
EMULATED = {"AWS_ENDPOINT_URL", "AWS_EC2_METADATA_DISABLED", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"}
"""Variables that lead to the embedded AWS and hide this machine's own configuration."""


def aws_lines() -> list[str]:
    """The lines of the README's section "On AWS", comments removed."""
    section = next(block for block in blocks(ROOT / "README.md") if "export AWS_REGION" in block.text)
    return [" ".join(shlex.split(line, comments=True)) for line in section.text.splitlines()]


LINES = [
    line
    for line in aws_lines()
    if line.startswith(".venv/bin/specdecode") and line.split()[1] not in ("configure", "destroy")
]
"""Not those that write into the checkout, or delete stacks (tests/end_to_end/settings.py, test_destroy.py)."""


SAYS = {"preflight": "arn:aws:iam::000000000000:root", "run": "SUCCEEDED", "report": "has no report yet"}
"""A part of each command's output that shows that it reached AWS."""
SEEN = {"lease": {}, "replicas": 0, "nodes": [], "pods": [], "turns": {}}
"""A cluster at rest, in the form of the inspect function's answer."""


@pytest.fixture(scope="module")
def deployed(cloud):
    """A stack with the outputs that the commands read: a bucket, a state machine and functions."""
    function = cloud.function("answers", f"def handler(event, context): return {SEEN}")
    machine = cloud.machine("pipeline", {"StartAt": "End", "States": {"End": {"Type": "Succeed"}}})
    queue = cloud.client("sqs").create_queue(QueueName="somebody")["QueueUrl"]
    told = cloud.client("sqs").get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"][
        "QueueArn"
    ]
    resources = {
        "Bucket": {"Type": "AWS::S3::Bucket"},
        "Topic": {"Type": "AWS::SNS::Topic"},
        "Told": {
            "Type": "AWS::SNS::Subscription",
            "Properties": {"TopicArn": {"Ref": "Topic"}, "Protocol": "sqs", "Endpoint": told},
        },
    }
    outputs = {"StateMachineArn": machine, "InspectFunction": function, "WatchdogFunction": function}
    outputs |= {"BucketName": {"Ref": "Bucket"}, "AlertsTopicArn": {"Ref": "Topic"}, "Capacity": "{}"}
    cloud.deploy("SpecDecodeStack", resources, DeploymentFacts=document(Settings()), **outputs)
    yield cloud
    cloud.delete("SpecDecodeStack")


def test_the_section_is_the_one_that_is_tried():
    assert [line for line in aws_lines() if line.startswith("export")] == [f"export AWS_REGION={tools.REGION}"]
    assert {line.split()[1] for line in LINES} == set(SAYS)


def test_a_rehearsal_sets_no_more_than_a_user():
    """So every command that works in it works with the README's lines, `cdk bootstrap`, `deploy` and `destroy` too."""
    assert set(tools.aws_environment("http://127.0.0.1:1")) == set(USER) | EMULATED


def typed(words, cloud, **variables):
    """A command's output (both streams) and its exit code."""
    aws = {name: value for name, value in tools.aws_environment(cloud.services.endpoint).items() if name in EMULATED}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    env = kept | aws | USER | variables
    return subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


@pytest.mark.slow
@pytest.mark.parametrize("line", LINES)
def test_the_line_gets_past_region_and_credentials(line, deployed):
    """The error is about a deployment without a report, not about the environment."""
    words = [word for word in shlex.split(line) if word != "--open"]
    words += ["--yes"] if words[1] == "run" else []  # what a person answers
    ended = typed(words, deployed)
    said = ended.stdout + ended.stderr
    assert "Traceback" not in said and "egion" not in ended.stderr, said
    assert SAYS[words[1]] in said, said


@pytest.mark.slow
def test_a_run_is_refused_while_nobody_is_told(deployed):
    sns = deployed.client("sns")
    outputs = deployed.client("cloudformation").describe_stacks(StackName="SpecDecodeStack")["Stacks"][0]["Outputs"]
    (topic,) = [item["OutputValue"] for item in outputs if item["OutputKey"] == "AlertsTopicArn"]
    (told,) = sns.list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"]
    sns.unsubscribe(SubscriptionArn=told["SubscriptionArn"])
    try:
        ended = typed([".venv/bin/specdecode", "run", "qwen3-32b"], deployed)
        assert (ended.returncode, ended.stdout) == (3, "")
        assert "fail: alerts: nobody is told" in ended.stderr and "nothing was started" in ended.stderr
    finally:
        sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=told["Endpoint"])


@pytest.mark.slow
def test_preflight_sees_what_the_account_has(deployed):
    """Facts that the embedded AWS knows: zones by id, quotas of functions, missing AMIs, subscriptions."""
    ended = typed([".venv/bin/specdecode", "preflight", "qwen3-32b", "--json"], deployed)
    found = {check["name"]: check for check in json.loads(ended.stdout)}
    assert ended.returncode == 3
    assert found["credentials"]["detail"] == "arn:aws:iam::000000000000:root"
    assert {name: found[name]["verdict"] for name in ("stack", "region", "alerts", "node")} == dict.fromkeys(
        ("stack", "region", "alerts", "node"), "ok"
    )
    assert found["AMI of the trn2 node"]["verdict"] == "fail"
    assert "Traceback" not in ended.stderr
