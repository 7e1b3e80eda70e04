"""The command whole, before a deployment and after, and what `run` refuses."""

import json
from functools import partial
from types import SimpleNamespace

import pytest
from botocore.exceptions import NoCredentialsError
from specdecode.cli import runs_deployment
from specdecode.cli.preflight import account, checks, pulled
from specdecode.cli.preflight.check import tried
from specdecode.cli.preflight.checks import Checks
from specdecode.cli.runs_deployment import Deployment
from specdecode.experiment import load_preset
from specdecode.experiment.deployment_facts import DeploymentFacts
from specdecode.runs.lease import Claim, Lease
from specdecode.s3_keys import CAPACITY_KEY

from tests.specdecode.cli.calling import call
from tests.specdecode.cli.preflight.aws import (
    ACCOUNT,
    FACTS,
    IDENTITY,
    NOW,
    Aws,
    error,
    hours,
    network,
    reservation,
    vcpus,
    verdicts,
    zones,
)
from tests.specdecode.cli.preflight.test_account import NOTHING, only
from tests.specdecode.steps.aws_fake import FakeS3

TOPIC = f"arn:aws:sns:us-east-2:{ACCOUNT}:alerts"
CONFIRMED = {"Subscriptions": [{"SubscriptionArn": f"{TOPIC}:1", "Protocol": "email", "Endpoint": "you@example.com"}]}
WELL = {
    **(NOTHING | network().answers | vcpus().answers | zones(offered=("use2-az1", "use2-az2", "use2-az3")).answers),
    "GetServiceQuota": {"Quota": {"Value": 1000.0}},
    "GetCallerIdentity": IDENTITY,
    "GetAccountSettings": {"AccountLimit": {"ConcurrentExecutions": 1000, "UnreservedConcurrentExecutions": 1000}},
    "DescribeAddonVersions": lambda given: {
        "addons": [{"addonVersions": [{"addonVersion": build} for build in BUILDS[given["addonName"]]]}]
    },
    "GetParameters": lambda given: {"Parameters": [{"Name": name, "Value": "ami-1"} for name in given["Names"]]},
    "ListSubscriptionsByTopic": CONFIRMED,
    "DescribeSecret": {"Name": "specdecode/huggingface-token"},
}
"""An account in which nothing would fail. (Leftovers are asked for before the first deployment only.)"""
BUILDS = {name: [build] for name, build in account.facts_of_checkout([]).addons.items()} | {
    "vpc-cni": ["v1.22.4-eksbuild.3"]
}


class World:
    """What the command sees: AWS, the bucket, the stack's outputs (None: no stack), the network."""

    def __init__(self, **answers):
        self.aws = Aws(**WELL | answers)
        self.s3 = FakeS3()
        self.outputs = {
            "BucketName": "bucket",
            "AlertsTopicArn": TOPIC,
            "DeploymentFacts": FACTS.model_dump_json(),
            "StateMachineArn": "arn:aws:states:us-east-2:1:stateMachine:pipeline",
        }
        self.status = 200

    def deployment(self, **given):
        session = SimpleNamespace(client=self.client, region_name="us-east-2")
        return Deployment(stack="SpecDecodeStack", session=session)

    def client(self, service):
        if service == "s3":
            return self.s3
        if service == "cloudformation" and self.outputs is not None:
            outputs = [{"OutputKey": key, "OutputValue": value} for key, value in self.outputs.items()]
            stack = {"StackName": "s", "CreationTime": NOW, "StackStatus": "CREATE_COMPLETE", "Outputs": outputs}
            return SimpleNamespace(describe_stacks=lambda StackName: {"Stacks": [stack]})
        return self.aws.client(service)

    def http(self, method, url, headers):
        return pulled.RegistryAnswer(self.status, {"docker-content-digest": f"sha256:{'a' * 64}"})


@pytest.fixture
def world(monkeypatch):
    made = World()
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(runs_deployment, "Deployment", made.deployment)
    monkeypatch.setattr(pulled, "http", made.http)
    return made


called = partial(call, "preflight")


def found(*arguments, code=0):
    return {check["name"]: check for check in json.loads(called(*arguments, "--json", code=code).stdout)}


