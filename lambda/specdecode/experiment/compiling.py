"""Where artifacts are compiled: what an experiment asks for, and what an engine can do without Neuron devices.

Why it is so: ADR 178.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from pydantic import Field

from specdecode.experiment.base import EnvName, Frozen
from specdecode.experiment.resources import Resources


class CompileOn(StrEnum):
    """Which node compiles."""

    ACCELERATOR = "accelerator"
    """The node on which the arms are measured, one model at a time. A server loads the artifact that it has
    compiled."""
    CPU = "cpu"
    """Large CPU nodes, before the run takes that node, several models side by side. Unproven on hardware."""


class Compile(Frozen):
    """Where the run compiles missing artifacts."""

    on: CompileOn = CompileOn.ACCELERATOR
    """`cpu` compiles on CPU nodes before the node is taken. An artifact that does not load is then compiled on the
    node, and the report says so. Unproven on hardware; `specdecode engines NAME` says which engine can."""


class CpuCompile(Frozen):
    """How an engine compiles on a node without Neuron devices."""

    env: dict[EnvName, str]
    """Environment variables of the server that compiles there."""
    speculation: bool
    """Whether the engine compiles arms with speculation there too."""
    neuron_config: dict[str, Any] = Field(default_factory=dict)
    """Keys that an arm's Neuron configuration must have for it."""
    leaves: tuple[str, ...] = ()
    """Files of the artifact (`{last_rank}`: number of the last one) that are there once all is compiled. A server that
    then ends because it has no device to load them on has done its work. None: it must become healthy or end with 0."""
    slower: float = Field(default=1, ge=1)
    """How much longer it may take than the engine's estimates, which are of a trn2.48xlarge's 192 vCPUs."""
    resources: Resources
    source: str
