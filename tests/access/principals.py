"""The roles whose policies are ours: each by a short name, with its statements and the names of what they are about."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from specdecode import names

from constructs_lib.pipeline.functions import FUNCTIONS
from tests.access.policies import Statement
from tests.templates import Templates

MOUNTING = frozenset(names.SERVICE_ACCOUNTS)
"""Roles of service accounts, with which the bucket is mounted."""
GIVEN = frozenset(names.POD_ROLES)
"""Roles of which pods get a part, as a session."""
PODS = MOUNTING | GIVEN
STEPS = frozenset(FUNCTIONS)
IN_VPC = frozenset(name for name, spec in FUNCTIONS.items() if spec.kubernetes)
GUARDS = frozenset({"ClusterGuards", "RunGuards"})

ROLES: dict[str, tuple[str, str]] = {
    **{name: ("SpecDecodeStack", f"PodRoles{name.capitalize()}Role") for name in names.POD_ROLES},
    **{name: ("SpecDecodeStack", f"ServiceAccounts{name.capitalize()}Role") for name in names.SERVICE_ACCOUNTS},
    **{name: ("SpecDecodeStack", f"Pipeline{name}Role") for name in FUNCTIONS},
    "StateMachine": ("SpecDecodeStack", "PipelineStateMachineRole"),
    "Backstop": ("SpecDecodeStack", "BackstopRole"),
    "RunGuards": ("SpecDecodeStack", "GuardsRole"),
    "RunSettings": ("SpecDecodeStack", "SettingsRole"),
    "ClusterSettings": ("TrainiumClusterStack", "SettingsRole"),
    "ClusterGuards": ("TrainiumClusterStack", "GuardsRole"),
    "Karpenter": ("TrainiumClusterStack", "KarpenterIrsaRole"),
}
"""Principal -> stack and beginning of its role's logical id."""

BY_AWS = {
    "EksClusterRole",
    "EksSystemNodeRole",
    "NodeRole",
    "ObservabilityIrsaRole",
    "EksClusterKubectlProviderHandlerServiceRole",
    "EksClusterKubectlProviderframeworkonEventServiceRole",
    "AWSCDKCfnUtilsProviderCustomResourceProviderRole",
    "NetworkFlowLogRole",
}
"""Roles left out: AWS's managed policies decide what they may, or (flow logs) AWS itself acts with them."""

OPEN_ROLE = "specdecode-trial-open"
"""A role of somebody else that trusts the whole account: only the caller's own policy keeps it from being assumed."""

PLACES: dict[str, tuple[str, str, str]] = {
    "bucket": ("SpecDecodeStack", "AWS::S3::Bucket", "ArtifactsBucket"),
    "machine": ("SpecDecodeStack", "AWS::StepFunctions::StateMachine", "PipelineStateMachine"),
    "topic": ("SpecDecodeStack", "AWS::SNS::Topic", "AlertsTopic"),
    "queue": ("TrainiumClusterStack", "AWS::SQS::Queue", "InterruptionQueue"),
    "node_role": ("TrainiumClusterStack", "AWS::IAM::Role", "NodeRole"),
    "karpenter_role": ("TrainiumClusterStack", "AWS::IAM::Role", "KarpenterIrsaRole"),
    "benchmark_role": ("SpecDecodeStack", "AWS::IAM::Role", "ServiceAccountsBenchmarkRole"),
    "staging_role": ("SpecDecodeStack", "AWS::IAM::Role", "PodRolesStagingRole"),
    "compile_role": ("SpecDecodeStack", "AWS::IAM::Role", "PodRolesCompileRole"),
    "results_role": ("SpecDecodeStack", "AWS::IAM::Role", "PodRolesResultsRole"),
    "no_launch": ("SpecDecodeStack", "AWS::IAM::ManagedPolicy", "BackstopNoLaunchtrn2"),
    "release_role": ("SpecDecodeStack", "AWS::IAM::Role", "PipelineReleaseCapacityRole"),
    "plan_function": ("SpecDecodeStack", "AWS::Lambda::Function", "PipelinePlanFunction"),
    "watchdog_function": ("SpecDecodeStack", "AWS::Lambda::Function", "PipelineWatchdogFunction"),
    "backstop_logs": ("SpecDecodeStack", "AWS::Logs::LogGroup", "BackstopLogs"),
    "plan_logs": ("SpecDecodeStack", "AWS::Logs::LogGroup", "PipelinePlanLogs"),
    "watchdog_logs": ("SpecDecodeStack", "AWS::Logs::LogGroup", "PipelineWatchdogLogs"),
    "machine_logs": ("SpecDecodeStack", "AWS::Logs::LogGroup", "PipelineLogs"),
}
"""Place -> stack, type and beginning of the logical id; `places` gives each its ARN, and its name as `<place>_name`."""