def test_before_the_first_deployment_the_checkout_s_settings_are_checked(world):
    world.outputs = None
    shown = found("-c", "alert_email=you@example.com")
    assert {check["verdict"] for check in shown.values()} == {"ok"}
    assert {"stack", "credentials", "region", "zones", "VPCs", "Lambda concurrency", "leftovers"} <= set(shown)
    assert {"AMI of the trn2 node", "add-on coredns", "model Qwen/Qwen3-32B"} <= set(shown)
    assert "not deployed yet" in shown["stack"]["detail"]


def test_every_problem_is_in_one_output_with_its_fix(world):
    world.outputs, world.status = None, 0
    world.aws.answers |= {
        "GetServiceQuota": {"Quota": {"Value": 1.0}},
        "GetParameters": {"Parameters": []},
        "DescribeSecret": error("ResourceNotFoundException"),
        "DescribeCapacityReservations": {"CapacityReservations": []},
        "DescribeLaunchTemplates": error("UnauthorizedOperation"),
    }
    text = called("llama-3.1-405b", "-c", "capacity_reservation_id=cr-0123456789abcdef0", code=3).stdout
    for words in (
        "there is no cr-0123456789abcdef0",
        "Hugging Face answers nothing",
        "create-secret",
        "no v20260714",
        "L-1216C47A",
        "L-F678F1CE",
        "configure alert_email=you@example.com`",
        "you may not look: UnauthorizedOperation",
    ):
        assert words in text, words
    assert "would fail" in text.splitlines()[-1]


@pytest.mark.parametrize(
    ("status", "names"),
    [("CREATE_FAILED", {"network quotas"}), ("ROLLBACK_COMPLETE", {"VPCs", "Elastic IPs", "NAT gateways"})],
)
def test_our_own_network_of_a_deployment_that_did_not_end_is_not_others(world, status, names):
    world.outputs = None
    world.aws.answers["DescribeStacks"] = only("TrainiumClusterStack")(status)
    shown = found("-c", "alert_email=you@example.com", code=0 if status == "ROLLBACK_COMPLETE" else 3)
    assert {"network quotas", "VPCs", "Elastic IPs", "NAT gateways"} & set(shown) == names


def test_a_setting_that_cannot_work_is_refused_as_by_the_synth(world):
    world.outputs = None
    assert "  - regoin: no such setting; did you mean region?" in called("-c", "regoin=x", code=2).stderr


def test_a_deployed_stack_says_what_it_is_and_is_not_asked_for_leftovers(world):
    shown = found()
    assert {check["verdict"] for check in shown.values()} == {"ok"}
    assert {"node", "alerts"} <= set(shown) and not {"VPCs", "leftovers", "Lambda concurrency"} & set(shown)


def test_settings_that_are_given_are_checked_against_a_deployed_stack(world):
    """A Capacity Block was bought: is it the one that the next deployment would name?"""
    world.aws.answers["DescribeCapacityReservations"] = {"CapacityReservations": []}
    shown = found("-c", "capacity_reservation_id=cr-0123456789abcdef0", code=3)
    assert shown["reservation"]["verdict"] == "fail" and "node" in shown


def test_expired_credentials_are_said_once(world):
    world.outputs = None
    world.aws.answers["DescribeStacks"] = error("ExpiredToken", "The security token included in the request is expired")
    world.aws.answers["GetCallerIdentity"] = error("ExpiredToken")
    shown = found(code=3)
    assert list(shown) == ["credentials"] and "aws sso login" in shown["credentials"]["fix"]


def test_settings_are_checked_without_credentials_too(world):
    world.aws.answers["GetCallerIdentity"] = NoCredentialsError()
    shown = found("-c", "alert_email=you@example.com", code=3)
    assert {name: check["verdict"] for name, check in shown.items()} == {"credentials": "fail", "settings": "ok"}
    both = called("-c", "regoin=x", code=2).output
    assert "did you mean region?" in both and "export AWS_ACCESS_KEY_ID" in both


