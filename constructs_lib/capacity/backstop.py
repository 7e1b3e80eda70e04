"""The backstop: a function that ends forgotten instances. It shares nothing with the parts that may be broken (ADR
133).
"""

from pathlib import Path

from aws_cdk import ArnFormat, Duration, RemovalPolicy, Stack
from aws_cdk import aws_cloudwatch as cw
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sns as sns
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct
from specdecode import names
from specdecode.giving_back import (
    BACKSTOP_PERIOD_MINUTES,
    BACKSTOP_WINDOW_MINUTES,
    BEFORE_NODE_HOURS,
    DYNAMIC_HOURS,
    STUCK_GRACE_HOURS,
)

from constructs_lib.acknowledgements import acknowledge_wildcards
from constructs_lib.capacity import node_group
from constructs_lib.logs import retention
from constructs_lib.observability.alarms import OPERATIONS, described
from constructs_lib.settings.fields import Settings

CODE = Path(__file__).resolve().parents[2] / "lambda" / "backstop"
PERIOD = Duration.minutes(BACKSTOP_PERIOD_MINUTES)
ALL, APART = "all", 3
"""As in lambda/backstop, which shares no code: key of the policy of all pools; pools that are closed one by one."""
LAUNCHES = ("ec2:RunInstances", "ec2:CreateFleet")


