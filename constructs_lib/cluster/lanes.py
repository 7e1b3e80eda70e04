"""How many of a stack's custom resources CloudFormation makes at once.

Why it is so: ADR 40.
"""

from __future__ import annotations

from functools import cache

from aws_cdk import CfnResource, Stack
from constructs import IConstruct

WIDTH = 4
"""Two functions run for each object that kubectl or Helm applies (CDK's framework and its handler), and a new account
may have no more than 10 at once (docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html). Lambda repeats the
call of the framework, and nobody that of the handler: TooManyRequestsException (one-observability-demo#175)."""


def put_in_lanes(stack: Stack) -> None:
    """Let each custom resource of `stack` wait for the fourth before it: at most four are made at once. Call it last.

    They stand in the order in which they were written, each after what it depends on, so that no circle comes of it.
    """
    ordered: list[CfnResource] = []
    seen: set[str] = set()

    @cache
    def needs(scope: IConstruct) -> list[IConstruct]:
        return [below for root in scope.node.dependencies for below in root.node.find_all()]

    def visit(construct: IConstruct) -> None:
        path = construct.node.path
        if path in seen or not path.startswith(f"{stack.node.path}/"):
            return
        seen.add(path)
        for scope in construct.node.scopes:  # what a construct depends on, all in it depends on
            for need in needs(scope):
                visit(need)
        if isinstance(construct, CfnResource) and construct.cfn_resource_type.startswith("Custom::"):
            ordered.append(construct)

    for construct in stack.node.find_all():
        visit(construct)
    for first, then in zip(ordered, ordered[WIDTH:], strict=False):
        then.add_resource_dependency(first)
