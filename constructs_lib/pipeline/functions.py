"""The pipeline's Lambda functions: one for each step, each with a role that can do that step's work and no more."""

from dataclasses import dataclass

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from constructs import Construct
from specdecode import names, s3_keys

from constructs_lib.acknowledgements import acknowledge, acknowledge_wildcards
from constructs_lib.capacity.guards import PYTHON_3_11
from constructs_lib.cluster.way_in import allow_network_interfaces
from constructs_lib.logs import retention

RUNS = "runs/*"
MARKS = ("models/*/COMPLETE.json", "compiled/*/COMPLETE.json")
STARTS = f"{s3_keys.SCHEDULED}*"
CAPACITY, ENDPOINTS = s3_keys.CAPACITY_KEY, s3_keys.ENDPOINTS_KEY
"""The queue for the node, and the queue for servers that already run."""


@dataclass(frozen=True)
class FunctionSpec:
    """A function: its module in specdecode.steps, its rights in the bucket, and which services it calls."""

    module: str
    purpose: str
    reads: tuple[str, ...] = (RUNS,)
    writes: tuple[str, ...] = (RUNS,)
    deletes: tuple[str, ...] = ()
    kubernetes: bool = True
    metrics: str | None = None
    """The only CloudWatch namespace that it may publish to."""
    timeout_s: int = 120
    memory_mib: int = 512


FUNCTIONS: dict[str, FunctionSpec] = {
    "Plan": FunctionSpec(
        "plan",
        "validates and plans a run",
        reads=(RUNS, *MARKS, f"{s3_keys.PROMPTS}*", STARTS),
        writes=(RUNS, STARTS),
        kubernetes=False,
    ),
    "StageModels": FunctionSpec(
        "stage",
        "brings models and prompts to the bucket",
        reads=(RUNS, *MARKS, f"{s3_keys.PROMPTS}*"),
        deletes=MARKS[:1],
    ),
    "AcquireCapacity": FunctionSpec(
        "acquire",
        "queues for the node, or for servers that already run, and waits for it",
        reads=(RUNS, CAPACITY, ENDPOINTS, MARKS[1]),
        writes=(RUNS, CAPACITY, ENDPOINTS),
    ),
    "Compile": FunctionSpec(
        "compile", "checks engines, and compiles what is missing", reads=(RUNS, CAPACITY, *MARKS), deletes=MARKS
    ),
    "Serve": FunctionSpec("serve", "starts the arms of a wave", reads=(RUNS, CAPACITY, *MARKS), deletes=MARKS),
    "Smoke": FunctionSpec(
        "smoke",
        "sends every arm one request",
        reads=(RUNS, CAPACITY, ENDPOINTS),
        writes=(RUNS, f"{s3_keys.ENGINES}*"),
    ),
    "Benchmark": FunctionSpec("benchmark", "loads the arms of a wave", reads=(RUNS, CAPACITY, ENDPOINTS)),
    "Accuracy": FunctionSpec(
        "accuracy", "has lm-eval question the arms, and keeps them for questions", reads=(RUNS, CAPACITY, ENDPOINTS)
    ),
    "StopArms": FunctionSpec("stop_arms", "deletes a run's workloads"),
    "Advise": FunctionSpec(
        "advise",
        "plans the next wave of an adaptive sweep",
        reads=(RUNS, *MARKS),
        kubernetes=False,
        timeout_s=300,
        memory_mib=2048,
    ),
    "ReleaseCapacity": FunctionSpec(
        "release",
        "gives the node up",
        reads=(RUNS, CAPACITY, ENDPOINTS),
        writes=(RUNS, CAPACITY, ENDPOINTS),
        timeout_s=180,
    ),
    "Report": FunctionSpec(
        "report",
        "compares the arms and writes the report",
        reads=(RUNS, "compiled/*/neuron_config.json"),
        kubernetes=False,
        metrics=names.METRIC_NAMESPACE,
        timeout_s=300,
        memory_mib=2048,
    ),
    "Diagnose": FunctionSpec(
        "diagnose",
        "keeps logs and names the cause",
        reads=(RUNS, *MARKS),
        deletes=MARKS,
        timeout_s=300,
        memory_mib=1024,
    ),
    "Watchdog": FunctionSpec(
        "watchdog",
        "reconciles lease and replicas with running executions",
        reads=(RUNS, CAPACITY, ENDPOINTS),
        writes=(RUNS, CAPACITY, ENDPOINTS, f"{s3_keys.DAMAGED}*"),
        metrics=names.OPERATIONS_NAMESPACE,
        timeout_s=180,
    ),
    "Inspect": FunctionSpec("inspect", "shows the cluster to the command line", reads=(CAPACITY, ENDPOINTS), writes=()),
}


