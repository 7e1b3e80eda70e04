"""How a server reads the files that it loads: through the mount of the bucket, or from a copy on the node's own disks.

The copy is made through the mount too, many files at once. The copy pays if a server reads its files one after the
other: one reader of a mount is far from filling the link, however wide that is. The figures are docs/operations.md's.

Why it is so: ADR 178.
"""

from specdecode.experiment.capacity import COPY_STREAMS, NodeStorage
from specdecode.experiment.effective import neuron_config
from specdecode.experiment.engine import Dialect, Engine, Reads
from specdecode.experiment.model import ServedExperiment
from specdecode.experiment.prices import GB_PER_GIB
from specdecode.experiment.variants import ServedVariant

STREAM = 0.75
"""GB/s of one reader of one file through Mountpoint: 6 Gbit/s by plain reads on a 40 Gbit/s instance (issue 833 of
awslabs/mountpoint-s3, whose answer, and PR 834, is to read several files at once)."""
LOCAL_STREAM = 2.5
"""GB/s of one reader of a file on the node's disks, mostly from the page cache. An estimate, low on purpose."""
DISK_WRITE: dict[NodeStorage, float] = {"instance-store": 2.0, "ebs": 1.0}
"""GB/s onto four NVMe disks (an estimate, low on purpose: AWS states none), and onto gp3 at the most that it takes."""


def mounted_seconds(gib: float, *, readers: int, link_gbps: float) -> float:
    """Time to read `gib` through the mount, `readers` files at once."""
    return gib * GB_PER_GIB / min(readers * STREAM, link_gbps / 8)


def copied_seconds(gib: float, *, readers: int, link_gbps: float, storage: NodeStorage) -> float:
    """Time to copy `gib` to the node's disks and then to read it there, `readers` files at once."""
    copying = min(COPY_STREAMS * STREAM, link_gbps / 8, DISK_WRITE[storage])
    return gib * GB_PER_GIB * (1 / copying + 1 / (readers * LOCAL_STREAM))


def is_copied(experiment: ServedExperiment, engine: Engine, storage: NodeStorage) -> bool:
    """Whether the copy is the faster way for this engine: the size does not matter, both times grow with it. `storage`
    is the deployment's choice for nodes that have one: those without disks of their own have gp3.
    """
    readers, shape = experiment.ranks if engine.reads is Reads.RANKS else 1, experiment.shape
    disks = storage if shape.has_nvme else "ebs"
    copied = copied_seconds(1, readers=readers, link_gbps=shape.link_gbps, storage=disks)
    return copied < mounted_seconds(1, readers=readers, link_gbps=shape.link_gbps)


def reads_weights(experiment: ServedExperiment, variant: ServedVariant, engine: Engine) -> bool:
    """Whether the server loads weights from the models' folders. Not if the artifact holds the weights in shards."""
    sharded = neuron_config(experiment, variant, engine).get("save_sharded_checkpoint") is True
    return not (sharded and engine.dialect in (Dialect.OVERRIDE_NEURON_CONFIG, Dialect.NXDI_PLUGIN))
