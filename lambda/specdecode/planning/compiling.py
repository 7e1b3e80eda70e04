"""Compiling without the accelerator: artifacts, time and cost, and the way back to the node.

An artifact that CPU nodes compile has a fingerprint of its own. If the bucket has one that a
node with devices compiled, that is used. So an artifact that did not load is tried again only until there is one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from specdecode import s3_keys
from specdecode.experiment.capacity import Capacity
from specdecode.experiment.engine import Engine
from specdecode.experiment.model import CompileOn, Frozen, ServedExperiment
from specdecode.experiment.rules.case import ServedCase
from specdecode.experiment.rules.engine import not_on_cpu
from specdecode.experiment.shapes import COMPILER, COMPILERS
from specdecode.planning.cost import NODE_START_MINUTES, NODE_STOP_MINUTES, Range, compile_minutes, total
from specdecode.planning.fingerprint import fingerprint
from specdecode.planning.inventory import Inventory
from specdecode.planning.waves import Arm, Wave


class CompileCost(Frozen):
    """Cost of compiling all missing artifacts, on either kind of node, in US dollars."""

    artifacts: int
    here: Range
    """Cost on the node on which the arms are measured."""
    on_cpu: Range
    """Cost on CPU nodes, which start for it and end after it."""
    on_cpu_at_most: float
    """The same at most: every Job lasts until its deadline, and then until the pipeline or Kubernetes has ended it."""
    price_per_cpu_hour: float
    """US dollars for an hour of one CPU node."""
    chosen: CompileOn
    priced_in: str
    """Region of that price."""


def ahead(
    experiment: ServedExperiment, engine: Engine, waves: tuple[Wave, ...], inventory: Inventory
) -> tuple[Wave, ...]:
    """The waves with the artifacts of CPU nodes, if the experiment asks for them and the bucket has no other."""
    if experiment.compile.on is not CompileOn.CPU:
        return waves

    def arm(given: Arm) -> Arm:
        if inventory.has(s3_keys.compiled_prefix(given.fingerprint)):
            return given
        own = fingerprint(experiment, experiment.variant(given.variant), engine, without_devices=True)
        return given.model_copy(update={"fingerprint": own, "fallback": given.fingerprint})

    return tuple(wave.model_copy(update={"arms": tuple(map(arm, wave.arms))}) for wave in waves)


def ahead_fingerprints(waves: Iterable[Wave]) -> frozenset[str]:
    """Fingerprints of what CPU nodes compile, missing or not."""
    return frozenset(arm.fingerprint for wave in waves for arm in wave.arms if arm.fallback)


def turns(artifacts: int) -> int:
    """How many artifacts each CPU node compiles, one after the other, if all CPU nodes share the work."""
    return math.ceil(artifacts / COMPILERS)


def cpu_deadline(experiment: ServedExperiment, engine: Engine) -> int:
    """Minutes after which a Job that compiles on a CPU node has failed: `deadlines.compile`, which is meant for the
    node, times the engine's factor for CPU nodes.
    """
    can = engine.artifact and engine.artifact.on_cpu
    return math.ceil(experiment.deadlines.compile * (can.slower if can else 1))


def cpu_minutes(experiment: ServedExperiment, engine: Engine, variant: str) -> Range:
    """Minutes until a running CPU node has compiled the artifact of `variant`."""
    assert engine.artifact and engine.artifact.on_cpu  # noqa: S101 (callers ask for engines that can)
    here = compile_minutes(experiment, engine, variant)
    return Range(low=here.low, high=here.high * engine.artifact.on_cpu.slower)


def compile_cost(
    experiment: ServedExperiment,
    engine: Engine,
    variants: Iterable[str],
    *,
    capacity: Capacity,
    price: float,
    late_min: float,
) -> CompileCost | None:
    """Cost of compiling the artifacts of `variants` (one for each missing artifact). None if CPU nodes cannot compile
    this experiment, or if nothing is missing. `price`: of an hour of the node; `late_min`: minutes that a Job may
    outlive its deadline.
    """
    variants, known = tuple(variants), COMPILER.price_in(capacity.region)
    if not variants or known is None or next(not_on_cpu(ServedCase(experiment, engine, capacity)), None):
        return None
    around = Range(low=NODE_START_MINUTES.low / 2, high=NODE_START_MINUTES.high + NODE_STOP_MINUTES.high)
    most = (cpu_deadline(experiment, engine) + late_min + NODE_STOP_MINUTES.high) * len(variants)
    expected = total(part for name in variants for part in (cpu_minutes(experiment, engine, name), around))
    return CompileCost(
        artifacts=len(variants),
        here=total(compile_minutes(experiment, engine, name) for name in variants).scaled(price / 60),
        # A Job's deadline has the node's start in it, and what the Job is expected to take may be more.
        on_cpu=Range(low=min(expected.low, most), high=min(expected.high, most)).scaled(known.usd / 60),
        on_cpu_at_most=most * known.usd / 60,
        price_per_cpu_hour=known.usd,
        chosen=experiment.compile.on,
        priced_in=capacity.region if capacity.region in COMPILER.prices else next(iter(COMPILER.prices)),
    )
