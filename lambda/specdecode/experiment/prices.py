"""All prices of plans, stacks' outputs and documents. There is no other table.

List prices of us-east-2 in US dollars. No program looks a price up: correct it here. For the node, the setting
`price_per_node_hour` replaces the price here. `seen`: when a price was last compared with a public copy of AWS's page.

Why it is so: ADR 113.
"""

from dataclasses import dataclass
from datetime import date

HOURS_A_MONTH = 730
"""As AWS counts a month in its examples: 365 * 24 / 12."""
GB_PER_GIB = 1.073741824
"""AWS bills traffic and storage by the GB of 10^9 bytes in its tables; models are given in GiB."""


@dataclass(frozen=True, kw_only=True)
class Price:
    """AWS's price of one unit."""

    what: str
    usd: float
    unit: str
    """What `usd` buys, after "per": `hour`, `GB`, `GB and month`."""
    source: str
    """Page of AWS with the price."""
    seen: date | None
    """None: written from memory; compare it with the page before you rely on it."""


TRN2_48XLARGE = Price(
    what="trn2.48xlarge, on demand or in a Capacity Block",
    usd=35.7608,
    unit="hour",
    source="aws.amazon.com/ec2/capacityblocks/pricing; a copy of the on-demand list of 2025-11-30 has 35.76",
    seen=date(2026, 5, 21),
)
TRN2_48XLARGE_HYDERABAD = Price(
    what="trn2.48xlarge in a Capacity Block in ap-south-2",
    usd=35.76,
    unit="hour",
    source="aws.amazon.com/ec2/capacityblocks/pricing, as AWS's API gave it to others on 2026-10-03",
    seen=None,
)
M7I_4XLARGE = Price(
    what="m7i.4xlarge, the CPU node that a run holds",
    usd=0.8064,
    unit="hour",
    source="aws.amazon.com/ec2/pricing/on-demand; Karpenter 1.14.1's copy of it has the same",
    seen=date(2026, 8, 21),
)
M7I_24XLARGE = Price(
    what="m7i.24xlarge, the large CPU node that a forecast holds",
    usd=4.8384,
    unit="hour",
    source="aws.amazon.com/ec2/pricing/on-demand; Karpenter 1.14.1's copy of it has the same",
    seen=date(2026, 8, 21),
)
R6ID_24XLARGE = Price(
    what="r6id.24xlarge, a CPU node on which artifacts are compiled",
    usd=7.2576,
    unit="hour",
    source="aws.amazon.com/ec2/pricing/on-demand; Karpenter 1.14.1's copy of it, which has us-east-1",
    seen=date(2026, 8, 21),
)
EKS_CONTROL_PLANE = Price(
    what="EKS control plane in standard support",
    usd=0.10,
    unit="hour and cluster",
    source="aws.amazon.com/eks/pricing",
    seen=date(2026, 11, 22),
)
EKS_EXTENDED_SUPPORT = Price(
    what="EKS control plane in extended support",
    usd=0.60,
    unit="hour and cluster",
    source="aws.amazon.com/eks/pricing",
    seen=date(2026, 11, 23),
)
STANDARD_SUPPORT_ENDS = {"1.34": date(2026, 12, 2), "1.35": date(2027, 3, 27)}
"""Kubernetes version -> the day from which EKS bills extended support (docs.aws.amazon.com/eks, "Understand the
Kubernetes version lifecycle", 2026-11-23).
"""


def control_plane(kubernetes: str | None, today: date) -> Price:
    """The control plane of a cluster of that version today. None: a version in standard support."""
    ends = STANDARD_SUPPORT_ENDS.get(kubernetes or "")
    return EKS_EXTENDED_SUPPORT if ends is not None and today >= ends else EKS_CONTROL_PLANE


