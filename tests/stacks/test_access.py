"""Every call of tests/access by every role, decided by the policies of the templates (tried in tests/rehearsal)."""

import json

import pytest
from specdecode import names

from tests.access.calls import Call
from tests.access.calls_control import CALLS
from tests.access.policies import Statement, allows
from tests.access.principals import BY_AWS, ROLES, Deployed, from_templates, statements_of
from tests.access.trial import grants
from tests.templates import Templates

pytestmark = pytest.mark.synth
REGION = {"aws:RequestedRegion": "us-east-2"}
UNATTACHED = "BackstopNoLaunch"
"""A policy of no role, until the backstop attaches it to Karpenter's."""


@pytest.fixture(scope="module")
def there(templates: Templates) -> Deployed:
    return from_templates(templates)


@pytest.fixture(scope="module")
def policies(templates: Templates) -> dict[str, list[Statement]]:
    return {principal: statements_of(templates, principal) for principal in ROLES}


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.what)
def test_exactly_these_roles_may(call: Call, policies: dict[str, list[Statement]], there: Deployed) -> None:
    resource = call.at(there.places)
    may = {
        principal
        for principal, statements in policies.items()
        if allows(statements, action=call.action, resource=resource, context={**REGION, **call.keys(there.places)})
    }
    assert may == call.may


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.what)
def test_one_statement_more_would_be_seen(call: Call, there: Deployed) -> None:
    """What is asked about is what a policy would have to name: no call is refused for a slip in its ARN or its name."""
    asked = {"action": call.action, "resource": call.at(there.places), "context": call.keys(there.places)}
    exact, others = grants(call, there.places)
    assert allows([exact], **asked)
    assert not any(allows([other], **asked) for other in others)


def test_every_role_is_tried_or_named_as_one_of_aws(templates: Templates) -> None:
    roles = {(stack, name[:-8]) for stack, name, _ in templates.resources("AWS::IAM::Role")}
    ours = {(stack, begin) for stack, begin in ROLES.values()}
    assert ours <= roles
    assert {name for _, name in roles - ours} == BY_AWS


def test_no_statement_is_missed(templates: Templates, policies: dict[str, list[Statement]]) -> None:
    """Policies that are attached to roles of ours, and nothing of them lost."""
    seen = sorted(json.dumps(statement, sort_keys=True) for found in policies.values() for statement in found)
    all_of_them = sorted(
        json.dumps(statement, sort_keys=True)
        for name, statement in templates.statements()
        if not any(begin in name for begin in (*BY_AWS, UNATTACHED) if begin != "NodeRole")
    )
    assert seen == all_of_them


@pytest.mark.parametrize(("pool", "allowed"), [*((pool, False) for pool in names.held_pools(1)), ("staging", True)])
def test_with_the_backstop_s_policy_karpenter_launches_no_instance_of_the_pool(
    templates: Templates, policies: dict[str, list[Statement]], there: Deployed, pool: str, allowed: bool
) -> None:
    closed = [statement for name, statement in templates.statements() if UNATTACHED in name]
    tags = {
        "aws:RequestTag/kubernetes.io/cluster/specdecode": "owned",
        "aws:RequestTag/eks:eks-cluster-name": "specdecode",
        "aws:RequestTag/karpenter.sh/nodepool": pool,
    }
    for action, kind in (("ec2:CreateFleet", "fleet"), ("ec2:RunInstances", "instance")):
        resource = f"arn:aws:ec2:{there.places['region']}:{there.places['account']}:{kind}/x"
        asked = {"action": action, "resource": resource, "context": {**REGION, **tags}}
        assert allows(policies["Karpenter"], **asked)
        assert allows([*policies["Karpenter"], *closed], **asked) is allowed
