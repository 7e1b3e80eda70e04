"""Log retention: settings count days, CloudWatch Logs knows a list of them; and the groups that AWS makes by itself."""

from aws_cdk import aws_logs as logs

_BY_DAYS = {
    1: "ONE_DAY",
    3: "THREE_DAYS",
    5: "FIVE_DAYS",
    7: "ONE_WEEK",
    14: "TWO_WEEKS",
    30: "ONE_MONTH",
    60: "TWO_MONTHS",
    90: "THREE_MONTHS",
    120: "FOUR_MONTHS",
    150: "FIVE_MONTHS",
    180: "SIX_MONTHS",
    365: "ONE_YEAR",
    400: "THIRTEEN_MONTHS",
    545: "EIGHTEEN_MONTHS",
    731: "TWO_YEARS",
    1096: "THREE_YEARS",
    1827: "FIVE_YEARS",
    2192: "SIX_YEARS",
    2557: "SEVEN_YEARS",
    2922: "EIGHT_YEARS",
    3288: "NINE_YEARS",
}


def retention(days: int) -> logs.RetentionDays:
    """The CDK's constant for `days`, which must be one of the retentions that CloudWatch Logs takes."""
    return logs.RetentionDays[_BY_DAYS[days]]


def made_by_aws(cluster_name: str) -> list[str]:
    """Log groups that EKS and the agents of Container Insights write to. If a group is missing, they make it."""
    insights = [f"/aws/containerinsights/{cluster_name}/{name}" for name in _INSIGHTS]
    return [f"/aws/eks/{cluster_name}/cluster", *insights]


_INSIGHTS = ("application", "dataplane", "host", "performance")
