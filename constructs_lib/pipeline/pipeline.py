"""The pipeline: a state machine of Lambda functions, and a watchdog that works without the machine."""

from collections.abc import Callable
from functools import partial

from aws_cdk import ArnFormat, CfnOutput, RemovalPolicy, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct
from specdecode import names

from constructs_lib.acknowledgements import acknowledge_wildcards
from constructs_lib.capacity import node_group
from constructs_lib.cluster import way_in
from constructs_lib.cluster.access import PipelineAccess, groups_of, rights
from constructs_lib.logs import retention
from constructs_lib.pipeline import states
from constructs_lib.pipeline.functions import FUNCTIONS, PipelineFunction
from constructs_lib.pipeline.watchdog import WatchdogSchedule
from constructs_lib.settings.costs import capacity
from constructs_lib.settings.fields import Settings
from constructs_lib.storage.bundle_asset import BundleAsset
from constructs_lib.trust import for_this_account


class Pipeline(Construct):
    """Step Functions machine, its functions and their rights, and the watchdog with its alarms.

    `state_machine`, its `log_group`, `functions` (by step name) and `alarms` are for dashboards and alarm actions.
    `watchdog_needs` must exist before the watchdog's function is called.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: eks.ICluster,
        vpc: ec2.IVpc,
        bucket: s3.IBucket,
        bundle: BundleAsset,
        settings: Settings,
    ) -> None:
        super().__init__(scope, id)
        security_group = way_in.security_group(self, "Functions", vpc=vpc, description="Pipeline functions")
        access = PipelineAccess(
            self,
            "Access",
            cluster=cluster,
            security_group=security_group,
            nodes=settings.nodes,
            gives_roles=settings.existing_cluster is None,
        )
        environment = {
            "BUCKET": bucket.bucket_name,
            "BUNDLE_URI": bundle.uri,
            "BUNDLE_SHA256": bundle.sha256,
            "CLUSTER_NAME": cluster.cluster_name,
            "CLUSTER_ENDPOINT": cluster.cluster_endpoint,
            "CLUSTER_CA": cluster.cluster_certificate_authority_data,
            **rights(settings),
            "CAPACITY": capacity(settings).model_dump_json(),
            "OPERATIONS_NAMESPACE": names.OPERATIONS_NAMESPACE,
        }
        make = partial(
            PipelineFunction,
            self,
            code=bundle.code,
            environment=environment,
            bucket=bucket,
            vpc=vpc,
            security_group=security_group,
            log_retention_days=settings.log_retention_days,
        )
        parts = self._functions(make, access, settings)
        self.functions = {name: part.function for name, part in parts.items()}
        self.log_group = logs.LogGroup(
            self, "Logs", retention=retention(settings.log_retention_days), removal_policy=RemovalPolicy.DESTROY
        )
        self.state_machine = self._state_machine(parts)
        self._plan = parts["Plan"]
        self._allow_watchdog(parts["Watchdog"])
        self._allow_release(parts["ReleaseCapacity"])
        watchdog = WatchdogSchedule(
            self,
            "WatchdogSchedule",
            function=self.functions["Watchdog"],
            state_machine=self.state_machine,
            longest_run_hours=settings.longest_run_hours,
            pools=settings.node_pools,
        )
        self.alarms = watchdog.alarms
        self.missing_heartbeat = watchdog.missing_heartbeat
        self.watchdog_needs: tuple[Construct, ...] = (parts["Watchdog"], access)
        for key, value in {
            "StateMachineArn": self.state_machine.state_machine_arn,
            "WatchdogFunction": self.functions["Watchdog"].function_name,
            "InspectFunction": self.functions["Inspect"].function_name,
            "Capacity": capacity(settings).model_dump_json(),
        }.items():
            CfnOutput(self, key, value=value).override_logical_id(key)

    def _functions(
        self, make: Callable[..., PipelineFunction], access: PipelineAccess, settings: Settings
    ) -> dict[str, PipelineFunction]:
        """The functions by name, each with its way into the cluster and its rights on a node group."""
        parts: dict[str, PipelineFunction] = {}
        guest = settings.existing_cluster is not None
        for name, spec in FUNCTIONS.items():
            parts[name] = make(name, spec=spec)
            if spec.kubernetes:
                access.admit(f"{name}Entry", parts[name].role, groups=groups_of(name, guest=guest))
        if settings.existing_node_group:
            for name in (*node_group.SCALERS, "Inspect", "Plan"):
                scales = name in node_group.SCALERS
                node_group.allow(parts[name], "NodeGroup", role=parts[name].role, settings=settings, scales=scales)
        return parts

    def _state_machine(self, parts: dict[str, PipelineFunction]) -> sfn.StateMachine:
        used = {name: part.function.function_arn for name, part in parts.items() if name not in {"Watchdog", "Inspect"}}
        role = iam.Role(
            self,
            "StateMachineRole",
            # docs.aws.amazon.com/step-functions/latest/dg/procedure-create-iam-role.html (confused deputy).
            assumed_by=for_this_account(self, "states", resources="stateMachine:*"),
            description="Invokes the pipeline's functions, each by its ARN",
        )
        role.add_to_policy(iam.PolicyStatement(actions=["lambda:InvokeFunction"], resources=list(used.values())))
        acknowledge_wildcards(
            role, "*", reason="Log delivery and X-Ray, which Step Functions requires; they have no resource type."
        )
        return sfn.StateMachine(
            self,
            "StateMachine",
            definition_body=sfn.DefinitionBody.from_string(Stack.of(self).to_json_string(states.definition(used))),
            role=role,
            state_machine_type=sfn.StateMachineType.STANDARD,
            tracing_enabled=True,
            logs=sfn.LogOptions(
                destination=self.log_group,
                level=sfn.LogLevel.ALL,
                include_execution_data=True,
            ),
        )

    def refuses_runs_unheard_of(self, topic: sns.ITopic, *, address: str | None) -> None:
        """Refuse every run as long as `topic` has no confirmed subscription of `address` (None: of anybody)."""
        self._plan.function.add_environment("ALERTS_TOPIC", topic.topic_arn)
        if address:
            self._plan.function.add_environment("ALERTS_ADDRESS", address)
        self._plan.allow("sns:ListSubscriptionsByTopic", resources=[topic.topic_arn])

    def _allow_watchdog(self, watchdog: PipelineFunction) -> None:
        executions = Stack.of(self).format_arn(
            service="states",
            resource="execution",
            resource_name=f"{self.state_machine.state_machine_name}:*",
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )
        watchdog.function.add_environment("STATE_MACHINE_ARN", self.state_machine.state_machine_arn)
        watchdog.allow("states:DescribeExecution", resources=[executions])
        watchdog.allow("states:ListExecutions", resources=[self.state_machine.state_machine_arn])
        acknowledge_wildcards(watchdog.role, executions, reason="Executions of this one machine, whatever their names.")

    def _allow_release(self, release: PipelineFunction) -> None:
        """The right to see whether another run goes on, used if the lease cannot be read.

        It is a policy of its own, and the function does not wait for it, because the machine is made after the
        function.
        """
        statement = iam.PolicyStatement(
            actions=["states:ListExecutions"], resources=[self.state_machine.state_machine_arn]
        )
        iam.Policy(self, "ReleaseMayListRuns", roles=[release.role], statements=[statement])
