"""The only right that a Lambda function needs to run in a VPC."""

from aws_cdk import aws_iam as iam

from constructs_lib.acknowledgements import acknowledge_wildcards


def allow_network_interfaces(role: iam.Role) -> None:
    """Allow what AWSLambdaVPCAccessExecutionRole allows, without its rights on every log group.

    The resource is `*`: EC2 checks the right before any interface exists, and Describe* has no resource type. But it
    holds only while Lambda itself acts: calls of a function's code carry `lambda:SourceFunctionArn`, calls of the
    service do not (docs.aws.amazon.com/lambda/latest/dg/configuration-vpc.html, where a Deny is written with that key).
    """
    role.add_to_policy(
        iam.PolicyStatement(
            actions=[
                "ec2:CreateNetworkInterface",
                "ec2:DescribeNetworkInterfaces",
                "ec2:DescribeSubnets",
                "ec2:DeleteNetworkInterface",
                "ec2:AssignPrivateIpAddresses",
                "ec2:UnassignPrivateIpAddresses",
            ],
            resources=["*"],
            conditions={"Null": {"lambda:SourceFunctionArn": "true"}},
        )
    )
    acknowledge_wildcards(
        role, "*", reason="EC2 checks a Lambda's interface rights before an interface exists that could be named."
    )
