"""When the watchdog runs, and the alarms for a watchdog that does not run and for a node that no run holds."""

from collections.abc import Sequence

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cw
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct
from specdecode import names
from specdecode.giving_back import CLAIM_GRACE_MINUTES, STUCK_GRACE_HOURS, WATCHDOG_PERIOD_MINUTES

from constructs_lib.observability.alarms import described

HEARTBEAT = "WatchdogHeartbeat"
PERIOD = Duration.minutes(WATCHDOG_PERIOD_MINUTES)
POOL = "NodePool"
"""Dimension of the metrics of one pool (specdecode.steps.watchdog)."""
DRAIN_PERIODS = CLAIM_GRACE_MINUTES // WATCHDOG_PERIOD_MINUTES
"""A released node may take the NodePool's terminationGracePeriod of 10 minutes to drain, which is no alarm."""


class WatchdogSchedule(Construct):
    """Runs the function every five minutes and whenever an execution of the machine ends badly.

    `pools`: the pools whose nodes come and go with runs; empty if the nodes are not ours.
    `missing_heartbeat`: the alarm for no heartbeat in fifteen minutes. Missing data counts as breaching, so a first
    heartbeat must be sent before this alarm is created.
    `alarms`: that one; for each pool, a node that no run holds for fifteen minutes; a run that has held a node for
    longer than `longest_run_hours`; a run that ended badly; something that the watchdog could not do.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        function: lambda_.IFunction,
        state_machine: sfn.IStateMachine,
        longest_run_hours: int,
        pools: Sequence[str],
    ) -> None:
        super().__init__(scope, id)
        self._call(function, state_machine)
        self.missing_heartbeat = self._no_heartbeat()
        self.alarms = [
            self.missing_heartbeat,
            *(self._node_without_lease(pool) for pool in pools),
            self._stuck_run(longest_run_hours, ours=bool(pools)),
            self._run_failed(state_machine),
            self._problems(),
        ]

    def _call(self, function: lambda_.IFunction, state_machine: sfn.IStateMachine) -> None:
        # The event of an execution's end would carry the execution's whole input; the watchdog needs none of it.
        nothing = events.RuleTargetInput.from_object({})
        target = targets.LambdaFunction(function, event=nothing, retry_attempts=2, max_event_age=Duration.minutes(15))
        events.Rule(
            self,
            "Schedule",
            description="The pipeline's watchdog, which alone suffices to release capacity",
            schedule=events.Schedule.rate(PERIOD),
            targets=[target],
        )
        events.Rule(
            self,
            "ExecutionEnded",
            description="The pipeline's watchdog, at once after an execution ended badly",
            event_pattern=events.EventPattern(
                source=["aws.states"],
                detail_type=["Step Functions Execution Status Change"],
                detail={
                    "stateMachineArn": [state_machine.state_machine_arn],
                    "status": ["FAILED", "TIMED_OUT", "ABORTED"],
                },
            ),
            targets=[target],
        )

    def _no_heartbeat(self) -> cw.Alarm:
        return self._alarm(
            "NoHeartbeat",
            metric=HEARTBEAT,
            statistic="Sum",
            description=described(
                "The pipeline's watchdog has not run for 15 minutes: capacity may be left running.",
                runbook="`specdecode capacity --release` runs it by hand and shows its error; its log group has "
                "the rest.",
            ),
            operator=cw.ComparisonOperator.LESS_THAN_THRESHOLD,
            threshold=1,
            periods=3,
            missing=cw.TreatMissingData.BREACHING,
        )

    def _stuck_run(self, hours: int, *, ours: bool) -> cw.Alarm:
        """`ours`: the nodes come and go with runs, so that the backstop may end them."""
        after = (
            f"{STUCK_GRACE_HOURS} h after this the backstop ends the instance of this run alone."
            if ours
            else "The instance is yours: nothing here ends it."
        )
        return self._alarm(
            "StuckRun",
            metric="LeaseAge",
            statistic="Maximum",
            description=described(
                f"A run has held its node for {hours} h.",
                runbook="`specdecode capacity` shows which run has held which node for how long; "
                "`specdecode status RUN_ID` shows its step; `specdecode stop RUN_ID` ends it and gives its node up. "
                f"{after}",
            ),
            operator=cw.ComparisonOperator.GREATER_THAN_THRESHOLD,
            threshold=hours * 3600,
            periods=1,
            missing=cw.TreatMissingData.IGNORE,
        )

    def _run_failed(self, state_machine: sfn.IStateMachine) -> cw.Alarm:
        ended = {
            name: cw.Metric(
                namespace="AWS/States",
                metric_name=metric,
                dimensions_map={"StateMachineArn": state_machine.state_machine_arn},
                statistic="Sum",
                period=PERIOD,
            )
            for name, metric in (
                ("failed", "ExecutionsFailed"),
                ("timedout", "ExecutionsTimedOut"),
                ("aborted", "ExecutionsAborted"),
            )
        }
        return cw.Alarm(
            self,
            "RunFailed",
            metric=cw.MathExpression(
                expression="SUM(METRICS())",
                label="Runs that did not succeed",
                period=PERIOD,
                using_metrics=ended,
            ),
            alarm_description=described(
                "A run failed, timed out or was stopped.",
                runbook="`specdecode diagnose RUN_ID` shows the cause; capacity is released already.",
            ),
            comparison_operator=cw.ComparisonOperator.GREATER_THAN_THRESHOLD,
            threshold=0,
            evaluation_periods=1,
            treat_missing_data=cw.TreatMissingData.NOT_BREACHING,
        )

    def _problems(self) -> cw.Alarm:
        return self._alarm(
            "WatchdogProblems",
            metric="WatchdogProblems",
            statistic="Maximum",
            description=described(
                "The watchdog could not do something: a queue's document is damaged, or a service denies or fails.",
                runbook="`specdecode capacity --release` runs it again and says what. A damaged document is kept "
                "in the bucket below state/damaged/; find out who wrote it.",
            ),
            operator=cw.ComparisonOperator.GREATER_THAN_THRESHOLD,
            threshold=0,
            periods=1,
            missing=cw.TreatMissingData.IGNORE,
        )

    def _node_without_lease(self, pool: str) -> cw.Alarm:
        """Each pool has an alarm of its own. Else short-lived nodes of several pools would look like one that stays."""
        return self._alarm(
            f"NodeWithoutLease-{pool}",
            metric="NodesWithoutLease",
            pool=pool,
            statistic="Minimum",
            description=described(
                f"The pool {pool} has had a node that no run holds for 15 minutes, and it is billed.",
                runbook="`specdecode capacity` shows nodes and who holds one; `specdecode capacity --release` deletes "
                "one that nobody holds. If it still stays, end the instance in EC2 (its tag "
                f"karpenter.sh/nodepool, or eks:nodegroup-name of a node group, is {pool}); the backstop does that "
                "after 30 minutes.",
            ),
            operator=cw.ComparisonOperator.GREATER_THAN_THRESHOLD,
            threshold=0,
            periods=DRAIN_PERIODS,
            missing=cw.TreatMissingData.IGNORE,
        )

    def _alarm(
        self,
        id: str,
        *,
        metric: str,
        statistic: str,
        description: str,
        operator: cw.ComparisonOperator,
        threshold: float,
        periods: int,
        missing: cw.TreatMissingData,
        pool: str | None = None,
    ) -> cw.Alarm:
        return cw.Alarm(
            self,
            id,
            alarm_description=description,
            metric=cw.Metric(
                namespace=names.OPERATIONS_NAMESPACE,
                metric_name=metric,
                dimensions_map={POOL: pool} if pool else None,
                statistic=statistic,
                period=PERIOD,
            ),
            comparison_operator=operator,
            threshold=threshold,
            evaluation_periods=periods,
            treat_missing_data=missing,
        )
