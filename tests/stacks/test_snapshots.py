"""The templates, construct by construct: a change shows as the diff of the one file that it belongs to."""

import json
from collections import Counter
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.json import JSONSnapshotExtension

from tests.conftest import STACKS, Assembly

pytestmark = pytest.mark.synth

CONSTRUCTS = {
    "TrainiumClusterStack": (
        "Addons",
        "Cpu",
        "Eks",
        "GuardAccess",
        "Guards",
        "Interruption",
        "Karpenter",
        "LargeCpu",
        "Network",
        "NeuronDra",
        "NodeAccess",
        "NodeRole",
        "Observability",
        "Settings",
        "Staging",
        "Trainium",
    ),
    "SpecDecodeStack": (
        "Alerts",
        "Artifacts",
        "Backstop",
        "Claims",
        "Dashboard",
        "Guards",
        "Pipeline",
        "PodRoles",
        "ResultAlarms",
        "ServiceAccounts",
        "Settings",
        "Volumes",
        "Workspace",
    ),
}
DOCUMENTS = ("DefinitionString", "DashboardBody")
"""Properties that are JSON in a string. A snapshot has them as JSON, a key a line."""
OF_CDK = ("AWSCDK", "CustomS3", "CDKMetadata")
"""Resources that the CDK adds to a stack by itself."""


class Readable(JSONSnapshotExtension):
    """Resources as JSON, with the documents in them parsed."""

    def serialize(self, data: Any, **given: Any) -> Any:
        return super().serialize(_parsed(data), **given)


def _parsed(value: Any) -> Any:
    """The template's value, its documents as JSON. What CloudFormation fills in stands in them as ${…}."""
    if isinstance(value, list):
        return [_parsed(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {key: json.loads(_text(item)) if key in DOCUMENTS else _parsed(item) for key, item in value.items()}


def _text(value: Any) -> str:
    """The string that `value` makes of itself in CloudFormation."""
    if isinstance(value, str):
        return value
    ((function, given),) = value.items()
    if function == "Fn::Join":
        separator, parts = given
        return str(separator).join(map(_text, parts))
    return f"${{{given if isinstance(given, str) else '.'.join(given)}}}"


def _part(template: dict[str, Any], construct: str, others: tuple[str, ...]) -> dict[str, Any]:
    """The resources of `construct`: those whose logical id begins with its id, and with no longer one."""
    longer = tuple(name for name in others if name.startswith(construct) and name != construct)
    return {
        name: resource
        for name, resource in template["Resources"].items()
        if name.startswith(construct) and not (longer and name.startswith(longer))
    }


@pytest.mark.parametrize(("stack", "construct"), [(s, c) for s, many in CONSTRUCTS.items() for c in many])
def test_construct(assembly: Assembly, snapshot: SnapshotAssertion, stack: str, construct: str) -> None:
    resources = _part(assembly.template(stack), construct, CONSTRUCTS[stack])
    assert resources
    assert resources == snapshot(extension_class=Readable)


@pytest.mark.parametrize("stack", STACKS)
def test_stack(assembly: Assembly, snapshot: SnapshotAssertion, stack: str) -> None:
    template = assembly.template(stack)
    summary = {
        "resources": dict(sorted(Counter(item["Type"] for item in template["Resources"].values()).items())),
        "outputs": {k: v for k, v in template.get("Outputs", {}).items() if "Export" not in v},
    }
    assert summary == snapshot(extension_class=JSONSnapshotExtension)


@pytest.mark.parametrize("stack", STACKS)
def test_every_resource_is_in_a_construct_of_the_list(assembly: Assembly, stack: str) -> None:
    for name in assembly.template(stack)["Resources"]:
        assert name.startswith((*CONSTRUCTS[stack], *OF_CDK)), name
