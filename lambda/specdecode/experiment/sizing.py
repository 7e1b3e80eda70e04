"""Resources of a node that pods take beside its devices, and how many arms fit on it at once."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from specdecode.experiment import capacity as node
from specdecode.experiment.engine import Engine, Reads
from specdecode.experiment.engine_parts import Resources
from specdecode.experiment.model import Experiment, ServedExperiment
from specdecode.experiment.shapes import NodeShape
from specdecode.experiment.workload import Level, Load, Workload

Needs = tuple[float, float, float]
"""CPUs, GiB of memory, GiB of local disk."""
UNITS = ("CPUs", "GiB of memory", "GiB of local disk")
CHUNKS_PER_STREAM = 50
"""Chunks a second of each stream in the client's measurements (docs/benchmarks.md): one every 20 ms."""
MOST_CLIENTS = 16
"""`MOST_AT_A_TIME` streams at 256 a client."""
CLIENT_CPU = 2.0
"""CPUs of each of several clients: one for its event loop, one for its uploads and its session."""


@dataclass(frozen=True, kw_only=True)
class Room:
    """What the pods of a run find on a node: of a shape, of a node group, or of a node that is there. None: unknown."""

    name: str
    cpu: float | None = None
    memory_gib: float | None = None
    disk_gib: float | None = None
    devices: int | None = None
    ami: str | None = None
    """Release of the EKS AMI."""
    driver: str | None = None
    """Version of the Neuron driver."""


def room_of(shape: NodeShape) -> Room:
    return Room(
        name=f"a {shape.name}",
        cpu=shape.cpu,
        memory_gib=shape.memory_gib,
        disk_gib=shape.disk_gib,
        devices=shape.devices,
    )


def unfit(experiment: ServedExperiment, engine: Engine, room: Room) -> Iterator[str]:
    """Why a run finds no place there, by the largest that its pods ask for (`engine` on the experiment's node)."""
    yield from too_large(experiment, engine, room, arms=arms_at_once(experiment, engine))
    if room.devices is not None and experiment.devices > room.devices:
        yield f"an arm claims {experiment.devices} devices, and {room.name} has {room.devices}"
    runtime = engine.runtime
    if room.ami is not None and not runtime.takes_ami(room.ami):
        yield f"{room.name} has AMI {room.ami}, and {engine.name} needs {runtime.amis}"
    if room.driver is not None and not runtime.takes_driver(room.driver):
        yield f"{room.name} has Neuron driver {room.driver}, and {engine.name} takes {runtime.newest_driver}"


def too_large(experiment: ServedExperiment, engine: Engine, room: Room, *, arms: int = 1) -> Iterator[str]:
    """What does not fit, its need, and what pods can have of it."""
    serving, compiling = serving_needs(experiment, engine, arms), compile_needs(experiment, engine)
    yield from (f"serving {f'{arms} arms' if arms > 1 else 'an arm'} needs {said}" for said in lacking(room, serving))
    yield from (f"compiling needs {said}" for said in (lacking(room, compiling) if compiling else ()))


def arms_at_once(experiment: Experiment, engine: Engine) -> int:
    """How many arms are measured at a time. The node must have devices for all, and room for the heaviest. At least
    one: the rule `fits-node` says whether one fits. `engine` has the sizes of the experiment's node. Servers that
    already run need none of it.
    """
    if not isinstance(experiment, ServedExperiment):
        return experiment.side_by_side
    most, room = min(experiment.side_by_side, len(experiment.on_node)), room_of(experiment.shape)
    return next((arms for arms in range(most, 1, -1) if not lacking(room, serving_needs(experiment, engine, arms))), 1)


def lacking(room: Room, needs: Needs) -> list[str]:
    """Resources of which there is too little: `250 CPUs, and a trn2.48xlarge has 191 to give`."""
    have = zip(UNITS, needs, (room.cpu, room.memory_gib, room.disk_gib), strict=True)
    return [
        f"{need:.0f} {unit}, and {room.name} has {there:.0f} to give"
        for unit, need, there in have
        if there is not None and need > there
    ]


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
        # Mountpoint's read-ahead while servers load: of files that are copied, or that ranks read.
        + len(heaviest) * mount_streams(experiment, engine) * node.READ_AHEAD_GIB
        + node.MOUNT_PODS_GIB,
        sum(map(serving.ephemeral_request_gib, heaviest))
        + copies
        + monitors * monitor.ephemeral_gib
        + clients * benchmark.ephemeral_gib,
    )


def clients_of(workload: Workload, level: Level, *, arms: int) -> int:
    """Clients that load `arms` together at `level`; one is enough up to `workload.streams_per_client` streams. Of an
    open loop the number of open streams is not known before. What costs a client is chunks: it is given no more of them
    a second than that many streams have.
    """
    at_once = arms if workload.load is Load.SIMULTANEOUS else 1
    if level.rate is None:
        streams = level.concurrency or 1
        return min(streams, math.ceil(streams * at_once / workload.streams_per_client))
    tokens = max(map(workload.output_tokens_of, workload.cases))
    return math.ceil(level.rate * at_once * tokens / (workload.streams_per_client * CHUNKS_PER_STREAM))


def most_clients(workload: Workload, *, arms: int) -> int:
    """Clients of the level that takes most."""
    return max(clients_of(workload, level, arms=arms) for level in workload.levels)


def each_client(benchmark: Resources, clients: int) -> Resources:
    """Resources of the pod of each of `clients`. `benchmark`: resources of the pod of a single client."""
    return benchmark if clients == 1 else benchmark.model_copy(update={"cpu": min(benchmark.cpu, CLIENT_CPU)})


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
    return sorted(map(experiment.weights_gib, experiment.on_node), reverse=True)


def mount_streams(experiment: ServedExperiment, engine: Engine) -> int:
    """Files of the bucket that one arm reads at once, before and while it loads."""
    readers = experiment.ranks if engine.reads is Reads.RANKS else 1
    return node.COPY_STREAMS if experiment.shape.has_nvme else min(node.COPY_STREAMS, readers)
