"""SpecDecodeStack: the bucket, what the workload pods need in the cluster, and the pipeline."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct, IDependable
from specdecode import names

from constructs_lib.capacity.backstop import BackstopFunction
from constructs_lib.capacity.claims import ClaimTemplates
from constructs_lib.capacity.guards import GuardFunction
from constructs_lib.capacity.settings_guard import SettingsGuard
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
from constructs_lib.settings.costs import capacity
from constructs_lib.settings.fields import Settings
from constructs_lib.storage.bucket import ArtifactBucket
from constructs_lib.storage.bundle import Bundle
from constructs_lib.storage.bundle_asset import BundleAsset
from constructs_lib.storage.service_accounts import ServiceAccounts
from constructs_lib.storage.volumes import Volumes
from stacks.common import ProjectStack


class Platform(Protocol):
    """The parts of the cluster stack that this stack uses."""

    cluster: eks.Cluster
    vpc: ec2.IVpc
    karpenter_role: iam.IRole


class ClusterInUse(NamedTuple):
    """The cluster that the stack works in, and what must be there before the stack puts an object into it."""

    cluster: eks.ICluster
    vpc: ec2.IVpc
    made: Construct
    """What this stack makes of it."""
    inside: tuple[IDependable, ...]


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
        replaces: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(
            scope, id, settings=settings, description="Does speculative decoding pay on Trainium2? The pipeline"
        )
        self._settings = settings
        artifacts = ArtifactBucket(self, "Artifacts", settings=settings)
        asset = BundleAsset(self, "Bundle", bundle=bundle)
        held = SettingsGuard(self, "Settings", bundle=asset, settings=settings, replaces=replaces)
        used = self._cluster_in_use(platform)
        cluster, vpc = used.cluster, used.vpc
        bucket, key = artifacts.bucket, artifacts.key
        claims = ClaimTemplates(self, "Claims", cluster=cluster, needs=used.inside, settings=settings)
        volumes = Volumes(self, "Volumes", cluster=cluster, bucket=bucket, needs=used.inside, settings=settings)
        accounts = ServiceAccounts(
            self, "ServiceAccounts", cluster=cluster, bucket=bucket, key=key, bundle=asset, needs=used.inside
        )
        pipeline = Pipeline(self, "Pipeline", cluster=cluster, vpc=vpc, bucket=bucket, bundle=asset, settings=settings)
        pipeline.node.add_dependency(used.made)
        roles = PodRoles(self, "PodRoles", functions=pipeline.functions, bucket=bucket, key=key, bundle=asset)
        alerts = Alerts(self, "Alerts", settings=settings)
        if not settings.accept_no_alerts:
            pipeline.refuses_runs_unheard_of(alerts.topic, address=settings.alert_email)
        guards = GuardFunction(
            self,
            "Guards",
            cluster=cluster,
            vpc=vpc,
            bundle=asset,
            groups=[READER_GROUP, names.PIPELINE_GROUP],
            settings=settings,
        )
        watched = {"bundle": bundle.sha256, "nodes": settings.nodes, "claims": capacity(settings).claims}
        update = guards.resource("UpdateGuard", guard="code", properties={"Watched": watched})
        for guarded in (pipeline, accounts, roles):
            guarded.node.add_dependency(update)
        guards.stops_executions_of(pipeline.state_machine)
        guards.closes_lease(bucket)
        backstop = self._backstop(platform, pipeline, alerts) if settings.makes_nodes else None
        given_back = self._rights_to_give_back(guards, backstop)
        self._first_heartbeat(guards, pipeline, used)
        teardown = guards.resource(
            "TeardownGuard",
            guard="teardown",
            properties={
                "StateMachineArn": pipeline.state_machine.state_machine_arn,
                "Bucket": bucket.bucket_name,
                **given_back,
            },
        )
        teardown.node.add_dependency(used.made, claims, volumes, accounts, roles, pipeline)
        alarms: list[cloudwatch.IAlarm] = [*pipeline.alarms]
        if backstop:
            teardown.node.add_dependency(backstop)
            alarms += backstop.alarms
        if scheduled is not None:
            schedule = RunSchedule(self, "Schedule", run=scheduled, state_machine=pipeline.state_machine)
            schedule.node.add_dependency(teardown)  # deleted before it: no run starts while it ends those that go on
            alarms += schedule.alarms
        self._show(artifacts, pipeline, alarms)
        alerts.receive(self)
        keep_provider_logs(self, days=settings.log_retention_days)
        held.goes_first()
        put_in_lanes(self)

    def _cluster_in_use(self, platform: Platform | None) -> ClusterInUse:
        """Our own cluster with a namespace in it, or a cluster that exists."""
        if platform is None:
            found = ImportedCluster(self, "Cluster", settings=self._settings)
            return ClusterInUse(found.cluster, found.vpc, found, found.needs)
        workspace = Workspace(self, "Workspace", cluster=platform.cluster, settings=self._settings)
        return ClusterInUse(platform.cluster, platform.vpc, workspace, (workspace.namespace,))

    def _backstop(self, platform: Platform | None, pipeline: Pipeline, alerts: Alerts) -> BackstopFunction:
        return BackstopFunction(
            self,
            "Backstop",
            karpenter_role=platform.karpenter_role if platform else None,
            state_machine=pipeline.state_machine,
            topic=alerts.topic,
            settings=self._settings,
        )

    def _rights_to_give_back(self, guards: GuardFunction, backstop: BackstopFunction | None) -> dict[str, Any]:
        """Let the guards of a deletion end every node. Returns what they must know for it."""
        if self._settings.existing_node_group:
            guards.scales_node_group(self._settings)
        if backstop is None or not backstop.closes:
            return {}
        policies, role = backstop.closes
        guards.detaches(policies.values(), role=role)
        arns = [policy.managed_policy_arn for policy in policies.values()]
        return {"KarpenterRole": role.role_name, "NoLaunchPolicies": arns}

    def _first_heartbeat(self, guards: GuardFunction, pipeline: Pipeline, used: ClusterInUse) -> None:
        """The watchdog works once before its alarm looks at it."""
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
        beat.node.add_dependency(used.made, *pipeline.watchdog_needs)
        pipeline.missing_heartbeat.node.add_dependency(beat)

    def _show(self, artifacts: ArtifactBucket, pipeline: Pipeline, alarms: list[cloudwatch.IAlarm]) -> None:
        """The dashboard with every alarm, and the outputs."""
        results = ResultAlarms(self, "ResultAlarms")
        dashboard = Dashboard(
            self,
            "Dashboard",
            settings=self._settings,
            state_machine=pipeline.state_machine,
            log_group=pipeline.log_group,
            cluster_name=self._settings.eks_cluster,
            alarms=[*alarms, *results.alarms],
        )
        Outputs(
            self,
            "Outputs",
            bucket=artifacts.bucket,
            state_machine=pipeline.state_machine,
            dashboard_name=dashboard.name,
            settings=self._settings,
        )
