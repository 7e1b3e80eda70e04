"""What `cdk deploy` needs of the templates beyond their content."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from constructs_lib.settings import zones
from rehearsal.deployment import synth
from rehearsal.tools import aws_environment
from tests.conftest import STACKS, Assembly, synthesize
from tests.templates import Templates

pytestmark = pytest.mark.synth


def test_synth_asks_no_account(assembly: Assembly) -> None:
    manifest = json.loads((assembly.folder / "manifest.json").read_text())
    assert "missing" not in manifest
    for stack in STACKS:
        assert manifest["artifacts"][stack]["environment"] == "aws://unknown-account/us-east-2"
    text = json.dumps([assembly.raw(stack) for stack in STACKS])
    assert "111122223333" not in text
    assert "dummy" not in text


def test_synth_is_the_same_in_every_account_and_in_a_rehearsal(
    assembly: Assembly, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list of parameters in which templates may differ is empty (ADR 30): the CLI's variables change nothing."""
    for name, value in {
        **aws_environment("http://127.0.0.1:4566"),
        "CDK_DEFAULT_ACCOUNT": "000000000000",
        "CDK_DEFAULT_REGION": "us-east-2",
    }.items():
        monkeypatch.setenv(name, value)
    again = synthesize(tmp_path)
    for stack in STACKS:
        assert again.raw(stack) == assembly.raw(stack)


def test_a_rehearsal_synthesizes_with_no_settings_of_its_own() -> None:
    started = []

    class Recorder:
        folder = Path("folder")

        def start(self, _name: str, command: list[object], *, environment: dict[str, str], directory: object) -> None:
            started.append((list(map(str, command)), environment))

    synth(Recorder(), {})
    ((command, environment),) = started
    assert not {"-c", "--context"} & set(command)
    assert not [name for name in environment if name.startswith("CDK_CONTEXT")]
    assert command[command.index("--app") + 1] == f"{sys.executable} app.py --alone"


def test_templates_take_no_parameter_but_the_bootstrap_version(assembly: Assembly) -> None:
    for stack in STACKS:
        assert set(assembly.raw(stack)["Parameters"]) == {"BootstrapVersion"}


def test_stacks_stay_far_from_cloudformations_limits(assembly: Assembly) -> None:
    for stack in STACKS:
        template = assembly.folder / f"{stack}.template.json"
        assert len(assembly.raw(stack)["Resources"]) < 300
        assert template.stat().st_size < 800_000
        assert len(assembly.raw(stack).get("Outputs", {})) < 50


def test_deploying_spec_decode_brings_the_cluster(assembly: Assembly) -> None:
    manifest = json.loads((assembly.folder / "manifest.json").read_text())
    assert "TrainiumClusterStack" in manifest["artifacts"]["SpecDecodeStack"]["dependencies"]


def test_the_bundle_is_one_object_for_lambdas_and_pods(templates: Templates) -> None:
    keys, uris = set(), set()
    for function in templates.properties("AWS::Lambda::Function").values():
        if function.get("Handler", "").startswith("specdecode."):
            assert function["Runtime"] == "python3.11"
            assert function["Architectures"] == ["x86_64"]
            keys.add((function["Code"]["S3Bucket"], function["Code"]["S3Key"]))
            variables = function.get("Environment", {}).get("Variables", {})
            if "BUNDLE_URI" in variables:
                uris.add(variables["BUNDLE_URI"])
    ((bucket, key),) = keys
    assert uris == {f"s3://{bucket}/{key}"}


def test_every_log_group_of_ours_forgets(templates: Templates) -> None:
    groups = templates.properties("AWS::Logs::LogGroup")
    assert len(groups) > 15
    for name, group in groups.items():
        assert group.get("RetentionInDays") == 30, name


def test_every_function_has_a_log_group_of_the_template(templates: Templates) -> None:
    """By reference, or by the name that Lambda would give it (CDK's provider)."""
    named = {group.get("LogGroupName") for group in templates.properties("AWS::Logs::LogGroup").values()}
    for stack, name, function in templates.resources("AWS::Lambda::Function"):
        by_name = f"/aws/lambda/{templates.resolve(stack, {'Ref': name})}"
        assert "LogGroup" in function["Properties"].get("LoggingConfig", {}) or by_name in named, name


def test_the_cluster_is_closed_and_talks(templates: Templates) -> None:
    (cluster,) = templates.properties("AWS::EKS::Cluster").values()
    assert cluster["AccessConfig"] == {
        "AuthenticationMode": "API",
        "BootstrapClusterCreatorAdminPermissions": False,
    }
    assert cluster["ResourcesVpcConfig"]["EndpointPublicAccess"] is False
    assert cluster["ResourcesVpcConfig"]["EndpointPrivateAccess"] is True
    assert cluster["Version"] == "1.35"
    assert cluster["EncryptionConfig"][0]["Resources"] == ["secrets"]
    assert {item["Type"] for item in cluster["Logging"]["ClusterLogging"]["EnabledTypes"]} == {
        "api",
        "audit",
        "authenticator",
        "controllerManager",
        "scheduler",
    }
    assert cluster["BootstrapSelfManagedAddons"] is False


