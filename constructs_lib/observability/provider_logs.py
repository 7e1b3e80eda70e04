"""Log groups for the functions that the CDK adds to a stack by itself. Without a group, Lambda makes one that never
expires.
"""

from aws_cdk import CfnResource, RemovalPolicy, Stack
from aws_cdk import aws_logs as logs

from constructs_lib.logs import retention

PROVIDERS = (
    "AWSCDKCfnUtilsProviderCustomResourceProvider",
    "Custom::S3AutoDeleteObjectsCustomResourceProvider",
)
"""The CDK's ids of these functions in a stack: that of CfnJson, and that of buckets that are emptied on deletion."""


def keep_provider_logs(stack: Stack, *, days: int) -> None:
    """Give each of these functions in `stack` a log group of the template. Call it last."""
    for name in PROVIDERS:
        provider = stack.node.try_find_child(name)
        handler = provider.node.find_child("Handler") if provider else None
        if provider is None or not isinstance(handler, CfnResource):
            continue
        group = logs.LogGroup(provider, "Logs", retention=retention(days), removal_policy=RemovalPolicy.DESTROY)
        handler.add_property_override("LoggingConfig", {"LogGroup": group.log_group_name})