class BackstopFunction(Construct):
    """Looks every ten minutes at the instances of the pools that runs hold. Ends those that no healthy run can need.

    Its code is an asset of its own. It may end instances with the tags of this cluster and these pools. It may attach
    policies to Karpenter's role: one for each pool and one for all deny the launch of instances. Without a
    `karpenter_role`, Karpenter belongs to somebody else, and there are no such policies. It may set a node group to 0.
    `alarms`: the function failed, or something could not be done.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        karpenter_role: iam.IRole | None,
        state_machine: sfn.IStateMachine,
        topic: sns.ITopic,
        settings: Settings,
    ) -> None:
        super().__init__(scope, id)
        self.closes: tuple[dict[str, iam.ManagedPolicy], iam.IRole] | None = None
        """Pool, or ALL -> the policy that closes it to Karpenter; and Karpenter's role."""
        if karpenter_role is not None:
            self.closes = self._policies(settings.node_pools), karpenter_role
        group = logs.LogGroup(
            self, "Logs", retention=retention(settings.log_retention_days), removal_policy=RemovalPolicy.DESTROY
        )
        role = self._role(group, state_machine, topic, settings)
        function = self._function(group, role, self._environment(state_machine, topic, settings))
        self._call_regularly(function)
        self.alarms = [self._alarm(function)]

    def _policies(self, pools: list[str]) -> dict[str, iam.ManagedPolicy]:
        no_launch = {pool: self._no_launch(pool, pools=[pool]) for pool in pools}
        if len(pools) > APART:
            no_launch[ALL] = self._no_launch(ALL, pools=pools)
        return no_launch

    def _environment(self, state_machine: sfn.IStateMachine, topic: sns.ITopic, settings: Settings) -> dict[str, str]:
        longest = settings.longest_run_hours + STUCK_GRACE_HOURS
        environment = {
            "CLUSTER_NAME": settings.eks_cluster,
            "NODEPOOLS": ",".join(settings.node_pools),
            "DYNAMIC_HOURS": str(DYNAMIC_HOURS + 1),
            "NAMESPACE": names.OPERATIONS_NAMESPACE,
            "STATE_MACHINE_ARN": state_machine.state_machine_arn,
            "TOPIC_ARN": topic.topic_arn,
            "WINDOW_MINUTES": str(BACKSTOP_WINDOW_MINUTES),
            "HOLDING_HOURS": str(longest),
            "EXECUTION_HOURS": str(longest + BEFORE_NODE_HOURS),
            "RUNBOOK": OPERATIONS,
        }
        if self.closes:
            policies, role = self.closes
            arns = ",".join(f"{key}={policy.managed_policy_arn}" for key, policy in policies.items())
            environment |= {"KARPENTER_ROLE": role.role_name, "NO_LAUNCH_POLICIES": arns}
            environment |= {"DYNAMIC_NODEPOOLS": ",".join(names.DYNAMIC_NODEPOOLS)}
        elif settings.existing_node_group:
            environment |= {names.GROUP_VARIABLE: settings.existing_node_group}
        return environment

    def _function(self, group: logs.ILogGroup, role: iam.IRole, environment: dict[str, str]) -> lambda_.Function:
        return lambda_.Function(
            self,
            "Function",
            description="specdecode: ends forgotten instances, without Kubernetes and without the bucket",
            runtime=lambda_.Runtime.PYTHON_3_14,
            architecture=lambda_.Architecture.X86_64,
            code=lambda_.Code.from_asset(str(CODE), exclude=["__pycache__", "*.pyc"]),
            handler="backstop.handler",
            role=role,
            environment=environment,
            timeout=Duration.minutes(3),
            memory_size=256,
            log_group=group,
        )

    def _call_regularly(self, function: lambda_.IFunction) -> None:
        nothing = events.RuleTargetInput.from_object({})
        events.Rule(
            self,
            "Schedule",
            description="The backstop, which ends instances that nobody watches over",
            schedule=events.Schedule.rate(PERIOD),
            targets=[targets.LambdaFunction(function, event=nothing, retry_attempts=2, max_event_age=PERIOD)],
        )

    def _alarm(self, function: lambda_.IFunction) -> cw.Alarm:
        return cw.Alarm(
            self,
            "BackstopFailed",
            alarm_description=described(
                "The backstop failed, or could not do something. Nothing else would end a forgotten instance.",
                runbook="`specdecode capacity` shows whether a node runs, `specdecode capacity --release` ends it; "
                "the function's log says what failed.",
            ),
            metric=function.metric_errors(period=PERIOD, statistic="Sum"),
            comparison_operator=cw.ComparisonOperator.GREATER_THAN_THRESHOLD,
            threshold=0,
            evaluation_periods=1,
            treat_missing_data=cw.TreatMissingData.NOT_BREACHING,
        )

    def _no_launch(self, key: str, *, pools: list[str]) -> iam.ManagedPolicy:
        """A policy that is attached to nothing until the backstop attaches it. Karpenter 1.14 tags fleets and instances
        with their pool.
        """
        ec2 = [_ec2(self, kind) for kind in ("fleet", "instance")]
        policy = iam.ManagedPolicy(
            self,
            f"NoLaunch-{key}",
            description=f"Attached by the backstop to Karpenter's role: no instance may be launched ({key})",
            statements=[
                iam.PolicyStatement(
                    effect=iam.Effect.DENY,
                    actions=list(LAUNCHES),
                    resources=ec2,
                    conditions={"StringEquals": {"aws:RequestTag/karpenter.sh/nodepool": pools}},
                )
            ],
        )
        acknowledge_wildcards(policy, *ec2, reason="It denies: what would be launched has no name yet.")
        return policy

    def _role(
        self,
        group: logs.ILogGroup,
        state_machine: sfn.IStateMachine,
        topic: sns.ITopic,
        settings: Settings,
    ) -> iam.Role:
        role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            description="Ends forgotten instances of the pools that runs hold",
        )
        instances = _ec2(self, "instance")
        pools = [*settings.node_pools, *(names.DYNAMIC_NODEPOOLS if self.closes else ())]
        tags: dict[str, object] = {
            f"kubernetes.io/cluster/{settings.eks_cluster}": "owned",
            "karpenter.sh/nodepool": pools,
        }
        if settings.existing_node_group:
            tags = {**node_group.instance_tags(settings)}
        of_the_pool = {"StringEquals": {f"aws:ResourceTag/{key}": value for key, value in tags.items()}}
        for actions, resource, conditions in (
            (["logs:CreateLogStream", "logs:PutLogEvents"], group.log_group_arn, None),
            (["ec2:DescribeInstances", "cloudwatch:GetMetricStatistics"], "*", None),
            (["ec2:TerminateInstances"], instances, of_the_pool),
            (["states:ListExecutions"], state_machine.state_machine_arn, None),
            *self._closing(settings),
            (["sns:Publish"], topic.topic_arn, None),
        ):
            role.add_to_policy(iam.PolicyStatement(actions=actions, resources=[resource], conditions=conditions))
        groups = [node_group.arn(self, settings)] if settings.existing_node_group else []
        acknowledge_wildcards(
            role,
            "*",
            instances,
            *groups,
            reason="Reads have no resource type; instances are made later, and confined by tags.",
        )
        return role

    def _closing(self, settings: Settings) -> list[tuple[list[str], str, dict[str, object] | None]]:
        """The rights that are needed to stop the launch of the next instance: actions, resource, conditions."""
        if settings.existing_node_group:
            return [(["eks:UpdateNodegroupConfig"], node_group.arn(self, settings), None)]
        if self.closes is None:
            return []
        policies, role = self.closes
        arns = [policy.managed_policy_arn for policy in policies.values()]
        these_policies: dict[str, object] = {"ArnEquals": {"iam:PolicyARN": arns}}
        return [
            (["iam:ListAttachedRolePolicies"], role.role_arn, None),
            (["iam:AttachRolePolicy", "iam:DetachRolePolicy"], role.role_arn, these_policies),
        ]


def _ec2(scope: Construct, kind: str) -> str:
    return Stack.of(scope).format_arn(
        service="ec2", resource=kind, resource_name="*", arn_format=ArnFormat.SLASH_RESOURCE_NAME
    )
