"""The VPC: yours, or one that is made. A VPC that is made has nodes behind NAT, a gateway endpoint for S3, and flow
logs.
"""

from aws_cdk import RemovalPolicy
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

from constructs_lib.acknowledgements import acknowledge, acknowledge_warning
from constructs_lib.logs import retention
from constructs_lib.settings.fields import Settings
from constructs_lib.trust import for_this_account

_SERVICES = {
    "sts": ec2.InterfaceVpcEndpointAwsService.STS,
    "logs": ec2.InterfaceVpcEndpointAwsService.CLOUDWATCH_LOGS,
    "monitoring": ec2.InterfaceVpcEndpointAwsService.CLOUDWATCH_MONITORING,
    "ec2": ec2.InterfaceVpcEndpointAwsService.EC2,
    "sqs": ec2.InterfaceVpcEndpointAwsService.SQS,
    "states": ec2.InterfaceVpcEndpointAwsService.STEP_FUNCTIONS,
    "lambda": ec2.InterfaceVpcEndpointAwsService.LAMBDA_,
}


class Network(Construct):
    """With `vpc_id` in the settings: that VPC and its subnets, and no resource at all. Its owner decides about routes,
    endpoints and flow logs. Nothing is looked up: the settings hold all that a template needs (ADR 181).

    Without: a public and a private subnet in every zone. The settings name zones by their ids, and the stack's
    `availability_zones` returns these ids, so that no lookup is needed. CloudFormation takes an id in another property
    of a subnet than a name (AvailabilityZoneId). Each private subnet has a quarter of the address range, because the
    VPC CNI gives every pod an address.
    """

    def __init__(self, scope: Construct, id: str, *, settings: Settings) -> None:
        super().__init__(scope, id)
        if settings.vpc_id:
            self.vpc = ec2.Vpc.from_vpc_attributes(
                self,
                "Vpc",
                vpc_id=settings.vpc_id,
                availability_zones=list(settings.zones),
                private_subnet_ids=list(settings.subnet_ids),
            )
            acknowledge_warning(
                self, "@aws-cdk/aws-ec2:noSubnetRouteTableId", reason="No route is made in a VPC that is not ours."
            )
        else:
            self.vpc = self._made(settings)

    def _made(self, settings: Settings) -> ec2.Vpc:
        prefix = int(settings.vpc_cidr.rpartition("/")[2])
        vpc = ec2.Vpc(
            self,
            "Vpc",
            ip_addresses=ec2.IpAddresses.cidr(settings.vpc_cidr),
            availability_zones=list(settings.zones),
            nat_gateways=min(settings.nat_gateways, len(settings.zones)),
            subnet_configuration=[
                ec2.SubnetConfiguration(name="public", subnet_type=ec2.SubnetType.PUBLIC, cidr_mask=prefix + 6),
                ec2.SubnetConfiguration(
                    name="private", subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS, cidr_mask=prefix + 2
                ),
            ],
            gateway_endpoints={
                "S3": ec2.GatewayVpcEndpointOptions(service=ec2.GatewayVpcEndpointAwsService.S3),
            },
        )
        for subnets in (vpc.public_subnets, vpc.private_subnets):
            for subnet, zone in zip(subnets, settings.zones, strict=True):
                cfn = _cfn(subnet)
                cfn.availability_zone, cfn.availability_zone_id = None, zone
        for subnet in vpc.public_subnets:
            _cfn(subnet).map_public_ip_on_launch = False
        vpc.add_flow_log(
            "FlowLog",
            destination=ec2.FlowLogDestination.to_cloud_watch_logs(
                logs.LogGroup(
                    self,
                    "FlowLogs",
                    retention=retention(settings.log_retention_days),
                    removal_policy=RemovalPolicy.DESTROY,
                ),
                iam.Role(
                    self,
                    "FlowLogRole",
                    # docs.aws.amazon.com/vpc/latest/userguide/flow-logs-iam-role.html
                    assumed_by=for_this_account(self, "vpc-flow-logs", arn_of="ec2", resources="vpc-flow-log/*"),
                ),
            ),
        )
        for name in settings.interface_endpoints:
            endpoint = vpc.add_interface_endpoint(f"{name.capitalize()}Endpoint", service=_SERVICES[name])
            acknowledge(
                endpoint, "EC23", reason="Open to the VPC's own range only; cdk-nag cannot read it, it is a reference."
            )
        return vpc


def _cfn(subnet: ec2.ISubnet) -> ec2.CfnSubnet:
    found = subnet.node.default_child
    assert isinstance(found, ec2.CfnSubnet)  # noqa: S101 - narrows the type
    return found
