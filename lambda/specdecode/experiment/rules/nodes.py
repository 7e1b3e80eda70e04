"""Rules of a run on several nodes."""

from __future__ import annotations

from collections.abc import Iterator

from specdecode.experiment.rules.case import Finding, ServedCase
from specdecode.experiment.shares import shares


def several(case: ServedCase) -> Iterator[Finding]:
    """The deployment has that many nodes, and each node has an arm to measure."""
    experiment, capacity = case.experiment, case.capacity
    if experiment.nodes == 1:
        return
    there = capacity.known_nodes
    if there is not None and experiment.shape.has_devices and experiment.nodes > there:
        has = "one node" if capacity.nodes == 1 else f"{capacity.nodes} nodes"
        yield "nodes", f"this deployment has {has}, not {experiment.nodes}", f"set it to {capacity.nodes} or less"
    if not experiment.shape.has_devices:
        yield "nodes", f"a check of the account runs on one {experiment.node}", "leave nodes out"
    if len(parts := shares(experiment, experiment.nodes)) < experiment.nodes:
        has = "one arm" if len(parts) == 1 else f"{len(parts)} arms"
        message = f"{experiment.nodes} nodes have {has} to share; arms that are compared with each other stay together"
        yield "nodes", message, f"set it to {len(parts)} or less" if len(parts) > 1 else "leave nodes out"
