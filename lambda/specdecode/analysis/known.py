"""What a report says of a run that served its own arms: node, versions, the engine's caveats, what servers told."""

from collections.abc import Iterator
from typing import Any

from specdecode import __version__
from specdecode.experiment import Engine
from specdecode.experiment.effective import WORKERS, pinned
from specdecode.planning import Plan
from specdecode.records import Servers


def known_of(plan: Plan, servers: Servers) -> dict[str, Any]:
    """Fields of a RunContext that follow from the plan and from servers.json."""
    holds_node = plan.experiment.holds_node
    return {
        "node": plan.experiment.node if _is_real(plan) else "",
        "devices_per_node": plan.experiment.shape.devices,
        "versions": {"specdecode": __version__} | (_engine(plan) if holds_node else {}),
        "counters": servers.counters,
        "sets": servers.sets,
        "prefix_caching": servers.prefix_caching,
        "prompt_lengths": servers.prompt_tokens,
        "notes": (*(_of_the_engine(plan.engine) if holds_node else ()), *servers.notes),
    }


def _of_the_engine(engine: Engine) -> Iterator[str]:
    """What a reader must know of the engine: its caveat, and what of its file is inferred."""
    if engine.caveat:
        yield engine.caveat
    if engine.inferred:
        told = "; ".join(engine.inferred)
        yield f"Inferred of {engine.name}, not read in its source: {told} (`specdecode engines {engine.name}`)."


def _engine(plan: Plan) -> dict[str, str]:
    how = pinned(plan.served, plan.engine)
    about = {"engine": plan.engine.title, "engine image": plan.engine.reference}
    return about | ({WORKERS: how} if how else {})


def _is_real(plan: Plan) -> bool:
    """Whether the arms ran on the node's accelerator. An engine for CPUs may claim devices only to be placed."""
    return plan.experiment.holds_node and plan.engine.on_neuron == plan.experiment.shape.has_devices
