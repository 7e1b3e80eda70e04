"""A run that EventBridge Scheduler starts, and the alarm for a run that could not be started (ADR 113)."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from aws_cdk import Annotations, CfnOutput, Duration, RemovalPolicy, TimeZone
from aws_cdk import aws_cloudwatch as cw
from aws_cdk import aws_iam as iam
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_scheduler_targets as targets
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from constructs_lib.observability.alarms import described

RETRIES = 3
"""Attempts after the first. If only the answer of one was lost, the next begins no second run (`scheduled_time`)."""
LONGEST_TRY = Duration.minutes(15)


@dataclass(frozen=True, kw_only=True)
class ScheduledRun:
    """The scheduled run: what starts, when, and what it may cost. The caller has checked that the settings allow it."""

    experiment: str
    request: dict[str, Any]
    """The execution's input."""
    when: str | datetime
    """A cron expression, or the one moment."""
    time_zone: str
    bound: str
    """What it costs at most, in words."""


class RunSchedule(Construct):
    """One schedule in a group of its own, its role, and `alarms`. The role may only start this state machine."""

    def __init__(self, scope: Construct, id: str, *, run: ScheduledRun, state_machine: sfn.IStateMachine) -> None:
        super().__init__(scope, id)
        group = scheduler.ScheduleGroup(self, "Group", removal_policy=RemovalPolicy.DESTROY)
        start = {
            "StateMachineArn": state_machine.state_machine_arn,
            # A name that no earlier run had: the id is new for each attempt, and the time is that of the schedule
            # (managing-schedule-context-attributes). A name may hold no colon (StartExecution), and the time has some.
            "Name": f"{run.experiment[:40]}-scheduled-{scheduler.ContextAttribute.execution_id}",
            "Input": json.dumps({**run.request, "scheduled_time": scheduler.ContextAttribute.scheduled_time}),
        }
        self.schedule = scheduler.Schedule(
            self,
            "Start",
            description=f"Starts {run.experiment}: {run.bound}"[:512],
            schedule=_expression(run),
            schedule_group=group,
            target=targets.Universal(
                service="sfn",
                action="startExecution",
                input=scheduler.ScheduleTargetInput.from_object(start),
                retry_attempts=RETRIES,
                max_event_age=LONGEST_TRY,
                policy_statements=[
                    iam.PolicyStatement(actions=["states:StartExecution"], resources=[state_machine.state_machine_arn])
                ],
            ),
        )
        period = Duration.minutes(5)
        self.alarms = [
            cw.Alarm(
                self,
                "NotStarted",
                metric=cw.MathExpression(
                    expression="SUM(METRICS())",
                    label="Starts that failed",
                    period=period,
                    using_metrics={
                        "dropped": group.metric_dropped(period=period, statistic="Sum"),
                        "errors": group.metric_target_errors(period=period, statistic="Sum"),
                    },
                ),
                threshold=0,
                evaluation_periods=1,
                comparison_operator=cw.ComparisonOperator.GREATER_THAN_THRESHOLD,
                treat_missing_data=cw.TreatMissingData.NOT_BREACHING,
                alarm_description=described(
                    "A run on a schedule could not be started.",
                    runbook=f"`specdecode run {run.experiment}` starts it by hand; CloudTrail has the refused "
                    "StartExecution.",
                ),
            )
        ]
        said = f"{run.experiment} starts by itself, {_words(run)}: {run.bound}"
        Annotations.of(self).add_info_v2("specdecode:schedule", said)
        CfnOutput(self, "When", value=said).override_logical_id("ScheduledRun")


def _expression(run: ScheduledRun) -> scheduler.ScheduleExpression:
    if isinstance(run.when, datetime):
        return scheduler.ScheduleExpression.at(run.when.astimezone(UTC), TimeZone.ETC_UTC)
    return scheduler.ScheduleExpression.expression(run.when, TimeZone.of(run.time_zone))


def _words(run: ScheduledRun) -> str:
    if isinstance(run.when, datetime):
        return f"once, as the Capacity Block begins ({run.when.astimezone(UTC):%Y-%m-%d %H:%M} UTC)"
    return f"{run.when} {run.time_zone}"