class PipelineFunction(Construct):
    """A Lambda (python3.11, x86_64, the bundle's bytes) with a role and a log group of its own, traced.

    With `kubernetes` it runs in the VPC's private subnets, with `security_group`.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        spec: FunctionSpec,
        code: lambda_.Code,
        environment: dict[str, str],
        bucket: s3.IBucket,
        vpc: ec2.IVpc,
        security_group: ec2.ISecurityGroup,
        log_retention_days: int,
    ) -> None:
        super().__init__(scope, id)
        group = logs.LogGroup(
            self, "Logs", retention=retention(log_retention_days), removal_policy=RemovalPolicy.DESTROY
        )
        self.role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            description=f"Pipeline function that {spec.purpose}",
        )
        self._allow(["logs:CreateLogStream", "logs:PutLogEvents"], [group.log_group_arn])
        self._allow_bucket(bucket, spec)
        if spec.metrics:
            confined = {"StringEquals": {"cloudwatch:namespace": spec.metrics}}
            self._allow(["cloudwatch:PutMetricData"], ["*"], confined)
        if spec.kubernetes:
            allow_network_interfaces(self.role)
        self.function = lambda_.Function(
            self,
            "Function",
            description=f"specdecode: {spec.purpose}",
            runtime=lambda_.Runtime.PYTHON_3_11,
            architecture=lambda_.Architecture.X86_64,
            code=code,
            handler=f"specdecode.steps.{spec.module}.handler",
            role=self.role,
            environment=environment,
            timeout=Duration.seconds(spec.timeout_s),
            memory_size=spec.memory_mib,
            tracing=lambda_.Tracing.ACTIVE,
            log_group=group,
            **(
                {
                    "vpc": vpc,
                    "vpc_subnets": ec2.SubnetSelection(subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS),
                    "security_groups": [security_group],
                }
                if spec.kubernetes
                else {}
            ),
        )
        acknowledge(self.function, "L1", reason=PYTHON_3_11)
        acknowledge_wildcards(self.role, "*", reason="Calls of X-Ray and CloudWatch metrics have no resource type.")
        acknowledge_wildcards(
            self.role,
            *(
                bucket.arn_for_objects(pattern)
                for pattern in {*spec.reads, *spec.writes, *spec.deletes}
                if "*" in pattern
            ),
            reason="Objects of the step's own prefixes, whatever the run or the model is called.",
        )

    def _allow(self, actions: list[str], resources: list[str], conditions: dict[str, object] | None = None) -> None:
        self.role.add_to_policy(iam.PolicyStatement(actions=actions, resources=resources, conditions=conditions))

    def allow(self, *actions: str, resources: list[str]) -> None:
        """Give the function a right beyond its spec."""
        self._allow(list(actions), resources)

    def _allow_bucket(self, bucket: s3.IBucket, spec: FunctionSpec) -> None:
        if spec.reads:
            # Without ListBucket a missing object answers 403, not 404.
            self._allow(["s3:ListBucket"], [bucket.bucket_arn])
            self._allow(["s3:GetObject"], [bucket.arn_for_objects(pattern) for pattern in spec.reads])
        if spec.writes:
            self._allow(["s3:PutObject"], [bucket.arn_for_objects(pattern) for pattern in spec.writes])
        if spec.deletes:
            self._allow(["s3:DeleteObject"], [bucket.arn_for_objects(pattern) for pattern in spec.deletes])
        key: kms.IKey | None = bucket.encryption_key
        if key is not None and (spec.reads or spec.writes):
            self._allow(["kms:Decrypt", "kms:GenerateDataKey"], [key.key_arn])
