"""SpecDecodeStack: the bucket, what the workload pods need in the cluster, and the pipeline."""

from typing import Protocol

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct
from specdecode import names

from constructs_lib.capacity.backstop import BackstopFunction
from constructs_lib.capacity.claims import ClaimTemplates
from constructs_lib.capacity.guards import GuardFunction
from constructs_lib.cluster.access import READER_GROUP
from constructs_lib.cluster.existing import ImportedCluster
from constructs_lib.cluster.lanes import put_in_lanes
from constructs_lib.cluster.workspace import Workspace
from constructs_lib.observability.alarms import ResultAlarms
from constructs_lib.observability.alerts import Alerts
from constructs_lib.observability.dashboard import Dashboard
from constructs_lib.observability.provider_logs import keep_provider_logs
from constructs_lib.outputs import Outputs
from constructs_lib.pipeline.pipeline import Pipeline
from constructs_lib.pipeline.pod_roles import PodRoles
from constructs_lib.pipeline.schedule import RunSchedule, ScheduledRun
from constructs_lib.pipeline.watchdog import HEARTBEAT
from constructs_lib.settings.fields import Settings
from constructs_lib.storage.bucket import ArtifactBucket
from constructs_lib.storage.bundle import Bundle
from constructs_lib.storage.bundle_asset import BundleAsset
from constructs_lib.storage.service_accounts import ServiceAccounts
from constructs_lib.storage.volumes import Volumes
from stacks.base import ProjectStack


class Platform(Protocol):
    """The parts of the cluster stack that this stack uses."""

    cluster: eks.Cluster
    vpc: ec2.IVpc
    karpenter_role: iam.IRole


class SpecDecodeStack(ProjectStack):
    """The bucket, the pods' rights and the pipeline. It depends on the cluster stack, so that its deployment deploys
    both.

    Without a `platform` it runs on the cluster that the settings name. That cluster must first have the objects of
    `constructs_lib.administrator_objects`. If its nodes are simply there, there is no backstop.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        platform: Platform | None,
        bundle: Bundle,
        settings: Settings,
        scheduled: ScheduledRun | None = None,
    ) -> None:
        super().__init__(
            scope, id, settings=settings, description="Does speculative decoding pay on Trainium2? The pipeline"
        )
        artifacts = ArtifactBucket(self, "Artifacts", settings=settings)
        asset = BundleAsset(self, "Bundle", bundle=bundle)
        ground: Workspace | ImportedCluster
        if platform is None:
            ground = ImportedCluster(self, "Cluster", settings=settings)
            cluster, vpc, inside = ground.cluster, ground.vpc, ground.needs
        else:
            cluster, vpc = platform.cluster, platform.vpc
            ground = Workspace(self, "Workspace", cluster=cluster, settings=settings)
            inside = (ground.namespace,)
        claims = ClaimTemplates(self, "Claims", cluster=cluster, needs=inside, settings=settings)
        volumes = Volumes(self, "Volumes", cluster=cluster, bucket=artifacts.bucket, needs=inside, settings=settings)
        accounts = ServiceAccounts(
            self,
            "ServiceAccounts",
            cluster=cluster,
            bucket=artifacts.bucket,
            key=artifacts.key,
            bundle=asset,
            needs=inside,
        )
        pipeline = Pipeline(
            self,
            "Pipeline",
            cluster=cluster,
            vpc=vpc,
            bucket=artifacts.bucket,
            bundle=asset,
            settings=settings,
        )
        pipeline.node.add_dependency(ground)
        roles = PodRoles(
            self, "PodRoles", functions=pipeline.functions, bucket=artifacts.bucket, key=artifacts.key, bundle=asset
        )
        alerts = Alerts(self, "Alerts", settings=settings)
        if not settings.accept_no_alerts:
            pipeline.refuses_runs_unheard_of(alerts.topic)
        guards = GuardFunction(
            self,
            "Guards",
            cluster=cluster,
            vpc=vpc,
            bundle=asset,
            groups=[READER_GROUP, names.PIPELINE_GROUP],
            settings=settings,
        )
        update = guards.resource(
            "UpdateGuard", guard="code", properties={"Watched": {"bundle": bundle.sha256, "nodes": settings.nodes}}
        )
        for guarded in (pipeline, accounts, roles):
            guarded.node.add_dependency(update)
        guards.stops_executions_of(pipeline.state_machine)
        backstop = settings.makes_nodes and BackstopFunction(
            self,
            "Backstop",
            karpenter_role=platform.karpenter_role if platform else None,
            state_machine=pipeline.state_machine,
            topic=alerts.topic,
            settings=settings,
        )
        if settings.existing_node_group:
            guards.scales_node_group(settings)
        given_back = {}
        if backstop and backstop.closes:
            policies, role = backstop.closes
            guards.detaches(policies.values(), role=role)
            arns = [policy.managed_policy_arn for policy in policies.values()]
            given_back = {"KarpenterRole": role.role_name, "NoLaunchPolicies": arns}
        watchdog = pipeline.functions["Watchdog"]
        guards.runs(watchdog)
        beat = guards.resource(
            "FirstHeartbeat",
            guard="beat",
            properties={
                "Function": watchdog.function_name,
                "Namespace": names.OPERATIONS_NAMESPACE,
                "Metric": HEARTBEAT,
            },
        )
        beat.node.add_dependency(ground, *pipeline.watchdog_needs)
        pipeline.missing_heartbeat.node.add_dependency(beat)
        teardown = guards.resource(
            "TeardownGuard",
            guard="teardown",
            properties={
                "StateMachineArn": pipeline.state_machine.state_machine_arn,
                **given_back,
            },
        )
        teardown.node.add_dependency(ground, claims, volumes, accounts, roles, pipeline)
        alarms = []
        if backstop:
            teardown.node.add_dependency(backstop)
            alarms += backstop.alarms
        if scheduled is not None:
            schedule = RunSchedule(self, "Schedule", run=scheduled, state_machine=pipeline.state_machine)
            schedule.node.add_dependency(teardown)  # deleted before it: no run starts while it ends those that go on
            alarms += schedule.alarms
        results = ResultAlarms(self, "ResultAlarms")
        dashboard = Dashboard(
            self,
            "Dashboard",
            settings=settings,
            state_machine=pipeline.state_machine,
            cluster_name=settings.eks_cluster,
            alarms=[*pipeline.alarms, *alarms, *results.alarms],
        )
        Outputs(
            self,
            "Outputs",
            bucket=artifacts.bucket,
            state_machine=pipeline.state_machine,
            dashboard_name=dashboard.name,
            settings=settings,
        )
        alerts.receive(self)
        keep_provider_logs(self, days=settings.log_retention_days)
        put_in_lanes(self)
