"""Who may do what: no action with a wildcard, every `*` resource justified, every service account its own prefix."""

import pytest
from specdecode import names

from constructs_lib.capacity import karpenter_policies
from tests.conftest import Assembly
from tests.templates import Templates, as_list

pytestmark = pytest.mark.synth

WITHOUT_RESOURCE_TYPE = {
    "Lambda's network interfaces, checked before one exists": {
        "ec2:AssignPrivateIpAddresses",
        "ec2:CreateNetworkInterface",
        "ec2:DeleteNetworkInterface",
        "ec2:DescribeNetworkInterfaces",
        "ec2:DescribeSubnets",
        "ec2:UnassignPrivateIpAddresses",
    },
    "X-Ray takes no resource": {
        "xray:GetSamplingRules",
        "xray:GetSamplingTargets",
        "xray:PutTelemetryRecords",
        "xray:PutTraceSegments",
    },
    "Log delivery of Step Functions (docs.aws.amazon.com/step-functions/latest/dg/cw-logs.html)": {
        "logs:CreateLogDelivery",
        "logs:DeleteLogDelivery",
        "logs:DescribeLogGroups",
        "logs:DescribeResourcePolicies",
        "logs:GetLogDelivery",
        "logs:ListLogDeliveries",
        "logs:PutResourcePolicy",
        "logs:UpdateLogDelivery",
    },
    "Karpenter's read-only calls": {
        action
        for statement in karpenter_policies.resource_discovery()
        if statement.resources == ["*"]
        for action in statement.actions
    },
    "PutMetricData, confined by a condition": {"cloudwatch:PutMetricData"},
    "Reads of the backstop, and of the guard of heartbeats": {
        "ec2:DescribeInstances",
        "cloudwatch:GetMetricStatistics",
    },
}
"""Why a statement may have the resource `*` -> the only actions that may."""


def test_no_finding_of_cdk_nag_is_unexplained(assembly: Assembly) -> None:
    """The one that is left is the synth's own warning: the defaults name nobody who would be told."""
    assert assembly.findings == (("Annotation::specdecode:no-alerts", "SpecDecodeStack/Alerts"),)


def test_no_action_has_a_wildcard(templates: Templates) -> None:
    for name, statement in templates.statements():
        assert statement["Effect"] == "Allow" or "BackstopNoLaunch" in name, name
        for action in as_list(statement["Action"]):
            assert "*" not in action, (name, action)


def test_every_star_resource_is_justified(templates: Templates) -> None:
    justified = set().union(*WITHOUT_RESOURCE_TYPE.values())
    used = set()
    for name, statement in templates.statements():
        if "*" in as_list(statement["Resource"]):
            actions = set(as_list(statement["Action"]))
            assert actions <= justified, (name, actions - justified)
            used |= actions
            if "cloudwatch:PutMetricData" in actions:
                assert actions == {"cloudwatch:PutMetricData"}
                assert set(statement["Condition"]["StringEquals"]) == {"cloudwatch:namespace"}, name
    assert used == justified, f"justified and not needed: {justified - used}"


def test_managed_policies_are_those_that_aws_demands(templates: Templates) -> None:
    managed = {
        arn.rpartition("policy/")[2]
        for properties in templates.properties("AWS::IAM::Role").values()
        for arn in properties.get("ManagedPolicyArns", ())
        if isinstance(arn, str)
    }
    assert not [name for name in managed if "FullAccess" in name]
    assert managed == {
        "AmazonEKSClusterPolicy",
        "AmazonEKSWorkerNodePolicy",
        "AmazonEKS_CNI_Policy",
        "AmazonEC2ContainerRegistryPullOnly",
        "AmazonSSMManagedInstanceCore",
        "CloudWatchAgentServerPolicy",
        # CDK's kubectl provider.
        "AmazonEC2ContainerRegistryReadOnly",
        "AmazonElasticContainerRegistryPublicReadOnly",
        "service-role/AWSLambdaBasicExecutionRole",
        "service-role/AWSLambdaVPCAccessExecutionRole",
    }


def test_network_interfaces_are_for_lambda_itself_and_not_for_code(templates: Templates) -> None:
    """Calls of a function's code carry lambda:SourceFunctionArn, those of the service do not (ADR 127)."""
    found = [
        statement
        for _, statement in templates.statements()
        if "ec2:CreateNetworkInterface" in as_list(statement["Action"])
    ]
    assert len(found) > 10
    for statement in found:
        assert statement["Condition"] == {"Null": {"lambda:SourceFunctionArn": "true"}}


