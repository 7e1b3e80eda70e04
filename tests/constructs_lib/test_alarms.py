"""Each alarm watches what it says, and says what to do."""

from __future__ import annotations

import aws_cdk as cdk
import pytest
from aws_cdk import assertions
from aws_cdk import aws_stepfunctions as sfn

from constructs_lib.alarms import ERROR_RATE, REGRESSION, ResultAlarms
from constructs_lib.dashboard import NAME, Dashboard
from constructs_lib.settings import Settings

pytestmark = pytest.mark.synth


@pytest.fixture(scope="module")
def template() -> assertions.Template:
    stack = cdk.Stack(cdk.App(), "Test", env=cdk.Environment(region="us-east-2"))
    machine = sfn.StateMachine.from_state_machine_name(stack, "Machine", "pipeline")
    alarms = ResultAlarms(stack, "Alarms", state_machine=machine).alarms
    Dashboard(stack, "Dashboard", settings=Settings(), state_machine=machine, cluster_name="c", alarms=alarms)
    return assertions.Template.from_stack(stack)


def test_every_alarm_has_a_runbook_and_is_quiet_without_data(template: assertions.Template) -> None:
    found = template.find_resources("AWS::CloudWatch::Alarm")
    assert len(found) == 3
    for alarm in found.values():
        assert "Runbook: " in alarm["Properties"]["AlarmDescription"]
        assert alarm["Properties"]["TreatMissingData"] == "notBreaching"


@pytest.mark.parametrize(
    ("query", "threshold", "operator"),
    [
        ('SELECT MAX(ErrorRate) FROM SCHEMA("Qwen/LLMPerf", TestCase, Variant)', ERROR_RATE, "GreaterThanThreshold"),
        (
            'SELECT MIN(SpeedupOverLastRun) FROM SCHEMA("Qwen/LLMPerf", TestCase, Variant)',
            REGRESSION,
            "LessThanThreshold",
        ),
    ],
)
def test_results_are_watched_over_all_arms(
    template: assertions.Template, query: str, threshold: float, operator: str
) -> None:
    template.has_resource_properties(
        "AWS::CloudWatch::Alarm",
        {
            "Metrics": [assertions.Match.object_like({"Expression": query})],
            "Threshold": threshold,
            "ComparisonOperator": operator,
        },
    )


def test_the_dashboard_shows_the_alarms_under_its_name(template: assertions.Template) -> None:
    (dashboard,) = template.find_resources("AWS::CloudWatch::Dashboard").values()
    assert dashboard["Properties"]["DashboardName"] == NAME
    assert str(dashboard["Properties"]["DashboardBody"]).count("Fn::GetAtt") >= 3
