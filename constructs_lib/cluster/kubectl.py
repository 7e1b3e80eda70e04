"""CDK's kubectl provider: the two functions that apply Kubernetes objects during a deployment."""

import json

from aws_cdk import Aws, Fn, RemovalPolicy, Size, Stack
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import IConstruct

from constructs_lib.acknowledgements import acknowledge, acknowledge_managed, acknowledge_wildcards
from constructs_lib.settings.fields import Settings

MEMORY = Size.gibibytes(2)
"""Memory of the function that runs kubectl and Helm."""


def settle(provider: IConstruct, *, settings: Settings) -> list[logs.CfnLogGroup]:
    """Give the functions of `provider` our log retention and acknowledge the policies that the CDK writes. Returns
    their log groups.

    If a manifest is applied before its function's group exists, Lambda makes a group without retention.
    """
    groups = [construct for construct in provider.node.find_all() if isinstance(construct, logs.CfnLogGroup)]
    for construct in groups:
        construct.retention_in_days = settings.log_retention_days
        construct.apply_removal_policy(RemovalPolicy.DESTROY)
    by_cdk = "Written by CDK's kubectl provider, which offers no choice of policies."
    acknowledge_managed(
        provider,
        "AmazonEC2ContainerRegistryReadOnly",
        "service-role/AWSLambdaBasicExecutionRole",
        "service-role/AWSLambdaVPCAccessExecutionRole",
        reason=by_cdk,
    )
    handler = provider.node.find_child("Handler")
    assert isinstance(handler, lambda_.Function)  # noqa: S101 - narrows the type
    acknowledge_wildcards(provider, f"{handler.function_arn}:*", reason=by_cdk)
    public = Stack.of(provider).resolve(
        Fn.condition_if(
            handler.node.find_child("HasEcrPublic").logical_id,
            f"arn:{Aws.PARTITION}:iam::aws:policy/AmazonElasticContainerRegistryPublicReadOnly",
            Aws.NO_VALUE,
        )
    )
    acknowledge(handler, f"IAM4[Policy::{json.dumps(public, separators=(',', ':'))}]", reason=by_cdk)
    acknowledge(provider, "L1", reason="The handler's runtime is CDK's; it moves with the pinned aws-cdk-lib.")
    return groups
