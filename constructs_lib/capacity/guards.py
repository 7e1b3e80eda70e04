"""Guards: custom resources that refuse a deployment that would end a run, and a deletion that would leave an instance.

Why it is so: ADR 40.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from aws_cdk import ArnFormat, CustomResource, Duration, Fn, RemovalPolicy, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct, IDependable
from specdecode import s3_keys

from constructs_lib.acknowledgements import acknowledge, acknowledge_wildcards
from constructs_lib.capacity import node_group
from constructs_lib.cluster import way_in
from constructs_lib.cluster.access import rights
from constructs_lib.logs import retention
from constructs_lib.settings.fields import Settings
from constructs_lib.storage.bundle_asset import BundleAsset

PYTHON_3_11 = "The functions run the very bytes that the pods run, and the engine images have Python 3.11."
"""Why no newer runtime."""


class GuardFunction(Construct):
    """The Lambda function behind the guards of a stack, and its way into the cluster.

    It runs in the private subnets. In Kubernetes it is a member of `groups`. `resource` makes a custom resource of it.
    A deletion can take longer than a Lambda may run: the function then invokes itself, and it has the right to do so.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: eks.ICluster,
        vpc: ec2.IVpc,
        bundle: BundleAsset,
        groups: list[str],
        settings: Settings,
    ) -> None:
        super().__init__(scope, id)
        group = logs.LogGroup(
            self,
            "Logs",
            retention=retention(settings.log_retention_days),
            removal_policy=RemovalPolicy.DESTROY,
        )
        self.role = self._role(group)
        group_of_function = way_in.security_group(self, "SecurityGroup", vpc=vpc, description="Guard function")
        ingress = way_in.reach(self, cluster.cluster_security_group_id, source=group_of_function, who="Guard function")
        self.function = lambda_.Function(
            self,
            "Function",
            description="specdecode: guards deployments and deletions",
            runtime=lambda_.Runtime.PYTHON_3_11,
            architecture=lambda_.Architecture.X86_64,
            code=bundle.code,
            handler="specdecode.custom_resources.handler.handler",
            role=self.role,
            environment={
                "CLUSTER_NAME": cluster.cluster_name,
                "CLUSTER_ENDPOINT": cluster.cluster_endpoint,
                "CLUSTER_CA": cluster.cluster_certificate_authority_data,
                **rights(settings),
            },
            timeout=Duration.minutes(15),
            memory_size=256,
            log_group=group,
            vpc=vpc,
            vpc_subnets=ec2.SubnetSelection(subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS),
            security_groups=[group_of_function],
        )
        entry = way_in.admit(self, "AccessEntry", cluster_name=cluster.cluster_name, role=self.role, groups=groups)
        acknowledge(self.function, "L1", reason=PYTHON_3_11)
        self._needs: list[IDependable] = [entry, ingress]
        self._allow(
            "InvokeItself",
            iam.PolicyStatement(actions=["lambda:InvokeFunction"], resources=[self.function.function_arn]),
        )

    def _role(self, group: logs.ILogGroup) -> iam.Role:
        role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            description="Guards deployments and deletions",
        )
        role.add_to_policy(
            iam.PolicyStatement(
                actions=["logs:CreateLogStream", "logs:PutLogEvents"],
                resources=[group.log_group_arn],
            )
        )
        way_in.allow_network_interfaces(role)
        return role

    def _allow(self, id: str, *statements: iam.PolicyStatement) -> None:
        """Add a policy. Resources that are made after this call wait for it. It is no part of the role: the role is
        made before the function.
        """
        self._needs.append(iam.Policy(self, id, roles=[self.role], statements=list(statements)))

    def stops_executions_of(self, machine: sfn.IStateMachine) -> None:
        """Let the function find and stop the running executions of `machine`."""
        executions = Stack.of(self).format_arn(
            service="states",
            resource="execution",
            resource_name=f"{Fn.select(6, Fn.split(':', machine.state_machine_arn))}:*",
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )
        self._allow(
            "StopExecutions",
            iam.PolicyStatement(actions=["states:ListExecutions"], resources=[machine.state_machine_arn]),
            iam.PolicyStatement(actions=["states:StopExecution"], resources=[executions]),
        )
        acknowledge_wildcards(self, executions, reason="Executions of this one state machine, whatever their names.")

    def closes_lease(self, bucket: s3.IBucket) -> None:
        """Let the function write the document by which runs hold nodes."""
        lease = bucket.arn_for_objects(s3_keys.CAPACITY_KEY)
        key: kms.IKey | None = bucket.encryption_key
        self._allow(
            "CloseLease",
            iam.PolicyStatement(actions=["s3:PutObject"], resources=[lease]),
            *([iam.PolicyStatement(actions=["kms:GenerateDataKey"], resources=[key.key_arn])] if key else []),
        )

    def keeps_logs(self, names: Sequence[str]) -> None:
        """Let the function make the log groups `names` and set their retention."""
        groups = [
            Stack.of(self).format_arn(
                service="logs", resource="log-group", resource_name=name, arn_format=ArnFormat.COLON_RESOURCE_NAME
            )
            for name in names
        ]
        # IAM's list of actions has the ARN without an end, CloudWatch Logs asks for it with one (`:log-stream:`).
        with_streams = [f"{group}:*" for group in groups]
        actions = ["logs:CreateLogGroup", "logs:PutRetentionPolicy"]
        self._allow("KeepLogs", iam.PolicyStatement(actions=actions, resources=[*groups, *with_streams]))
        acknowledge_wildcards(self, *with_streams, reason="Five log groups by name; the end is that of their streams.")

    def runs(self, function: lambda_.IFunction) -> None:
        """Let the function call another, and read CloudWatch's metrics to see that it worked."""
        self._allow(
            "RunWatchdog",
            iam.PolicyStatement(actions=["lambda:InvokeFunction"], resources=[function.function_arn]),
            iam.PolicyStatement(actions=["cloudwatch:GetMetricStatistics"], resources=["*"]),
        )
        acknowledge_wildcards(self, "*", reason="CloudWatch's metrics have no resource type.")

    def scales_node_group(self, settings: Settings) -> None:
        """Let the function look at the node group that runs scale, and set it to 0."""
        self._needs.append(node_group.allow(self, "NodeGroup", role=self.role, settings=settings))

    def detaches(self, policies: Iterable[iam.IManagedPolicy], *, role: iam.IRole) -> None:
        """Let the function take `policies` off `role`: neither can be deleted while they are on."""
        statement = iam.PolicyStatement(
            actions=["iam:DetachRolePolicy"],
            resources=[role.role_arn],
            conditions={"ArnEquals": {"iam:PolicyARN": [policy.managed_policy_arn for policy in policies]}},
        )
        self._allow("DetachPolicy", statement)

    def resource(self, id: str, *, guard: str, properties: dict[str, Any] | None = None) -> CustomResource:
        """A custom resource of this function. It guards as long as it exists."""
        resource = CustomResource(
            self,
            id,
            service_token=self.function.function_arn,
            resource_type=f"Custom::SpecDecode{id}",
            service_timeout=Duration.hours(1),
            properties={"Guard": guard, **(properties or {})},
        )
        resource.node.add_dependency(*self._needs)
        return resource
