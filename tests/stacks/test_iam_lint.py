"""Every policy through parliament: unknown actions and condition keys, actions that a resource does not fit."""

import json
import warnings

import pytest

from tests.conftest import Assembly
from tests.templates import Templates

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # pkg_resources and unescaped patterns of its own
    import parliament

pytestmark = pytest.mark.synth

KNOWN = {
    (
        "RESOURCE_MISMATCH",
        "ec2:CreateFleet",
    ): "Karpenter's own split: one statement for what is tagged, one for what is not.",
    ("RESOURCE_MISMATCH", "ec2:RunInstances"): "The same.",
    ("RESOURCE_MISMATCH", "ssm:GetParameter"): "Karpenter's own: AWS's public parameters have no account in their ARN.",
    ("RESOURCE_MISMATCH", "states:DescribeExecution"): "parliament knows the ARN of express executions only.",
    ("RESOURCE_MISMATCH", "states:ListExecutions"): "parliament knows the ARN of map runs only.",
    (
        "RESOURCE_STAR",
        "ec2:AssignPrivateIpAddresses",
    ): "Checked before an interface exists (constructs_lib/cluster/way_in.py).",
    ("RESOURCE_STAR", "ec2:CreateNetworkInterface"): "The same.",
    ("RESOURCE_STAR", "ec2:DeleteNetworkInterface"): "The same.",
    ("RESOURCE_STAR", "ec2:UnassignPrivateIpAddresses"): "The same.",
}
"""Finding and action -> why it stays."""


def assert_explained(assembly: Assembly) -> None:
    """No lookup is left to the CLI; cdk-nag, the CDK's own warnings and parliament find nothing."""
    assert "missing" not in json.loads((assembly.folder / "manifest.json").read_text())
    assert assembly.findings == ()
    for kind in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"):
        for name, properties in assembly.templates().properties(kind).items():
            assert findings(properties["PolicyDocument"]) <= set(KNOWN), name


def findings(document: object) -> set[tuple[str, str]]:
    """Kind and action of everything that parliament finds."""
    found = set()
    for finding in parliament.analyze_policy_string(json.dumps(document)).findings:
        details = finding.detail if isinstance(finding.detail, list) else [finding.detail]
        for detail in details or [""]:
            action = detail.get("action", "") if isinstance(detail, dict) else str(detail)
            found.add((finding.issue, action))
    return found


def test_parliament_sees_what_it_should() -> None:
    def policy(**statement: object) -> dict[str, object]:
        return {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Resource": "*", **statement}]}

    assert {issue for issue, _ in findings(policy(Action="s3:GetObjekt"))} == {"UNKNOWN_ACTION"}
    bucket = "arn:aws:s3:::bucket"
    assert findings(policy(Action="s3:GetObject", Resource=bucket)) == {("RESOURCE_MISMATCH", "s3:GetObject")}
    condition = {"StringEquals": {"s3:prefixx": "a"}}
    assert {issue for issue, _ in findings(policy(Action="s3:ListBucket", Resource=bucket, Condition=condition))} == {
        "UNKNOWN_CONDITION_FOR_ACTION"
    }


def test_policies_are_clean(templates: Templates) -> None:
    seen = set()
    for kind in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"):
        for name, properties in templates.properties(kind).items():
            found = findings(properties["PolicyDocument"])
            assert found <= set(KNOWN), (name, found - set(KNOWN))
            seen |= found
    assert seen == set(KNOWN), f"known and gone: {set(KNOWN) - seen}"
