"""Resources of a node that pods take beside its devices, and how many arms fit on it at once."""

from __future__ import annotations

from collections.abc import Sequence

from specdecode.experiment import capacity as node
from specdecode.experiment.clients import each_client, most_clients
from specdecode.experiment.engine import Engine, Reads
from specdecode.experiment.model import Experiment, ServedExperiment

Needs = tuple[float, float, float]
"""CPUs, GiB of memory, GiB of local disk."""
UNITS = ("CPUs", "GiB of memory", "GiB of local disk")


def arms_at_once(experiment: ServedExperiment, engine: Engine) -> int:
    """How many arms are served at a time. The node must have devices for all, and room for the heaviest.

    At least one: the rule `fits-node` says whether one fits. `engine` has the sizes of the experiment's node.
    """
    most = min(experiment.side_by_side, len(experiment.variants))
    return next(
        (arms for arms in range(most, 1, -1) if not lacking(experiment, serving_needs(experiment, engine, arms))), 1
    )


def lacking(experiment: Experiment, needs: Needs) -> list[tuple[str, float, float]]:
    """Resources that the experiment's node has too little of: unit, need, and what pods can have."""
    shape = experiment.shape
    room = zip(UNITS, needs, (shape.cpu, shape.memory_gib, shape.disk_gib), strict=True)
    return [(unit, need, there) for unit, need, there in room if need > there]


def serving_needs(experiment: ServedExperiment, engine: Engine, arms: int) -> Needs:
    """Needs of a wave of the `arms` heaviest arms, with the benchmark and the node's own pods."""
    heaviest = heaviest_gib(experiment)[:arms]
    serving, monitor = engine.resources.serving, node.MONITOR
    clients = most_clients(experiment.workload, arms=arms)
    benchmark = each_client(engine.resources.benchmark, clients)
    monitors = len(heaviest) if experiment.serving.neuron_metrics else 0
    copies = node.COPY_MARGIN * sum(heaviest) if experiment.shape.has_nvme else 0
    return (
        len(heaviest) * serving.cpu + monitors * monitor.cpu + clients * benchmark.cpu + node.RESERVED_CPU,
        sum(map(serving.memory_request_gib, heaviest))
        + monitors * monitor.memory_gib
        + clients * benchmark.memory_gib
        + node.RESERVED_MEMORY_GIB
        + _mount_buffers_gib(experiment, engine, arms=len(heaviest)),
        sum(map(serving.ephemeral_request_gib, heaviest))
        + copies
        + monitors * monitor.ephemeral_gib
        + clients * benchmark.ephemeral_gib,
    )


def compile_needs(experiment: ServedExperiment, engine: Engine) -> Needs | None:
    """Needs of the compile of the heaviest arm. None if nothing is compiled. One arm is compiled at a time."""
    compiling, heaviest = engine.resources.compile, heaviest_gib(experiment)[0]
    if compiling is None:
        return None
    return (
        compiling.cpu + node.RESERVED_CPU,
        compiling.memory_request_gib(heaviest) + node.RESERVED_MEMORY_GIB,
        compiling.ephemeral_request_gib(heaviest),
    )


def heaviest_gib(experiment: ServedExperiment) -> Sequence[float]:
    """GiB of weights of each arm, the most first."""
    return sorted(map(experiment.weights_gib, experiment.variants), reverse=True)


def _mount_buffers_gib(experiment: ServedExperiment, engine: Engine, *, arms: int) -> float:
    """Memory for Mountpoint's read-ahead while servers load: of files that are copied, or that ranks read."""
    readers = experiment.serving.tensor_parallel_size if engine.reads is Reads.RANKS else 1
    each = node.COPY_STREAMS if experiment.shape.has_nvme else min(node.COPY_STREAMS, readers)
    return arms * each * node.READ_AHEAD_GIB + node.MOUNT_PODS_GIB