def test_only_what_may_not_be_looked_at_leaves_the_exit_code_at_0(world):
    world.aws.answers["GetServiceQuota"] = error("AccessDeniedException")
    assert found()["vCPUs"]["verdict"] == "warn"


def test_a_stack_of_another_version_says_so(world):
    del world.outputs["DeploymentFacts"]
    assert "deploy again" in called(code=3).stderr


def test_the_facts_of_the_checkout_are_those_that_a_stack_puts_out():
    from constructs_lib.settings.facts import document
    from constructs_lib.settings.reading import read_settings

    given = {"alert_email": "you@example.com", "capacity_zones": "use2-az1"}
    stated = DeploymentFacts.model_validate_json(document(read_settings(given)))
    printed = account.facts_of_checkout(["--alone", *(f"{key}={value}" for key, value in given.items())])
    assert printed.settings == {**given, "region": "us-east-2"}
    assert stated == printed.model_copy(update={"settings": None}), "an output has no address"
    assert "you@example.com" not in document(read_settings(given))


def test_pin_writes_the_digest(world, monkeypatch, tmp_path):
    (tmp_path / "engines").mkdir()
    file = tmp_path / "engines" / "0.29.0-sdk2.33.0.yaml"
    file.write_text("image: x\n")
    monkeypatch.setattr(checks, "assets_dir", lambda: tmp_path)
    assert "deploy again" in called("--pin").stderr
    assert file.read_text() == f"image: x\ndigest: sha256:{'a' * 64}\n"
    assert "nothing to write" in called("--pin").stderr


HELD = Claim(run_id="r-1", execution_arn="arn", queued_at=NOW, held_since=NOW)


def before_a_run(world, preset="qwen3-32b", **facts):
    ask, experiment = world.aws.ask(deployed=True, **facts), load_preset(preset)
    checks = Checks(ask, world.deployment(), experiment).before_a_run()
    return verdicts(each for name, check in checks for each in tried(name, check))


def test_a_run_asks_little_before_it_starts(world):
    """Four questions of AWS at most beside the bucket; nothing of the network."""
    assert before_a_run(world) == {"alerts": "ok"}
    assert [operation for operation, _ in world.aws.asked] == ["ListSubscriptionsByTopic"]


@pytest.mark.parametrize(
    ("preset", "answers", "facts", "name"),
    [
        ("qwen3-32b", {"ListSubscriptionsByTopic": {"Subscriptions": []}}, {}, "alerts"),
        (
            "qwen3-32b",
            {"DescribeCapacityReservations": {"CapacityReservations": []}},
            {"reservation": "cr-1"},
            "reservation",
        ),
        ("llama-3.1-405b", {"DescribeSecret": error("ResourceNotFoundException")}, {}, "Hugging Face token"),
        ("rehearsal", {}, {}, "model specdecode/pair-target"),
    ],
)
def test_what_a_run_is_refused_for(world, preset, answers, facts, name):
    world.aws.answers |= answers
    assert before_a_run(world, preset, **facts)[name] == "fail"


def test_a_reservation_that_a_run_of_ours_uses_is_a_queue_not_a_failure(world):
    world.aws.answers |= reservation(AvailableInstanceCount=0).answers
    assert before_a_run(world, reservation="cr-1")["reservation"] == "fail"
    world.s3.objects[CAPACITY_KEY] = Lease(holders=(HELD,)).model_dump_json().encode()
    assert before_a_run(world, reservation="cr-1")["reservation"] == "warn"


def test_a_block_that_is_over_starts_no_run(world):
    block = {"ReservationType": "capacity-block", "StartDate": hours(-24), "EndDate": hours(0.5)}
    world.aws.answers |= reservation(**block).answers
    assert before_a_run(world, reservation="cr-1", block_end=hours(0.5))["window"] == "fail"


def test_run_starts_nothing_that_would_fail_and_says_why(world, monkeypatch):
    world.aws.answers["ListSubscriptionsByTopic"] = {"Subscriptions": []}
    result = call("run", "qwen3-32b", code=3)
    assert "nobody is told" in result.stderr and "nothing was started" in result.stderr
    assert "StartExecution" not in [operation for operation, _ in world.aws.asked]
