"""The outputs of a deployment: where to look, how to get in, and what it costs at rest."""

from aws_cdk import CfnOutput
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from constructs_lib.settings.costs import hourly_cost
from constructs_lib.settings.facts import document
from constructs_lib.settings.fields import Settings


class Outputs(Construct):
    """The stack's outputs, under plain names. `specdecode` and the rehearsal read them."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        bucket: s3.IBucket,
        state_machine: sfn.IStateMachine,
        dashboard_name: str,
        settings: Settings,
    ) -> None:
        super().__init__(scope, id)
        console = f"https://{settings.region}.console.aws.amazon.com"
        for name, value, description in (
            ("DeploymentFacts", document(settings), "What `specdecode preflight` checks"),
            ("BucketName", bucket.bucket_name, "Models, compiled artifacts, runs"),
            (
                "StateMachineConsole",
                f"{console}/states/home?region={settings.region}#/statemachines/view/{state_machine.state_machine_arn}",
                "Start and follow runs by hand",
            ),
            (
                "DashboardUrl",
                f"{console}/cloudwatch/home?region={settings.region}#dashboards/dashboard/{dashboard_name}",
                "Both arms side by side, the pipeline, the node",
            ),
            (
                "KubeconfigCommand",
                f"aws eks update-kubeconfig --region {settings.region} --name {settings.eks_cluster}",
                "For the roles of `admin_role_arns`, from where the endpoint can be reached",
            ),
            (
                "HourlyCost",
                hourly_cost(settings),
                "List prices of us-east-2, without traffic and storage; see docs/reference/costs.md",
            ),
        ):
            CfnOutput(self, name, value=value, description=description).override_logical_id(name)
