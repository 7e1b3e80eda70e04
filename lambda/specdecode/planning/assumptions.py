"""The assumptions of a plan: the price of the node and its source, and how long each kind of work takes."""

from __future__ import annotations

from specdecode.experiment.capacity import TERMS, Capacity, CapacityType
from specdecode.experiment.engine import Engine
from specdecode.experiment.model import CompileOn, Experiment
from specdecode.experiment.problems import Problem
from specdecode.experiment.shapes import COMPILERS

ENDPOINTS_ASSUMED = (
    "the arms are servers that already run: no node is held for them, and what they cost is not known here",
)


NODE_TERMS: dict[CapacityType, str] = {
    "on-demand": "billed from its start to its end",
    "odcr": "billed from the reservation's making to its cancelling, whether a run uses it or not",
    "capacity-block": "paid for in advance, from the block's start to its end",
}


def unpriced(experiment: Experiment, capacity: Capacity) -> Problem:
    """Nobody has said what the node costs, and AWS publishes no price."""
    return Problem(
        field="node",
        rule="node-price",
        message=f"AWS publishes no price of a {experiment.node} in {capacity.region} that is known here",
        fix="say what you pay for an hour: `specdecode plan --price`, in a deployment the setting price_per_node_hour",
        source=experiment.shape.source,
    )


def _priced(experiment: Experiment, capacity: Capacity, given: Capacity) -> str:
    """Where the price of the node comes from."""
    published = experiment.shape.price_in(capacity.region)
    if given.price_per_node_hour is not None and given.node in (None, experiment.node):
        return "as you gave it" + ("" if published else ": AWS publishes none")
    seen = f"seen {published.seen}" if published and published.seen else "from public notes"
    return f"AWS's list price, {seen}"


def assumptions(experiment: Experiment, engine: Engine, capacity: Capacity, given: Capacity) -> tuple[str, ...]:
    """The assumptions of the cost. `given`: the terms of the deployment; `capacity`: the terms of the experiment's
    node.
    """
    estimates = engine.estimates
    compiling = (
        f"compile {estimates.compile_minutes[0]:g}-{estimates.compile_minutes[1]:g} min and "
        f"{estimates.compile_minutes_per_gib[0]:g}-{estimates.compile_minutes_per_gib[1]:g} min for each GiB, "
        + (f"up to {COMPILERS} at a time on CPU nodes" if experiment.compile.on is CompileOn.CPU else "one at a time")
    )
    return (
        f"one {experiment.node} {TERMS[capacity.type]} at ${capacity.price_per_node_hour:.2f} an hour "
        f"({_priced(experiment, capacity, given)}), {NODE_TERMS[capacity.type]}",
        f"node start 5-15 min and release 3-10 min; {compiling if engine.artifact else 'nothing is compiled'}",
        f"{estimates.seconds_per_output_token[0] * 1000:g}-{estimates.seconds_per_output_token[1] * 1000:g} ms for "
        "each output token, whatever the speculation",
        f"source of the figures: {estimates.source}",
    )