PREFIXES = {
    "PodRolesStaging": ({"imports/*", "models/*", "prompts/*"}, {"models/*", "prompts/*"}),
    "PodRolesCompile": ({"models/*", "compiled/*"}, {"compiled/*"}),
    "PodRolesResults": ({"runs/*", "asks/*"}, {"runs/*", "asks/*"}),
    "ServiceAccountsServing": ({"models/*", "compiled/*"}, set()),
    "ServiceAccountsMonitored": ({"models/*", "compiled/*"}, set()),
    "ServiceAccountsBenchmark": ({"models/*"}, set()),
}
"""Beginning of a role's id -> what it reads, what it writes."""


@pytest.mark.parametrize("component", sorted(PREFIXES))
def test_a_role_for_pods_reads_and_writes_its_own_prefixes(templates: Templates, component: str) -> None:
    reads, writes, lists, deletes = set(), set(), set(), set()
    for name, statement in templates.statements():
        if not name.startswith(f"SpecDecodeStack/{component}Role"):
            continue
        actions = set(as_list(statement["Action"]))
        keys = {arn.partition("/")[2] for arn in as_list(statement["Resource"])}
        if "s3:PutObject" in actions:
            writes |= keys
        if "s3:GetObject" in actions:
            reads |= keys
        if "s3:ListBucket" in actions:
            # With a condition on s3:prefix, S3 would answer 403 for a missing object, and staging would give up.
            assert "Condition" not in statement
            lists |= set(as_list(statement["Resource"]))
        if any(action.startswith("s3:Delete") for action in actions):
            deletes |= keys
    bundle = {key for key in reads if key.endswith(".zip")}
    assert len(bundle) == (component not in ("ServiceAccountsServing", "ServiceAccountsBenchmark"))
    assert (reads - bundle, writes) == PREFIXES[component]
    assert len(lists) == 1
    assert deletes == {key for key in writes if key in ("models/*", "compiled/*", "asks/*")}


def test_what_pods_get_a_part_of_is_taken_by_its_steps_alone(templates: Templates) -> None:
    for name, takers in names.POD_ROLES.items():
        (role,) = [
            properties
            for where, properties in templates.properties("AWS::IAM::Role").items()
            if where.startswith(f"SpecDecodeStack/PodRoles{name.capitalize()}Role")
        ]
        principals = set()
        for statement in role["AssumeRolePolicyDocument"]["Statement"]:
            assert statement["Action"] == "sts:AssumeRole" and statement["Effect"] == "Allow"
            assert set(statement["Principal"]) == {"AWS"}
            principals |= {arn.rpartition("/")[2] for arn in as_list(statement["Principal"]["AWS"])}
        assert sorted(principal.rpartition("Role")[0] for principal in principals) == sorted(
            f"Pipeline{taker}" for taker in takers
        ), principals


def test_a_role_of_a_service_account_is_for_that_account_alone(templates: Templates) -> None:
    subjects = set()
    for properties in templates.properties("Custom::AWSCDKCfnJson").values():
        condition = str(properties["Value"])
        assert ':aud":"sts.amazonaws.com"' in condition
        subjects.add(condition.rpartition("system:serviceaccount:")[2].removesuffix('"}'))
    assert subjects == {
        "kube-system:karpenter",
        "amazon-cloudwatch:cloudwatch-agent",
        *(f"{names.NAMESPACE}:{account}" for account in names.SERVICE_ACCOUNTS.values()),
    }


def test_lambda_functions_reach_the_api_server_through_their_own_security_groups(templates: Templates) -> None:
    rules = templates.properties("AWS::EC2::SecurityGroupIngress")
    assert {(rule["FromPort"], rule["ToPort"], rule["IpProtocol"]) for rule in rules.values()} == {(443, 443, "tcp")}
    (cluster_group,) = {rule["GroupId"] for rule in rules.values()}
    sources = {rule["SourceSecurityGroupId"] for rule in rules.values()}
    assert cluster_group not in sources
    for name, function in templates.properties("AWS::Lambda::Function").items():
        environment = function.get("Environment", {}).get("Variables", {})
        if "CLUSTER_ENDPOINT" in environment and "VpcConfig" in function:
            assert set(function["VpcConfig"]["SecurityGroupIds"]) <= sources, name


def test_admission_of_functions_is_by_groups_that_are_bound(templates: Templates) -> None:
    bound = {
        subject["name"]
        for obj in templates.manifests().values()
        if obj["kind"].endswith("Binding")
        for subject in obj["subjects"]
    }
    for name, entry in templates.properties("AWS::EKS::AccessEntry").items():
        if entry.get("Type") == "STANDARD":
            assert set(entry["KubernetesGroups"]) <= bound, name
