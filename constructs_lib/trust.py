"""Trust in an AWS service, for resources of this account and region only."""

from aws_cdk import Aws, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct


def for_this_account(scope: Construct, service: str, *, resources: str, arn_of: str = "") -> iam.IPrincipal:
    """`service` as a principal, but only when it acts for `resources` of this account and region.

    Without that condition a resource of another account could make the service use the role: the service would be a
    confused deputy (docs.aws.amazon.com/IAM/latest/UserGuide/confused-deputy.html). `resources` is the end of their
    ARN, with `*` for names that are not known yet. `arn_of` is the service's name in the ARN, if it differs.
    """
    stack = Stack.of(scope)
    source = f"arn:{Aws.PARTITION}:{arn_of or service}:{stack.region}:{Aws.ACCOUNT_ID}:{resources}"
    return iam.ServicePrincipal(
        f"{service}.amazonaws.com",
        conditions={"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}, "ArnLike": {"aws:SourceArn": source}},
    )
