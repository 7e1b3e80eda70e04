"""How many of a stack's custom resources CloudFormation makes at once.

Why it is so: ADR 40.
"""

from functools import cache
from itertools import accumulate

from aws_cdk import CfnResource, Stack

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
    # Each look at a construct is a call of the Node process, so each construct is asked for its path only once.
    inside = {construct.node.path: construct for construct in stack.node.find_all()[1:]}

    @cache
    def needs(scope: str) -> list[str]:
        roots = [root.node.path for root in inside[scope].node.dependencies] if scope in inside else []
        return [path for root in roots for path in inside if path == root or path.startswith(f"{root}/")]

    def visit(path: str) -> None:
        if path in seen:
            return
        seen.add(path)
        for scope in accumulate(path.split("/"), "{}/{}".format):  # what a construct depends on, all in it depends on
            for need in needs(scope):
                visit(need)
        construct = inside[path]
        if isinstance(construct, CfnResource) and construct.cfn_resource_type.startswith("Custom::"):
            ordered.append(construct)

    for path in inside:
        visit(path)
    for first, then in zip(ordered, ordered[WIDTH:], strict=False):
        then.add_resource_dependency(first)
