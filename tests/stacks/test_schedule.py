"""The template of a deployment with a schedule: what starts, who may start it, who is told when it does not."""

import json
from typing import Any

import pytest

from tests.conftest import Assembly, synthesize
from tests.templates import Templates, as_list, dependencies

pytestmark = pytest.mark.synth
STACK = "SpecDecodeStack"


@pytest.fixture(scope="module")
def nightly(tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    return synthesize(
        tmp_path_factory.mktemp("nightly"),
        accept_no_alerts="true",
        schedule="cron(0 1 ? * MON-FRI *)",
        schedule_time_zone="Europe/Berlin",
        schedule_experiment="account-check",
    )


@pytest.fixture(scope="module")
def scheduled(nightly: Assembly) -> Templates:
    return nightly.templates()


def text_of(value: Any) -> str:
    """A value with references as `${name}`."""
    if isinstance(value, dict) and "Fn::Join" in value:
        return "".join(map(text_of, value["Fn::Join"][1]))
    return f"${{{value['Ref']}}}" if isinstance(value, dict) else str(value)


def one(templates: Templates, kind: str) -> dict[str, Any]:
    resources = templates.stacks[STACK]["Resources"].values()
    (found,) = [resource["Properties"] for resource in resources if resource["Type"] == kind]
    return dict(found)


def test_a_deployment_without_one_has_nothing_of_it(templates: Templates) -> None:
    assert not [name for _, name, found in templates.resources() if "Scheduler" in found["Type"]]


def test_nothing_is_unexplained(nightly: Assembly) -> None:
    assert nightly.findings == ()


def test_it_starts_the_state_machine_with_a_name_of_its_own_each_time(scheduled: Templates) -> None:
    schedule = one(scheduled, "AWS::Scheduler::Schedule")
    assert schedule["ScheduleExpression"] == "cron(0 1 ? * MON-FRI *)"
    assert schedule["ScheduleExpressionTimezone"] == "Europe/Berlin"
    assert schedule["FlexibleTimeWindow"] == {"Mode": "OFF"}
    target = schedule["Target"]
    assert text_of(target["Arn"]).endswith(":scheduler:::aws-sdk:sfn:startExecution")
    given = json.loads(text_of(target["Input"]))
    assert given["Name"] == "account-check-scheduled-<aws.scheduler.execution-id>"
    assert given["StateMachineArn"].startswith("${PipelineStateMachine")
    asked = json.loads(given["Input"])
    assert (asked["experiment"], asked["scheduled_time"]) == ("account-check", "<aws.scheduler.scheduled-time>")
    assert target["RetryPolicy"]["MaximumRetryAttempts"] == 3, "if only the answer was lost, Plan refuses the second"


def test_its_role_may_start_this_state_machine_and_nothing_else(scheduled: Templates) -> None:
    schedule = one(scheduled, "AWS::Scheduler::Schedule")
    role = schedule["Target"]["RoleArn"]["Fn::GetAtt"][0]
    resources = scheduled.stacks[STACK]["Resources"]
    statements = [
        statement
        for found in resources.values()
        if found["Type"] == "AWS::IAM::Policy" and {"Ref": role} in found["Properties"]["Roles"]
        for statement in found["Properties"]["PolicyDocument"]["Statement"]
    ]
    (statement,) = statements
    assert as_list(statement["Action"]) == ["states:StartExecution"]
    (machine,) = [name for name, found in resources.items() if found["Type"] == "AWS::StepFunctions::StateMachine"]
    assert statement["Resource"] == {"Ref": machine}
    assert not resources[role]["Properties"].get("ManagedPolicyArns")
    (trust,) = resources[role]["Properties"]["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Principal"] == {"Service": "scheduler.amazonaws.com"}
    (group,) = [name for name, found in resources.items() if found["Type"] == "AWS::Scheduler::ScheduleGroup"]
    assert trust["Condition"]["StringEquals"] == {
        "aws:SourceAccount": {"Ref": "AWS::AccountId"},
        "aws:SourceArn": {"Fn::GetAtt": [group, "Arn"]},
    }
    starters = [name for name, found in scheduled.statements() if "states:StartExecution" in as_list(found["Action"])]
    assert len(starters) == 1, "nobody else starts runs"


def test_somebody_is_told_when_it_could_not_start(scheduled: Templates) -> None:
    alarms = scheduled.properties("AWS::CloudWatch::Alarm")
    (alarm,) = [found for name, found in alarms.items() if "NotStarted" in name]
    metrics = [item["MetricStat"]["Metric"] for item in alarm["Metrics"] if "MetricStat" in item]
    assert {metric["MetricName"] for metric in metrics} == {"InvocationDroppedCount", "TargetErrorCount"}
    group = one(scheduled, "AWS::Scheduler::ScheduleGroup")["Name"]
    assert all(metric["Dimensions"] == [{"Name": "ScheduleGroup", "Value": group}] for metric in metrics)
    assert len(alarm["AlarmActions"]) == 1


def test_it_is_deleted_before_what_ends_the_runs_that_go_on(scheduled: Templates) -> None:
    resources = scheduled.stacks[STACK]["Resources"]
    (schedule,) = [name for name, found in resources.items() if found["Type"] == "AWS::Scheduler::Schedule"]
    (teardown,) = [name for name in resources if name.startswith("GuardsTeardownGuard")]
    assert teardown in dependencies(scheduled.stacks[STACK])[schedule]


def test_what_it_costs_at_most_is_said(nightly: Assembly, scheduled: Templates) -> None:
    said = scheduled.stacks[STACK]["Outputs"]["ScheduledRun"]["Value"]
    assert "account-check starts by itself" in said and "25 runs a month at most, $" in said
    manifest = json.loads((nightly.folder / "manifest.json").read_text())["artifacts"][STACK]
    metadata = manifest.get("metadata") or json.loads((nightly.folder / manifest["additionalMetadataFile"]).read_text())
    told = [entry["data"] for entries in metadata.values() for entry in entries if entry["type"] == "aws:cdk:info"]
    assert any("25 runs a month at most" in str(each) for each in told)
