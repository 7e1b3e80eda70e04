"""Karpenter's CloudFormation template: the controller's rights, the queue and the events, one by one."""

import json
import re
from pathlib import PurePosixPath
from typing import Any

import pytest
import yaml

from tests.templates import PSEUDO, Templates, as_list
from tests.upstream.conftest import Upstream

pytestmark = pytest.mark.synth
Json = dict[str, Any]

PATH = "website/content/en/v1.14/getting-started/getting-started-with-karpenter/cloudformation.yaml"
LEFT_OUT = {"ZonalShiftPolicy": "settings.enableZonalShift is off: Karpenter makes none of its calls"}
"""Policies of the template that the stacks do not have, each with its reason."""
CLUSTER = "specdecode"


class _Loader(yaml.SafeLoader):
    """CloudFormation's short forms as their long ones."""


def _short(loader: _Loader, suffix: str, node: yaml.Node) -> Json:
    assert isinstance(node, yaml.ScalarNode)
    name = suffix if suffix in ("Ref", "Condition") else f"Fn::{suffix}"
    return {name: node.value.split(".") if suffix == "GetAtt" else node.value}


_Loader.add_multi_constructor("!", _short)


def template(upstream: Upstream) -> Json:
    return yaml.load(upstream.text("karpenter-docs", PATH), _Loader)["Resources"]


def resolved(value: Any, known: dict[str, str]) -> Any:
    """With `${…}`, Ref and GetAtt replaced by what they are here."""
    match value:
        case {"Fn::Sub": str() as text}:
            return re.sub(r"\$\{([^}]+)\}", lambda found: known[found[1]], text)
        case {"Ref": str() as name}:
            return known[name]
        case {"Fn::GetAtt": list() as parts}:
            return known[".".join(parts)]
        case dict():
            return {key: resolved(item, known) for key, item in value.items()}
        case list():
            return [resolved(item, known) for item in value]
    return value


def comparable(statement: Json) -> Json:
    """A statement as sets: in which order and whether as a list its parts are written says nothing."""
    conditions = {
        operator: {key: sorted(str(value) for value in as_list(values)) for key, values in keys.items()}
        for operator, keys in statement.get("Condition", {}).items()
    }
    return {
        "effect": statement["Effect"],
        "actions": sorted(as_list(statement["Action"])),
        "resources": sorted(as_list(statement["Resource"])),
        "conditions": conditions,
        "other": sorted(set(statement) - {"Sid", "Effect", "Action", "Resource", "Condition"}),
    }


def ours(templates: Templates) -> dict[str, Json]:
    found: dict[str, Json] = {}
    for name, statement in templates.statements():
        if "Karpenter" in name:
            assert statement["Sid"] not in found
            found[statement["Sid"]] = comparable(statement)
    return found


def test_the_controllers_rights(upstream: Upstream, templates: Templates) -> None:
    """Every statement of Karpenter's policies: effect, actions, resources and conditions; no statement more or less."""
    mine = ours(templates)
    (role,) = mine["AllowPassingInstanceRole"]["resources"]
    (queue,) = mine["AllowInterruptionQueueActions"]["resources"]
    known = {str(key): str(value) for key, value in PSEUDO.items()} | {
        "ClusterName": CLUSTER,
        "KarpenterNodeRole.Arn": role,
        "KarpenterInterruptionQueue.Arn": queue,
    }
    theirs = {}
    for name, resource in template(upstream).items():
        if resource["Type"] == "AWS::IAM::ManagedPolicy" and name not in LEFT_OUT:
            document = json.loads(resolved(resource["Properties"]["PolicyDocument"], known))
            theirs |= {statement["Sid"]: comparable(statement) for statement in document["Statement"]}
    assert len(theirs) > 15
    assert mine == theirs


def test_the_policies_that_are_left_out(upstream: Upstream) -> None:
    """Each policy that is left out is one of the template's, and is for zonal shift only."""
    resources = template(upstream)
    for name in LEFT_OUT:
        text = resources[name]["Properties"]["PolicyDocument"]["Fn::Sub"]
        actions = {action for part in _statements(text) for action in as_list(part["Action"])}
        assert {action.split(":")[0] for action in actions} == {"arc-zonal-shift"}, actions


def _statements(text: str) -> list[Json]:
    return list(json.loads(re.sub(r"\$\{[^}]+\}", "x", text))["Statement"])


def test_the_nodes_rights(upstream: Upstream, templates: Templates) -> None:
    """The node role has the managed policies of the template's."""
    role = template(upstream)["KarpenterNodeRole"]["Properties"]
    theirs = {PurePosixPath(str(arn["Fn::Sub"])).name for arn in role["ManagedPolicyArns"]}
    (mine,) = (
        {PurePosixPath(arn).name for arn in properties["ManagedPolicyArns"]}
        for name, properties in templates.properties("AWS::IAM::Role").items()
        if name.startswith("TrainiumClusterStack/NodeRole")
    )
    assert mine == theirs


def test_the_events_reach_the_queue(upstream: Upstream, templates: Templates) -> None:
    """The interruption queue and its events: the rules' patterns, retention, encryption, and nobody without TLS."""
    resources = template(upstream)
    theirs = sorted(
        json.dumps(resource["Properties"]["EventPattern"], sort_keys=True)
        for resource in resources.values()
        if resource["Type"] == "AWS::Events::Rule"
    )
    mine = sorted(
        json.dumps(properties["EventPattern"], sort_keys=True)
        for name, properties in templates.properties("AWS::Events::Rule").items()
        if "/Interruption" in name
    )
    assert mine == theirs
    queue = resources["KarpenterInterruptionQueue"]["Properties"]
    (own,) = (
        properties
        for name, properties in templates.properties("AWS::SQS::Queue").items()
        if name.startswith("TrainiumClusterStack/Interruption")
    )
    assert (own["MessageRetentionPeriod"], own["SqsManagedSseEnabled"]) == (
        queue["MessageRetentionPeriod"],
        queue["SqsManagedSseEnabled"],
    )
    (policy,) = (
        properties["PolicyDocument"]["Statement"]
        for name, properties in templates.properties("AWS::SQS::QueuePolicy").items()
        if name.startswith("TrainiumClusterStack/Interruption")
    )
    (refused,) = (statement for statement in policy if statement["Effect"] == "Deny")
    assert (refused["Action"], refused["Condition"]) == ("sqs:*", {"Bool": {"aws:SecureTransport": "false"}})
    senders = [statement for statement in policy if "sqs:SendMessage" in as_list(statement["Action"])]
    assert len(senders) == len(mine)
    assert {statement["Principal"]["Service"] for statement in senders} == {"events.amazonaws.com"}