SYSTEM_NODES = {
    name: Price(
        what=f"{name}, a system node",
        usd=usd,
        unit="hour",
        source="aws.amazon.com/ec2/pricing/on-demand",
        seen=date(2026, 11, 22),
    )
    for name, usd in {"m7i.large": 0.1008, "m7i.xlarge": 0.2016, "m7i.2xlarge": 0.4032}.items()
}
SYSTEM_VOLUME = Price(
    what="gp3 volume",
    usd=0.08,
    unit="GB and month",
    source="aws.amazon.com/ebs/pricing",
    seen=date(2026, 11, 22),
)
STAGING_NODE_LOW = Price(
    what="m6id.2xlarge, a CPU node for staging",
    usd=0.4746,
    unit="hour",
    source="aws.amazon.com/ec2/pricing/on-demand",
    seen=None,
)
STAGING_NODE_HIGH = Price(
    what="m6id.8xlarge, the same where many models are staged at once",
    usd=1.8984,
    unit="hour",
    source="aws.amazon.com/ec2/pricing/on-demand",
    seen=None,
)
NAT_GATEWAY = Price(
    what="NAT gateway",
    usd=0.045,
    unit="hour",
    source="aws.amazon.com/vpc/pricing",
    seen=date(2026, 11, 22),
)
NAT_TRAFFIC = Price(
    what="traffic through a NAT gateway, either way",
    usd=0.045,
    unit="GB",
    source="aws.amazon.com/vpc/pricing",
    seen=date(2026, 11, 22),
)
PUBLIC_ADDRESS = Price(
    what="public IPv4 address",
    usd=0.005,
    unit="hour",
    source="aws.amazon.com/vpc/pricing",
    seen=date(2026, 11, 22),
)
INTERFACE_ENDPOINT = Price(
    what="interface endpoint (and 0.01 per GB)",
    usd=0.01,
    unit="hour and zone",
    source="aws.amazon.com/privatelink/pricing",
    seen=date(2026, 11, 22),
)
CONTAINER_INSIGHTS = Price(
    what="Container Insights with enhanced observability",
    usd=0.21,
    unit="million observations",
    source="aws.amazon.com/cloudwatch/pricing",
    seen=date(2026, 11, 22),
)
LOGS = Price(
    what="log lines taken in by CloudWatch (and 0.03 per GB and month to keep them)",
    usd=0.50,
    unit="GB",
    source="aws.amazon.com/cloudwatch/pricing",
    seen=date(2026, 11, 22),
)
ALARM = Price(
    what="CloudWatch alarm",
    usd=0.10,
    unit="month and metric",
    source="aws.amazon.com/cloudwatch/pricing",
    seen=date(2026, 11, 22),
)
METRIC = Price(
    what="CloudWatch metric of our own",
    usd=0.30,
    unit="month",
    source="aws.amazon.com/cloudwatch/pricing",
    seen=date(2026, 11, 22),
)
DASHBOARD = Price(
    what="CloudWatch dashboard",
    usd=3.0,
    unit="month",
    source="aws.amazon.com/cloudwatch/pricing",
    seen=date(2026, 11, 22),
)
KEY = Price(
    what="KMS key",
    usd=1.0,
    unit="month",
    source="aws.amazon.com/kms/pricing",
    seen=None,
)
STORAGE = Price(
    what="S3 Standard",
    usd=0.023,
    unit="GB and month",
    source="aws.amazon.com/s3/pricing",
    seen=date(2026, 11, 22),
)

PRICES = (
    TRN2_48XLARGE,
    TRN2_48XLARGE_HYDERABAD,
    M7I_4XLARGE,
    M7I_24XLARGE,
    R6ID_24XLARGE,
    EKS_CONTROL_PLANE,
    EKS_EXTENDED_SUPPORT,
    *SYSTEM_NODES.values(),
    SYSTEM_VOLUME,
    NAT_GATEWAY,
    NAT_TRAFFIC,
    PUBLIC_ADDRESS,
    INTERFACE_ENDPOINT,
    CONTAINER_INSIGHTS,
    LOGS,
    ALARM,
    METRIC,
    DASHBOARD,
    KEY,
    STORAGE,
    STAGING_NODE_LOW,
    STAGING_NODE_HIGH,
)
"""The whole table, for docs/reference/costs.md."""
