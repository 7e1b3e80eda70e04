"""Rules of the node: its devices, memory, CPUs and disk."""

from collections.abc import Iterator

from specdecode.escape import counted
from specdecode.experiment.effective import family
from specdecode.experiment.engine import Dialect
from specdecode.experiment.kept import deploy_with
from specdecode.experiment.rules.case import Finding, ServedCase
from specdecode.experiment.shapes import ACCELERATED, CORES_PER_DEVICE, DEFAULT, HBM_GIB_PER_DEVICE, SHAPES
from specdecode.experiment.sizing import room_of, too_large


def deployed(case: ServedCase) -> Iterator[Finding]:
    """A deployment has one shape of node with devices, and that without for checks of the account."""
    has, wanted = case.capacity.node, case.experiment.node
    if has not in (None, wanted) and SHAPES[wanted].has_devices:
        message = f"this deployment's node is a {has}, and the experiment is for a {wanted}"
        yield "node", message, f"{deploy_with({'node_type': wanted})}, or run it on a {has}: --set node={has}"


def drives(case: ServedCase) -> Iterator[Finding]:
    shape, engine = case.experiment.shape, case.engine
    if engine.on_neuron and not shape.has_devices:
        message = f"{engine.name} drives Neuron devices, and a {shape.name} has none"
        yield "node", message, f"set it to one of {', '.join(ACCELERATED)}"


def tensor_parallel(case: ServedCase) -> Iterator[Finding]:
    """The native plugin takes as many cores as it has ranks, of those that it sees; a claim's others are idle."""
    serving = case.experiment.serving
    if case.engine.dialect is Dialect.UPSTREAM:  # the claim places its arms, and they open no device
        return
    cores = serving.devices * CORES_PER_DEVICE // serving.logical_neuron_core
    given = dict(case.given("tensor_parallel_size"))
    shared, own = given.pop("serving.tensor_parallel_size"), {field: ranks for field, ranks in given.items() if ranks}
    for field, ranks in (own if len(own) == len(given) else {"serving.tensor_parallel_size": shared} | own).items():
        if case.engine.dialect is not Dialect.NATIVE_PLUGIN:
            if serving.devices and ranks != cores:
                lnc = serving.logical_neuron_core
                message = f"{serving.devices} devices at LNC {lnc} are {cores} logical cores, not {ranks}"
                yield field, message, f"set it to {cores}, or change serving.devices or serving.logical_neuron_core"
        elif ranks > cores or ranks.bit_count() != 1:
            limit = f"a power of two, up to the {cores} logical cores of the claim"
            sizes = ", ".join(str(2**n) for n in range(cores.bit_length()))
            fix = f"set it to one of {sizes}" if sizes else "claim devices"
            yield field, f"{ranks} ranks: the native plugin takes {limit}", fix


def claim(case: ServedCase) -> Iterator[Finding]:
    serving, shape = case.experiment.serving, case.experiment.shape
    if serving.devices not in (shape.claims or (0,)):
        has = f"{counted(shape.devices, 'device') if shape.devices else 'no devices'}"
        message = f"a {shape.name} has {has}, and no claim template for {serving.devices}"
        yield "serving.devices", message, f"set it to {' or '.join(map(str, shape.claims or (0,)))}"
    if serving.logical_neuron_core != 2:
        yield "serving.logical_neuron_core", "there are claim templates for LNC 2 only", "set it to 2"


def hbm(case: ServedCase) -> Iterator[Finding]:
    native, serving = case.engine.dialect is Dialect.NATIVE_PLUGIN, case.experiment.serving
    most = max(case.experiment.shape.claims, default=0)
    room = serving.devices * HBM_GIB_PER_DEVICE
    more = f"claim {most} devices" if serving.devices < most else "measure it on a larger node"
    for variant in case.experiment.variants:
        if native:  # a rank has its own core's share
            ranks = case.experiment.serving_of(variant).tensor_parallel_size
            room, more = ranks * HBM_GIB_PER_DEVICE * 2 // CORES_PER_DEVICE, "raise serving.tensor_parallel_size"
        unpacked = family(case.experiment, variant, case.engine).loaded_per_stored
        weights = case.experiment.weights_gib(variant) + (unpacked - 1) * case.experiment.target_of(variant).size_gib
        if serving.devices and weights > room:
            message = f"{weights:g} GiB of weights do not fit into {room} GiB of device memory"
            yield f"variants.{variant.name}", message, f"{more}, or choose quantized weights"


def fits_node(case: ServedCase) -> Iterator[Finding]:
    """CPUs, memory and disk of one arm, and of its compile; silent if the arms cannot be on the node at all."""
    if next(claim(case), None) or next(drives(case), None):
        return
    experiment, engine, shape = case.experiment, case.engine, case.experiment.shape
    fix = "lower the engine's pod resources, or choose smaller models"
    if shape.name != DEFAULT and shape.name not in engine.resources_on:
        fix = f"give the engine's file sizes for that node (resources_on: {{{shape.name}: …}})"
    yield from (("engine", said, fix) for said in too_large(experiment, engine, room_of(shape)))
