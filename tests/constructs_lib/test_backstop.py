"""The backstop in the template: nothing of what it stands in for, and the right to end one pool's instances only."""

import json
import re
from typing import Any

import pytest

pytestmark = pytest.mark.synth


@pytest.fixture(scope="module")
def resources(assembly) -> dict[str, Any]:
    return assembly.raw("SpecDecodeStack")["Resources"]


def ours(resources: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [
        resource["Properties"]
        for logical, resource in resources.items()
        if resource["Type"] == kind and logical.startswith("Backstop")
    ]


def test_it_shares_neither_code_nor_network_nor_role_nor_log(resources):
    (function,) = ours(resources, "AWS::Lambda::Function")
    others = [
        resource["Properties"]
        for logical, resource in resources.items()
        if resource["Type"] == "AWS::Lambda::Function" and not logical.startswith("Backstop")
    ]
    assert "VpcConfig" not in function
    for key in ("Code", "Role", "LoggingConfig"):
        assert json.dumps(function[key]) not in {json.dumps(other.get(key)) for other in others}, key
    assert not [name for name in function["Environment"]["Variables"] if re.search("BUCKET|BUNDLE|ENDPOINT|_CA$", name)]
    assert not [
        entry
        for entry in resources.values()
        if entry["Type"] == "AWS::EKS::AccessEntry" and "Backstop" in json.dumps(entry["Properties"]["PrincipalArn"])
    ]


def test_it_may_end_instances_of_this_pool_of_this_cluster_only(resources):
    (policy,) = ours(resources, "AWS::IAM::Policy")
    (statement,) = [s for s in policy["PolicyDocument"]["Statement"] if s["Action"] == "ec2:TerminateInstances"]
    assert statement["Condition"] == {
        "StringEquals": {
            "aws:ResourceTag/kubernetes.io/cluster/specdecode": "owned",
            "aws:ResourceTag/karpenter.sh/nodepool": ["trn2", "cpu", "cpu-large", "staging", "compile"],
        }
    }
    assert json.dumps(statement["Resource"]).endswith(':instance/*"]]}')


def no_launch(resources: dict[str, Any]) -> dict[str, list[str]]:
    """Logical id of each policy against launching -> the pools that it closes. Each denies, and does nothing else."""
    found = {}
    for logical, resource in resources.items():
        if resource["Type"] == "AWS::IAM::ManagedPolicy" and logical.startswith("Backstop"):
            assert not resource["Properties"].keys() & {"Roles", "Users", "Groups"}
            (statement,) = resource["Properties"]["PolicyDocument"]["Statement"]
            assert (statement["Effect"], statement["Action"]) == ("Deny", ["ec2:CreateFleet", "ec2:RunInstances"])
            ((operator, condition),) = statement["Condition"].items()
            assert (operator, list(condition)) == ("StringEquals", ["aws:RequestTag/karpenter.sh/nodepool"])
            (found[logical],) = condition.values()
    return found


def attachable(resources: dict[str, Any], action: str) -> list[list[str]]:
    """What each statement with the action is confined to: logical ids of policies."""
    return [
        sorted(arn["Ref"] for arn in statement["Condition"]["ArnEquals"]["iam:PolicyARN"])
        for resource in resources.values()
        if resource["Type"] == "AWS::IAM::Policy"
        for statement in resource["Properties"]["PolicyDocument"]["Statement"]
        if action in statement["Action"]
    ]


def test_each_pool_can_be_closed_by_itself_and_no_other_policy_can_be_attached(resources):
    policies = no_launch(resources)
    assert sorted(policies.values()) == [["cpu"], ["cpu-large"], ["trn2"]]
    assert attachable(resources, "iam:AttachRolePolicy") == [sorted(policies)]
    assert attachable(resources, "iam:DetachRolePolicy") == [sorted(policies)] * 2, "the guard's too"


def test_the_policies_against_launching_go_before_karpenter_s_role(resources):
    (guard,) = [r for r in resources.values() if r["Type"] == "Custom::SpecDecodeTeardownGuard"]
    assert sorted(arn["Ref"] for arn in guard["Properties"]["NoLaunchPolicies"]) == sorted(no_launch(resources))
    assert set(no_launch(resources)) <= set(guard["DependsOn"])