def test_system_nodes_keep_their_credentials_to_themselves(templates: Templates) -> None:
    (template,) = templates.properties("AWS::EC2::LaunchTemplate").values()
    data = template["LaunchTemplateData"]
    assert data["MetadataOptions"] == {"HttpPutResponseHopLimit": 1, "HttpTokens": "required"}
    assert data["BlockDeviceMappings"][0]["Ebs"]["Encrypted"] is True
    (nodes,) = templates.properties("AWS::EKS::Nodegroup").values()
    assert nodes["AmiType"] == "AL2023_x86_64_STANDARD"
    # Karpenter's two replicas never share a host.
    assert nodes["ScalingConfig"]["MinSize"] >= 2


def test_buckets_are_private_and_kept(templates: Templates) -> None:
    buckets = list(templates.resources("AWS::S3::Bucket"))
    assert len(buckets) == 2
    for _, name, bucket in buckets:
        assert set(bucket["Properties"]["PublicAccessBlockConfiguration"].values()) == {True}, name
        # A first deployment that fails leaves no bucket behind.
        assert bucket["DeletionPolicy"] == "RetainExceptOnCreate", name
        assert bucket["UpdateReplacePolicy"] == "Retain", name
        rules = bucket["Properties"]["LifecycleConfiguration"]["Rules"]
        assert any("AbortIncompleteMultipartUpload" in rule for rule in rules), name


def test_what_is_overwritten_can_be_had_back_for_a_while(templates: Templates) -> None:
    (bucket,) = [
        resource["Properties"]
        for _, name, resource in templates.resources("AWS::S3::Bucket")
        if name.startswith("ArtifactsBucket")
    ]
    assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
    (rule,) = [rule for rule in bucket["LifecycleConfiguration"]["Rules"] if rule["Id"] == "old-versions"]
    assert rule["NoncurrentVersionExpiration"] == {"NoncurrentDays": 14} and rule["Status"] == "Enabled"
    assert "Prefix" not in rule, "old versions of everything cost money"


def test_no_resource_has_a_name_under_which_aws_would_make_it_again(templates: Templates) -> None:
    """EKS and the agents write these groups after a stack is gone: its next deployment would find them there."""
    names = [group.get("LogGroupName", "") for group in templates.properties("AWS::Logs::LogGroup").values()]
    assert not [name for name in names if name.startswith(("/aws/eks/", "/aws/containerinsights/"))]
    (retention,) = templates.properties("Custom::SpecDecodeLogRetention").values()
    assert retention["Days"] == 30
    assert retention["Groups"] == [
        "/aws/eks/specdecode/cluster",
        "/aws/containerinsights/specdecode/application",
        "/aws/containerinsights/specdecode/dataplane",
        "/aws/containerinsights/specdecode/host",
        "/aws/containerinsights/specdecode/performance",
    ]


def test_services_act_for_this_account_only(templates: Templates) -> None:
    """Where the service names its caller: states and flow logs. Lambda and EC2 name none when they assume a role."""
    sources = {}
    for name, role in templates.properties("AWS::IAM::Role").items():
        for statement in role["AssumeRolePolicyDocument"]["Statement"]:
            service = statement["Principal"].get("Service")
            if service in ("states.amazonaws.com", "vpc-flow-logs.amazonaws.com"):
                assert statement["Condition"]["StringEquals"] == {"aws:SourceAccount": "111122223333"}, name
                sources[service] = statement["Condition"]["ArnLike"]["aws:SourceArn"]
            else:
                assert service in (None, "lambda.amazonaws.com", "ec2.amazonaws.com", "eks.amazonaws.com"), name
    assert sources == {
        "states.amazonaws.com": "arn:aws:states:us-east-2:111122223333:stateMachine:*",
        "vpc-flow-logs.amazonaws.com": "arn:aws:ec2:us-east-2:111122223333:vpc-flow-log/*",
    }


@pytest.mark.parametrize(
    "region", [pytest.param(each, marks=[pytest.mark.slow] * (each != "us-east-2")) for each in zones.REGION_ZONES]
)
def test_cfn_lint(assembly: Assembly, tmp_path: Path, region: str) -> None:
    """In every region that the settings offer. W3005 is the CDK's redundant DependsOn."""
    trn2 = {"trn2_zones": ",".join(zones.REGION_ZONES[region]), "price_per_node_hour": "30"}
    there = assembly if region == "us-east-2" else synthesize(tmp_path, region=region, **trn2)
    result = subprocess.run(
        [
            str(Path(sys.executable).with_name("cfn-lint")),
            "--ignore-checks",
            "W3005",
            "--regions",
            region,
            "--",
            *(str(there.folder / f"{stack}.template.json") for stack in STACKS),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout


@pytest.mark.slow
def test_the_validator_finds_nothing(tmp_path: Path) -> None:
    assert synthesize(tmp_path, validator=True, accept_no_alerts="true").findings == ()
