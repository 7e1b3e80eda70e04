"""Rules of the node: devices, memory, CPUs and disk of a trn2.48xlarge."""

from __future__ import annotations

from collections.abc import Iterator

from specdecode.experiment import capacity as node
from specdecode.experiment.effective import family
from specdecode.experiment.engine import Dialect
from specdecode.experiment.rules.case import Case, Finding


def tensor_parallel(case: Case) -> Iterator[Finding]:
    serving = case.experiment.serving
    if case.engine.dialect is Dialect.UPSTREAM:  # the claim places its arms, and they open no device
        return
    cores = serving.devices * node.CORES_PER_DEVICE // serving.logical_neuron_core
    if case.engine.dialect is Dialect.NATIVE_PLUGIN:
        yield from _within(serving.tensor_parallel_size, cores)
    elif serving.devices and serving.tensor_parallel_size != cores:
        yield (
            "serving.tensor_parallel_size",
            f"{serving.devices} devices at LNC {serving.logical_neuron_core} are {cores} logical cores, "
            f"not {serving.tensor_parallel_size}",
            f"set it to {cores}, or change serving.devices or serving.logical_neuron_core",
        )


def _within(ranks: int, cores: int) -> Iterator[Finding]:
    """The native plugin takes as many cores as it has ranks, of those that it sees; a claim's others are idle."""
    if ranks > cores or ranks & (ranks - 1):
        message = f"{ranks} ranks: the native plugin takes a power of two, up to the {cores} logical cores of the claim"
        sizes = ", ".join(str(2**n) for n in range(cores.bit_length()) if 2**n <= cores)
        yield "serving.tensor_parallel_size", message, f"set it to one of {sizes}" if sizes else "claim devices"


def claim(case: Case) -> Iterator[Finding]:
    serving = case.experiment.serving
    if serving.devices not in node.CLAIM_SIZES:
        sizes = " or ".join(map(str, node.CLAIM_SIZES))
        yield "serving.devices", f"there is no claim template for {serving.devices} devices", f"claim {sizes}"
    if serving.logical_neuron_core != 2:
        yield "serving.logical_neuron_core", "there are claim templates for LNC 2 only", "set it to 2"


def hbm(case: Case) -> Iterator[Finding]:
    serving = case.experiment.serving
    room, more = serving.devices * node.HBM_GIB_PER_DEVICE, "claim 16 devices"
    if case.engine.dialect is Dialect.NATIVE_PLUGIN:  # a rank has its own core's share
        room = serving.tensor_parallel_size * node.HBM_GIB_PER_DEVICE * 2 // node.CORES_PER_DEVICE
        more = "raise serving.tensor_parallel_size"
    for variant in case.experiment.variants:
        unpacked = family(case.experiment, variant, case.engine).loaded_per_stored
        weights = case.experiment.weights_gib(variant) + (unpacked - 1) * case.experiment.target_of(variant).size_gib
        if serving.devices and weights > room:
            yield (
                f"variants.{variant.name}",
                f"{weights:g} GiB of weights do not fit into {room} GiB of device memory",
                f"{more}, or choose quantized weights",
            )


def fits_node(case: Case) -> Iterator[Finding]:
    """CPUs, memory and disk of everything that is on the node at once."""
    resources, experiment = case.engine.resources, case.experiment
    together = experiment.side_by_side
    heaviest = sorted((case.experiment.weights_gib(v) for v in experiment.variants), reverse=True)[:together]
    benchmark, monitor = resources.benchmark, node.MONITOR
    monitors = len(heaviest) if experiment.serving.neuron_metrics else 0
    serve = (
        len(heaviest) * resources.serving.cpu + monitors * monitor.cpu + benchmark.cpu + node.RESERVED_CPU,
        sum(map(resources.serving.memory_request_gib, heaviest))
        + monitors * monitor.memory_gib
        + benchmark.memory_gib
        + node.RESERVED_MEMORY_GIB
        + node.MOUNT_BUFFERS_GIB,
        sum(map(resources.serving.ephemeral_request_gib, heaviest))
        + monitors * monitor.ephemeral_gib
        + benchmark.ephemeral_gib,
    )
    works = {"serving a wave": serve}
    if compiling := resources.compile:
        works["compiling"] = (
            compiling.cpu + node.RESERVED_CPU,
            compiling.memory_request_gib(heaviest[0]) + node.RESERVED_MEMORY_GIB,
            compiling.ephemeral_request_gib(heaviest[0]),
        )
    room = (node.ALLOCATABLE_CPU, node.ALLOCATABLE_MEMORY_GIB, node.ALLOCATABLE_EPHEMERAL_GIB)
    for what, needs in works.items():
        for need, there, unit in zip(needs, room, ("CPUs", "GiB of memory", "GiB of local disk"), strict=True):
            if need > there:
                message = f"{what} needs {need:.0f} {unit}, and a trn2.48xlarge has {there:.0f} to give"
                yield "engine", message, "lower the engine's pod resources, or choose smaller models"
