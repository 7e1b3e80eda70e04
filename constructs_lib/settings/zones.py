"""Regions that this project knows, with their availability zones by id. Nothing here imports CDK.

Ids are used, not names: the zone of the name `us-east-2a` differs between accounts, and EKS refuses zones by id
(docs.aws.amazon.com/global-infrastructure/latest/regions/az-ids.html).
"""

import re

from specdecode.experiment.deployment_facts import EKS_REFUSES

REGION_ZONES: dict[str, tuple[str, ...]] = {
    "us-east-1": ("use1-az1", "use1-az2", "use1-az4"),
    "us-east-2": ("use2-az1", "use2-az2", "use2-az3"),
    "us-west-2": ("usw2-az1", "usw2-az2", "usw2-az3"),
    "ap-southeast-4": ("apse4-az1", "apse4-az2", "apse4-az3"),
}
"""Region -> the three zones that its network takes. The synth asks nobody for them."""

WITHOUT_BUDGETS = ("ap-southeast-4",)
"""Regions whose CloudFormation has no AWS::Budgets::Budget (resource specification, by cfn-lint: E3006)."""

_ID = re.compile(r"[a-z]{2,6}\d-az\d+")
_NAME = re.compile(r"[a-z]{2}(-[a-z]+)+-\d[a-z]")


def problem_of(zone: str, *, region: str) -> str | None:
    """Why `zone` cannot be a zone of the network in `region`. None if it can."""
    if _NAME.fullmatch(zone):
        return (
            f"{zone} is a zone's name, which differs between accounts; give its id: `aws ec2 "
            f"describe-availability-zones --region {region} --query 'AvailabilityZones[].[ZoneName,ZoneId]'`"
        )
    if not _ID.fullmatch(zone):
        return f"{zone} is not a zone id such as use2-az1"
    if zone in EKS_REFUSES:
        return f"{zone} takes no subnet of an EKS cluster"
    known = REGION_ZONES.get(region)
    if known and zone.partition("-")[0] != known[0].partition("-")[0]:
        return f"{zone} is not in {region}"
    return None
