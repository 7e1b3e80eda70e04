"""Each alarm watches what it says, and says what to do."""

from pathlib import Path

import aws_cdk as cdk
import pytest
from aws_cdk import assertions
from aws_cdk import aws_logs as logs
from aws_cdk import aws_stepfunctions as sfn
from specdecode.analysis import compare_measured, datums, measure
from specdecode.measures.accounting import Accounting

from constructs_lib.observability.alarms import OPERATIONS, ResultAlarms
from constructs_lib.observability.dashboard import Dashboard
from constructs_lib.settings.fields import Settings
from tests.specdecode.analysis.simulate import context, experiment, run

pytestmark = pytest.mark.synth
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def template() -> assertions.Template:
    stack = cdk.Stack(cdk.App(), "Test", env=cdk.Environment(region="us-east-2"))
    machine = sfn.StateMachine.from_state_machine_name(stack, "Machine", "pipeline")
    alarms = ResultAlarms(stack, "Alarms").alarms
    log = logs.LogGroup(stack, "Log")
    Dashboard(
        stack, "Dashboard", settings=Settings(), state_machine=machine, log_group=log, cluster_name="c", alarms=alarms
    )
    return assertions.Template.from_stack(stack)


def test_every_alarm_has_a_runbook_and_is_quiet_without_data(template: assertions.Template) -> None:
    found = template.find_resources("AWS::CloudWatch::Alarm")
    assert len(found) == 2
    for alarm in found.values():
        assert "Runbook: " in alarm["Properties"]["AlarmDescription"]
        assert alarm["Properties"]["AlarmDescription"].endswith(OPERATIONS)
        assert alarm["Properties"]["TreatMissingData"] == "notBreaching"


def test_the_place_that_every_alarm_names_is_there_and_has_a_line_for_each(template: assertions.Template) -> None:
    file, _, anchor = OPERATIONS.partition("#")
    section = (ROOT / file).read_text("utf-8").partition(f"## {anchor.replace('-', ' ').capitalize()}\n")[2]
    for logical in template.find_resources("AWS::CloudWatch::Alarm"):
        assert f"`{logical.removeprefix('Alarms')[:-8]}`" in section


def test_the_metrics_that_are_queried_are_sent_with_the_dimensions_of_the_query() -> None:
    """Metrics Insights' SCHEMA takes series with exactly these dimensions, no more and no fewer."""
    tested = experiment()
    levels = measure(experiment=tested, records=run(tested), context=context())
    comparison = compare_measured(experiment=tested, levels=levels, context=context())
    block = datums.request_data(tested, levels, Accounting("usage"))
    for name, data in (
        ("ErrorRate", block),
        ("SpeedupOverLastRun", datums.metric_data(comparison, previous=comparison)),
    ):
        dimensions = [{item["Name"] for item in datum["Dimensions"]} for datum in data if datum["MetricName"] == name]
        assert {"TestCase", "Variant"} in dimensions
