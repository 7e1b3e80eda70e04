"""Data of the stacks, wherever it rests or travels: encrypted, by TLS alone, and handed to nobody who needs it not."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from specdecode.experiment import credentials

from tests.conftest import STACKS, Assembly
from tests.templates import Templates, as_list

pytestmark = pytest.mark.synth


def denies_plain_http(document: Mapping[str, Any], resources: set[str]) -> bool:
    """Whether a policy refuses everybody every call that comes without TLS, to all of `resources`."""
    return any(
        statement["Effect"] == "Deny"
        and statement["Principal"] in ("*", {"AWS": "*"})
        and statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
        and resources <= set(as_list(statement["Resource"]))
        for statement in document["Statement"]
    )


def policies_of(templates: Templates, kind: str, names: str) -> dict[str, Any]:
    """Resource that a policy is for -> its document."""
    return {
        name: properties["PolicyDocument"]
        for properties in templates.properties(kind).values()
        for name in as_list(properties[names])
    }


def test_every_bucket_is_encrypted_and_takes_tls_only(templates: Templates) -> None:
    policies = policies_of(templates, "AWS::S3::BucketPolicy", "Bucket")
    for stack, name, bucket in templates.resources("AWS::S3::Bucket"):
        arn = templates.resolve(stack, {"Fn::GetAtt": [name, "Arn"]})
        document = policies[templates.resolve(stack, {"Ref": name})]
        assert denies_plain_http(document, {arn, f"{arn}/*"}), name
        (rule,) = bucket["Properties"]["BucketEncryption"]["ServerSideEncryptionConfiguration"]
        assert rule["ServerSideEncryptionByDefault"]["SSEAlgorithm"] in ("AES256", "aws:kms"), name
        (ownership,) = bucket["Properties"]["OwnershipControls"]["Rules"]
        assert ownership == {"ObjectOwnership": "BucketOwnerEnforced"}, name


def test_every_queue_is_encrypted_and_takes_tls_only(templates: Templates) -> None:
    policies = policies_of(templates, "AWS::SQS::QueuePolicy", "Queues")
    queues = list(templates.resources("AWS::SQS::Queue"))
    assert queues
    for stack, name, queue in queues:
        arn = templates.resolve(stack, {"Fn::GetAtt": [name, "Arn"]})
        assert queue["Properties"]["SqsManagedSseEnabled"] is True, name
        assert denies_plain_http(policies[templates.resolve(stack, {"Ref": name})], {arn}), name


def test_every_topic_takes_tls_only(templates: Templates) -> None:
    policies = policies_of(templates, "AWS::SNS::TopicPolicy", "Topics")
    topics = list(templates.resources("AWS::SNS::Topic"))
    assert topics
    for stack, name, _ in topics:
        topic = templates.resolve(stack, {"Ref": name})
        assert denies_plain_http(policies[topic], {topic}), name


def test_every_key_turns_over_and_is_the_accounts(templates: Templates) -> None:
    keys = templates.properties("AWS::KMS::Key")
    assert keys
    for name, key in keys.items():
        assert key["EnableKeyRotation"] is True, name
        for statement in key["KeyPolicy"]["Statement"]:
            assert statement["Principal"].keys() <= {"AWS", "Service"}, name
            assert "*" not in as_list(statement["Principal"].get("AWS", [])), name


def test_every_volume_is_encrypted(templates: Templates) -> None:
    volumes = [
        mapping["Ebs"]
        for template in templates.properties("AWS::EC2::LaunchTemplate").values()
        for mapping in template["LaunchTemplateData"]["BlockDeviceMappings"]
    ]
    assert volumes and all(volume["Encrypted"] is True for volume in volumes)
    classes = [obj for obj in templates.manifests().values() if obj["kind"] == "EC2NodeClass"]
    assert classes
    for node_class in classes:
        mappings = node_class["spec"]["blockDeviceMappings"]
        assert mappings and all(mapping["ebs"]["encrypted"] is True for mapping in mappings)


ENVIRONMENT = {
    *("BUCKET", "BUNDLE_URI", "BUNDLE_SHA256", "CAPACITY", "OPERATIONS_NAMESPACE", "STATE_MACHINE_ARN"),
    *("CLUSTER_NAME", "CLUSTER_ENDPOINT", "CLUSTER_CA"),
    *("NODEPOOLS", "NAMESPACE", "TOPIC_ARN", "KARPENTER_ROLE", "NO_LAUNCH_POLICIES", "RUNBOOK"),
    *("WINDOW_MINUTES", "HOLDING_HOURS", "EXECUTION_HOURS", "DYNAMIC_NODEPOOLS", "DYNAMIC_HOURS", "ALERTS_TOPIC"),
    *("POD_ROLE_ARN", "USER_ON_EVENT_FUNCTION_ARN", "AWS_STS_REGIONAL_ENDPOINTS"),
}
"""Every variable that any function has: where things are, limits, and the cluster's public certificate."""


def test_no_function_is_given_a_secret(templates: Templates) -> None:
    assert {name for variables in templates.variables() for name in variables} == ENVIRONMENT


def test_templates_hold_no_credential(assembly: Assembly) -> None:
    for stack in STACKS:
        assert list(credentials.found(assembly.raw(stack))) == []
        assert "resolve:secretsmanager" not in str(assembly.raw(stack))


def test_outputs_say_where_things_are_and_no_more(templates: Templates) -> None:
    assert {
        name
        for template in templates.stacks.values()
        for name, output in template["Outputs"].items()
        if "Export" not in output
    } == {
        *("BucketName", "StateMachineConsole", "DashboardUrl", "KubeconfigCommand", "HourlyCost"),
        *("StateMachineArn", "WatchdogFunction", "InspectFunction", "Capacity", "DeploymentFacts", "AlertsTopicArn"),
    }


def test_an_event_rule_hands_no_executions_input_on(templates: Templates) -> None:
    """An event that an execution ended has the execution's input in it. Its name is all that is handed on."""
    rules = templates.properties("AWS::Events::Rule")
    watching = [rule for rule in rules.values() if "aws.states" in rule.get("EventPattern", {}).get("source", ())]
    assert watching
    for target in (target for rule in watching for target in rule["Targets"]):
        assert "InputPath" not in target
        handed = target.get("InputTransformer", {"InputPathsMap": {}, "InputTemplate": target.get("Input")})
        assert set(handed["InputPathsMap"].values()) <= {"$.detail.name"}
        assert set(json.loads(handed["InputTemplate"].replace("<detail-name>", '"name"'))) <= {"ended"}


def test_alerts_are_written_by_alarms_and_budgets_only(templates: Templates) -> None:
    """What they say are names of alarms and metrics, and amounts: nobody publishes texts of a run."""
    for document in policies_of(templates, "AWS::SNS::TopicPolicy", "Topics").values():
        publishers = {
            str(statement["Principal"]): statement["Condition"]
            for statement in document["Statement"]
            if statement["Effect"] == "Allow"
        }
        assert publishers == {
            str({"Service": f"{service}.amazonaws.com"}): {"StringEquals": {"aws:SourceAccount": "111122223333"}}
            for service in ("budgets", "cloudwatch")
        }
