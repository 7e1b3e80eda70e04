"""How many of a stack's custom resources CloudFormation makes at once.

Why it is so: ADR 40.
"""

from __future__ import annotations

from functools import cache

from aws_cdk import CfnResource, Stack
from constructs import IConstruct

WIDTH = 4
"""Custom resources of a stack that CloudFormation makes at once.

For each object that kubectl or Helm applies, two functions run: CDK's framework and its handler. A new account may run
no more than 10 functions at once (docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html). Lambda repeats a
refused call of the framework, but nothing repeats that of the handler: TooManyRequestsException
(one-observability-demo#175).
"""


def put_in_lanes(stack: Stack) -> None:
    """Let each custom resource of `stack` wait for the fourth one before it, so that at most four are made at once.
    Call it last.

    The resources keep the order in which they were written, each after those it depends on. So no circle can arise.
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
