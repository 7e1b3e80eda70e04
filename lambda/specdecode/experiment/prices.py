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


@dataclass(frozen=True)
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


SEEN = date(2026, 11, 22)
NODES = "aws.amazon.com/ec2/pricing/on-demand"
COPIED = f"{NODES}; Karpenter 1.14.1's copy of it has the same"
VPC = "aws.amazon.com/vpc/pricing"
CLOUDWATCH = "aws.amazon.com/cloudwatch/pricing"

TRN2_48XLARGE = Price(
    "trn2.48xlarge, on demand or in a Capacity Block",
    35.7608,
    "hour",
    "aws.amazon.com/ec2/capacityblocks/pricing; a copy of the on-demand list of 2025-11-30 has 35.76",
    date(2026, 5, 21),
)
TRN2_48XLARGE_HYDERABAD = Price(
    "trn2.48xlarge in a Capacity Block in ap-south-2",
    35.76,
    "hour",
    "aws.amazon.com/ec2/capacityblocks/pricing, as AWS's API gave it to others on 2026-10-03",
    None,
)
M7I_4XLARGE = Price("m7i.4xlarge, the CPU node that a run holds", 0.8064, "hour", COPIED, date(2026, 8, 21))
M7I_24XLARGE = Price(
    "m7i.24xlarge, the large CPU node that a forecast holds", 4.8384, "hour", COPIED, date(2026, 8, 21)
)
R6ID_24XLARGE = Price(
    "r6id.24xlarge, a CPU node on which artifacts are compiled",
    7.2576,
    "hour",
    f"{NODES}; Karpenter 1.14.1's copy of it, which has us-east-1",
    date(2026, 8, 21),
)
STAGING_FAMILIES = ("m5d", "m6id", "r5d", "r6id")
"""Instance families of the CPU nodes that stage models, count prompts and load servers that already run. None costs
more for each vCPU than the last (Karpenter 1.14.1, zz_generated.pricing_aws.go)."""
STAGING_CPUS = 64
"""Most vCPUs of these nodes, for all runs together."""
STAGING_MOST = Price(
    f"{STAGING_CPUS} vCPUs of r6id, the most that all CPU nodes for staging can cost",
    STAGING_CPUS * R6ID_24XLARGE.usd / 96,
    "hour",
    R6ID_24XLARGE.source,
    R6ID_24XLARGE.seen,
)
_EKS = "aws.amazon.com/eks/pricing"
EKS_CONTROL_PLANE = Price("EKS control plane in standard support", 0.10, "hour and cluster", _EKS, SEEN)
EKS_EXTENDED_SUPPORT = Price(
    "EKS control plane in extended support", 0.60, "hour and cluster", _EKS, date(2026, 11, 23)
)
SYSTEM_NODES = {
    name: Price(f"{name}, a system node", usd, "hour", NODES, SEEN)
    for name, usd in {"m7i.large": 0.1008, "m7i.xlarge": 0.2016, "m7i.2xlarge": 0.4032}.items()
}
SYSTEM_VOLUME = Price("gp3 volume", 0.08, "GB and month", "aws.amazon.com/ebs/pricing", SEEN)
NAT_GATEWAY = Price("NAT gateway", 0.045, "hour", VPC, SEEN)
NAT_TRAFFIC = Price("traffic through a NAT gateway, either way", 0.045, "GB", VPC, SEEN)
PUBLIC_ADDRESS = Price("public IPv4 address", 0.005, "hour", VPC, SEEN)
INTERFACE_ENDPOINT = Price(
    "interface endpoint (and 0.01 per GB)", 0.01, "hour and zone", "aws.amazon.com/privatelink/pricing", SEEN
)
CONTAINER_INSIGHTS = Price(
    "Container Insights with enhanced observability", 0.21, "million observations", CLOUDWATCH, SEEN
)
LOGS = Price("log lines taken in by CloudWatch (and 0.03 per GB and month to keep them)", 0.50, "GB", CLOUDWATCH, SEEN)
ALARM = Price("CloudWatch alarm", 0.10, "month and metric", CLOUDWATCH, SEEN)
METRIC = Price("CloudWatch metric of our own", 0.30, "month", CLOUDWATCH, SEEN)
DASHBOARD = Price("CloudWatch dashboard", 3.0, "month", CLOUDWATCH, SEEN)
KEY = Price("KMS key", 1.0, "month", "aws.amazon.com/kms/pricing", None)
STORAGE = Price("S3 Standard", 0.023, "GB and month", "aws.amazon.com/s3/pricing", SEEN)
STAGING_NODE_LOW = Price("m6id.2xlarge, a CPU node for staging", 0.4746, "hour", NODES, None)
STAGING_NODE_HIGH = Price("m6id.8xlarge, the same where many models are staged at once", 1.8984, "hour", NODES, None)
PRICES = (*(each for each in [*globals().values()] if isinstance(each, Price)), *SYSTEM_NODES.values())
"""The whole table, for docs/reference/costs.md."""
STANDARD_SUPPORT_ENDS = {"1.34": date(2026, 12, 2), "1.35": date(2027, 3, 27)}
"""Kubernetes version -> the day from which EKS bills extended support (docs.aws.amazon.com/eks, 2026-11-23)."""


def extended_support(kubernetes: str) -> str:
    """What EKS bills more for a version, and from which day on. Empty for a version that is not in the table."""
    more = EKS_EXTENDED_SUPPORT.usd - EKS_CONTROL_PLANE.usd
    ends = STANDARD_SUPPORT_ENDS.get(kubernetes)
    return f"EKS bills {kubernetes} ${more:.2f} an hour more from {ends} on" if ends else ""


def control_plane(kubernetes: str | None, today: date) -> Price:
    """The control plane of a cluster of that version today. None: a version in standard support."""
    ends = STANDARD_SUPPORT_ENDS.get(kubernetes or "")
    return EKS_EXTENDED_SUPPORT if ends is not None and today >= ends else EKS_CONTROL_PLANE