@dataclass(frozen=True, kw_only=True)
class Deployed:
    """What calls are made on, by name, as calls' texts refer to it."""

    places: Mapping[str, str]
    roles: Mapping[str, str]
    """Principal -> ARN of its role."""


def logical_id(templates: Templates, stack: str, kind: str, begin: str) -> str:
    """The one resource of that type whose logical id is `begin` and the CDK's eight digits."""
    (found,) = [name for where, name, _ in templates.resources(kind) if where == stack and name[:-8] == begin]
    return found


def deployed(templates: Templates, arn: Callable[[str, str], str], *, account: str, region: str) -> Deployed:
    """Names of everything, `arn` giving the ARN of a stack's resource."""
    places = {"account": account, "region": region, "assets": f"cdk-hnb659fds-assets-{account}-{region}"}
    for place, (stack, kind, begin) in PLACES.items():
        places[place] = arn(stack, logical_id(templates, stack, kind, begin)).removesuffix(":*")
        places[f"{place}_name"] = places[place].rpartition("/" if kind == "AWS::IAM::Role" else ":")[2]
    places["open_role"] = f"arn:aws:iam::{account}:role/{OPEN_ROLE}"
    places["executions"] = places["machine"].replace(":stateMachine:", ":execution:")
    places["bundle"] = _bundle(templates)
    places["queue_url"] = f"https://sqs.{region}.amazonaws.com/{account}/{places['queue_name']}"
    roles = {
        name: arn(stack, logical_id(templates, stack, "AWS::IAM::Role", begin))
        for name, (stack, begin) in ROLES.items()
    }
    return Deployed(places=places, roles=roles)


def from_templates(templates: Templates) -> Deployed:
    """With the stand-ins that the templates' references are resolved to."""

    def arn(stack: str, name: str) -> str:
        kind = templates.stacks[stack]["Resources"][name]["Type"]
        refers = kind in ("AWS::StepFunctions::StateMachine", "AWS::SNS::Topic", "AWS::IAM::ManagedPolicy")
        return str(templates.resolve(stack, {"Ref": name} if refers else {"Fn::GetAtt": [name, "Arn"]}))

    return deployed(templates, arn, account="111122223333", region="us-east-2")


def _bundle(templates: Templates) -> str:
    """Key of the bundle in the CDK's bucket of assets: the one object there that pods may read."""
    (key,) = {
        arn.partition("/")[2]
        for _, statement in templates.statements()
        for arn in ([statement["Resource"]] if isinstance(statement["Resource"], str) else statement["Resource"])
        if ":cdk-hnb659fds-assets-" in arn
    }
    return key


def statements_of(templates: Templates, principal: str) -> list[Statement]:
    """All statements of a principal's policies, resolved. They are found by the role that a policy is attached to."""
    stack, begin = ROLES[principal]
    role = logical_id(templates, stack, "AWS::IAM::Role", begin)
    found: list[Statement] = []
    properties = templates.stacks[stack]["Resources"][role]["Properties"]
    attached = [policy["PolicyDocument"] for policy in properties.get("Policies", ())]
    assert "PermissionsBoundary" not in properties
    for kind in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"):
        for where, _, resource in templates.resources(kind):
            if where == stack and {"Ref": role} in resource["Properties"].get("Roles", ()):
                attached.append(resource["Properties"]["PolicyDocument"])
    for document in attached:
        found += templates.resolve(stack, document)["Statement"]
    named = [arn for arn in properties.get("ManagedPolicyArns", ()) if not (isinstance(arn, dict) and "Ref" in arn)]
    assert not named, f"{principal} has a policy that is not in the template: {named}"
    return found
