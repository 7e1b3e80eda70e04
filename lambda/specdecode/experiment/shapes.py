"""Shapes of nodes: sizes, regions and price of each instance type. They stand nowhere else.

A new shape is an entry here. Sizes are those that pods can have: Karpenter 1.14.1's reference of instance types
(website/content/en/docs/reference/instance-types.md), or its formula where that page lacks the type.
"""

import difflib
from dataclasses import dataclass, field

from specdecode import names
from specdecode.experiment import prices
from specdecode.experiment.prices import Price

CORES_PER_DEVICE = 8
"""Physical NeuronCores of a Trainium2 device."""
HBM_GIB_PER_DEVICE = 96
HOME = "us-east-2"
"""Region whose list prices are used if a region has no price of its own here."""


@dataclass(frozen=True, kw_only=True)
class NodeShape:
    """The facts about an instance type that experiments, plans, stacks and rules need."""

    name: str
    """EC2's name of the instance type."""
    pool: str
    """Kind of its nodes, and first of the Karpenter NodePools that launch them (names.held_pools)."""
    vcpus: int
    """vCPUs, as AWS's quotas count them."""
    cpu: float
    """CPUs that pods can have."""
    memory_gib: float
    """Memory that pods can have."""
    disk_gib: float
    """Local disk that pods can have, less the images, the system and the kubelet's eviction threshold."""
    root_gib: int
    """Size of the root volume."""
    link_gbps: float
    """Gbit/s that one mount may ask S3 for: half of a network card, since two mounts share one."""
    devices: int = 0
    """Neuron devices; 0 on an ordinary CPU node."""
    claims: tuple[int, ...] = ()
    """How many devices an arm can claim: each number has a ResourceClaimTemplate. A claim has devices of one group."""
    efa_cards: int = 0
    """Network cards that can have an EFA interface, if the native plugin finds one for each device by its PCI address
    (vllm_neuron/utils/hardware_config.py has a table of the large nodes alone)."""
    has_nvme: bool = False
    """Whether it has disks of its own."""
    zones: dict[str, tuple[str, ...]] | None = field(default_factory=dict)
    """Region -> ids of the zones in which it was seen. None: AWS sells it in every region of this project."""
    prices: dict[str, Price] = field(default_factory=dict)
    """Region -> price of an hour. We know no published price for a region that is missing."""
    source: str

    @property
    def has_devices(self) -> bool:
        return self.devices > 0

    def price_in(self, region: str) -> Price | None:
        """The published price of an hour in `region`. An ordinary CPU node without one has the home region's. None: AWS
        publishes none, and the user must give the price that they pay.
        """
        return self.prices.get(region) or (None if self.has_devices else self.prices.get(HOME))


_ALL_OF_OHIO = ("use2-az1", "use2-az2", "use2-az3")
_ALL_OF_MELBOURNE = ("apse4-az1", "apse4-az2", "apse4-az3")
TRN2 = NodeShape(
    name="trn2.48xlarge",
    pool=names.NODEPOOL,
    vcpus=192,
    cpu=191.45,
    memory_gib=1938410 / 1024,
    disk_gib=2600,  # of a 3000 GiB root volume; its own disks have 7,600 GB
    root_gib=100,
    link_gbps=100,  # 16 cards, 3,200 Gbit/s together (zz_generated.bandwidth.go); pods use the first only
    devices=16,
    claims=(1, 4, 8, 16),
    efa_cards=16,
    has_nvme=True,
    zones={"us-east-2": _ALL_OF_OHIO, "ap-southeast-4": _ALL_OF_MELBOURNE},
    prices={"us-east-2": prices.TRN2_48XLARGE, "ap-south-2": prices.TRN2_48XLARGE_HYDERABAD},
    source="Karpenter 1.14.1, instance types; aws.amazon.com/ec2/instance-types/trn2",
)
TRN2_SMALL = NodeShape(
    name="trn2.3xlarge",
    pool=names.NODEPOOL,
    vcpus=12,
    # Karpenter's page lacks it. By its formula 60m, 10m, 2 x 5m and 2.5m a further core are kept of the CPUs; 7.5 % of
    # the memory, 255 Mi, 11 Mi a pod (234 at most, assumed) and 100 Mi (pkg/providers/instancetype/types.go).
    cpu=11.9,
    memory_gib=118312 / 1024,
    disk_gib=350,  # of 470 GB
    root_gib=100,
    link_gbps=100,  # one card of 200 Gbit/s (zz_generated.bandwidth.go)
    devices=1,
    claims=(1,),
    has_nvme=True,
    zones={"ap-southeast-4": _ALL_OF_MELBOURNE},
    source="Neuron's page on Trainium2 and AWS API readings of 2026-10-03 in public notes: also seen in sa-east-1 and "
    "ap-south-2; 12 vCPUs, 128 GiB, 470 GB NVMe. AWS publishes no price of it.",
)
CPU = NodeShape(
    name="m7i.4xlarge",
    pool=names.CPU_NODEPOOL,
    vcpus=16,
    cpu=15.89,
    memory_gib=57691 / 1024,
    disk_gib=80,
    root_gib=120,
    link_gbps=3,  # 6.25 Gbit/s
    zones=None,
    prices={HOME: prices.M7I_4XLARGE},
    source="Karpenter 1.14.1, instance types. Sapphire Rapids: AVX-512, BF16 and AMX "
    "(aws.amazon.com/ec2/instance-types/m7i)",
)
LARGE = NodeShape(
    name="m7i.24xlarge",
    pool=names.LARGE_NODEPOOL,
    vcpus=96,
    cpu=95.69,
    memory_gib=355262 / 1024,
    disk_gib=160,
    root_gib=200,
    link_gbps=18,  # 37.5 Gbit/s
    zones=None,
    prices={HOME: prices.M7I_24XLARGE},
    source="Karpenter 1.14.1, instance types; 48 physical cores of Sapphire Rapids, as the smaller one",
)
ORDINARY = (CPU, LARGE)
"""Shapes without devices that a run can hold. Every deployment has them."""
COMPILER = NodeShape(
    name="r6id.24xlarge",
    pool=names.COMPILE_NODEPOOL,
    vcpus=96,
    cpu=95.69,
    memory_gib=718987 / 1024,
    disk_gib=5000,  # of 5,700 GB
    root_gib=50,
    link_gbps=18,  # 37.5 Gbit/s
    has_nvme=True,
    zones=None,
    prices={HOME: prices.R6ID_24XLARGE},
    source="Karpenter 1.14.1, instance types",
)
"""Shape of the nodes that compile without Neuron devices. No arm is measured there."""
COMPILERS = 4
"""Most nodes that compile at a time, for all runs together."""
SHAPES = {shape.name: shape for shape in (TRN2, TRN2_SMALL, *ORDINARY)}
ACCELERATED = tuple(shape.name for shape in SHAPES.values() if shape.has_devices)
"""Shapes that a deployment can choose as its node with Neuron devices."""
DEFAULT = TRN2.name


def known(name: str) -> str:
    """`name`, if there is such a shape. Raises ValueError with the known names if not."""
    if name not in SHAPES:
        near = difflib.get_close_matches(name, SHAPES, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise ValueError(f"no node shape is called {name}{hint}: choose one of {', '.join(SHAPES)}")
    return name
