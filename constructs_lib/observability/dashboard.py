"""The CloudWatch dashboard `Qwen/LLMPerf`."""

from collections.abc import Sequence

from aws_cdk import Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_logs as logs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct
from specdecode import names

from constructs_lib.observability import dashboard_body, dashboard_rules
from constructs_lib.settings.fields import Settings

NAME = "Qwen-LLMPerf"
"""The name that the public sample `Qwen/LLMPerf` gets here: a dashboard's name may hold letters, digits, `-` and `_`
only.
"""


class Dashboard(Construct):
    """One dashboard: what a person on duty needs, then the results of any experiment.

    Raises ValueError at synth if CloudWatch would refuse the body; without this check only a deployment would show it.
    With `settings` a second installation in the same account and region gets a dashboard of another name.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        settings: Settings,
        state_machine: sfn.IStateMachine,
        log_group: logs.ILogGroup,
        cluster_name: str,
        alarms: Sequence[cloudwatch.IAlarm] = (),
    ) -> None:
        super().__init__(scope, id)
        stack = Stack.of(self)
        body = dashboard_body.body(
            region=stack.region,
            cluster_name=cluster_name,
            state_machine_arn=state_machine.state_machine_arn,
            log_group=log_group.log_group_name,
            node_price=settings.node_price,
            operations_namespace=names.OPERATIONS_NAMESPACE,
            alarm_arns=[alarm.alarm_arn for alarm in alarms],
        )
        if wrong := dashboard_rules.problems(body):
            raise ValueError("the dashboard's body is invalid:\n" + "\n".join(wrong))
        default = settings.cluster_name == type(settings).model_fields["cluster_name"].default
        self.name = NAME if default else f"{NAME}-{settings.cluster_name}"
        cloudwatch.CfnDashboard(self, "Resource", dashboard_name=self.name, dashboard_body=stack.to_json_string(body))
