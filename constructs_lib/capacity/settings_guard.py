"""SettingsGuard: refuses a deployment that loses a setting of the deployed stack, before anything else is made.

Why it is so: ADR 199.
"""

from collections.abc import Mapping

from aws_cdk import CustomResource, Duration, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct
from specdecode.experiment import kept
from specdecode.names import STACK

from constructs_lib.acknowledgements import acknowledge, acknowledge_wildcards
from constructs_lib.capacity.guards import PYTHON_3_11
from constructs_lib.logs import retention
from constructs_lib.settings.fields import Settings
from constructs_lib.settings.reading import texts
from constructs_lib.storage.bundle_asset import BundleAsset


class SettingsGuard(Construct):
    """The guard, with a function of its own: that of the other guards needs the network and the cluster.

    A setting that `replaces` names with its deployed value may go, but for those of `kept.fixed`.
    """

    def __init__(
        self, scope: Construct, id: str, *, bundle: BundleAsset, settings: Settings, replaces: Mapping[str, str] | None
    ) -> None:
        super().__init__(scope, id)
        group = logs.LogGroup(
            self, "Logs", retention=retention(settings.log_retention_days), removal_policy=RemovalPolicy.DESTROY
        )
        role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            description="Guards the settings of the deployment",
        )
        own, last = (
            Stack.of(self).format_arn(service="cloudformation", resource="stack", resource_name=f"{name}/*")
            for name in (Stack.of(self).stack_name, STACK)
        )
        for actions, resource in (
            (["logs:CreateLogStream", "logs:PutLogEvents"], group.log_group_arn),
            (["cloudformation:DescribeStacks"], own),
            (["cloudformation:GetTemplate"], last),
        ):
            role.add_to_policy(iam.PolicyStatement(actions=actions, resources=[resource]))
        acknowledge_wildcards(self, own, last, reason="A stack's ARN ends with an id that nobody knows beforehand.")
        function = lambda_.Function(
            self,
            "Function",
            description="specdecode: guards the settings of the deployment",
            runtime=lambda_.Runtime.PYTHON_3_11,
            architecture=lambda_.Architecture.X86_64,
            code=bundle.code,
            handler="specdecode.custom_resources.handler.handler",
            role=role,
            timeout=Duration.minutes(2),
            memory_size=256,
            log_group=group,
        )
        acknowledge(function, "L1", reason=PYTHON_3_11)
        self._resource = CustomResource(
            self,
            kept.GUARD,
            service_token=function.function_arn,
            resource_type=f"Custom::SpecDecode{kept.GUARD}",
            service_timeout=Duration.minutes(5),
            properties={
                "Guard": "settings",
                "Settings": texts(settings),
                **({"Replaces": dict(replaces)} if replaces else {}),
            },
        )
        self._resource.node.add_dependency(role)

    def goes_first(self) -> None:
        """Let all other resources of the stack wait for it. Call it when they are there."""
        for child in Stack.of(self).node.children:
            if child is not self:
                child.node.add_dependency(self._resource)
