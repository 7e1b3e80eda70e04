"""Rules of compiling without the accelerator: which engines and arms can, and whether they fit on such a node."""

from __future__ import annotations

from collections.abc import Iterator

from specdecode.experiment.compiling import CompileOn, CpuCompile
from specdecode.experiment.effective import neuron_config
from specdecode.experiment.model import Sweep
from specdecode.experiment.rules.case import Finding, ServedCase
from specdecode.experiment.shapes import COMPILER

ON = "compile.on"
LEAVE = "leave compile.on at accelerator"


def on_cpu(case: ServedCase) -> Iterator[Finding]:
    """The engine's file says how to compile all arms without devices, with a source."""
    engine, experiment = case.engine, case.experiment
    if experiment.compile.on is not CompileOn.CPU:
        return
    if engine.artifact is None:
        yield ON, f"{engine.name} compiles nothing", LEAVE
        return
    if engine.artifact.on_cpu is None:
        message = f"{engine.name} is not known to compile without Neuron devices"
        yield ON, message, f"{LEAVE}; `specdecode engines` shows which engine can"
        return
    if experiment.sweep is Sweep.ADAPTIVE:
        message = "an adaptive sweep chooses its arms while it holds the node, so none can be compiled before"
        yield ON, message, f"{LEAVE}, or write sweep: grid"
    yield from _arms(case, engine.artifact.on_cpu)
    yield from _fits(case, engine.artifact.on_cpu)


def _arms(case: ServedCase, can: CpuCompile) -> Iterator[Finding]:
    speculating = [variant.name for variant in case.experiment.variants if variant.speculation]
    if speculating and not can.speculation:
        message = f"{case.engine.name} cannot compile speculation without Neuron devices: {', '.join(speculating)}"
        yield ON, message, LEAVE
    for key, value in can.neuron_config.items():
        lacking = [
            variant.name
            for variant in case.experiment.variants
            if neuron_config(case.experiment, variant, case.engine).get(key) != value
        ]
        if lacking:
            shown = str(value).lower()
            message = f"{', '.join(lacking)}: without {key}: {shown} an artifact of a CPU node cannot be checked"
            yield ON, message, f"set serving.neuron_config.{key}={shown}, or {LEAVE}"


def _fits(case: ServedCase, can: CpuCompile) -> Iterator[Finding]:
    heaviest = max(case.experiment.weights_gib(variant) for variant in case.experiment.variants)
    for need, room, unit in (
        (can.resources.cpu, COMPILER.cpu, "CPUs"),
        (can.resources.memory_request_gib(heaviest), COMPILER.memory_gib, "GiB of memory"),
        (can.resources.ephemeral_request_gib(heaviest), COMPILER.disk_gib, "GiB of local disk"),
    ):
        if need > room:
            yield ON, f"compiling needs {need:.0f} {unit}, and a {COMPILER.name} has {room:.0f} to give", LEAVE
