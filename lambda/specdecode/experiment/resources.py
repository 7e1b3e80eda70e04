"""Resources that pods request on a node."""

from __future__ import annotations

import math

from pydantic import Field

from specdecode.experiment.base import Frozen


class Resources(Frozen):
    """Requests of one pod: CPUs, and GiB of memory and local disk beyond what the weights need."""

    cpu: float = Field(gt=0)
    cpu_per_device: float | None = Field(default=None, gt=0)
    """CPUs for each Neuron device of a server, `cpu` at most. None: `cpu`, whatever the devices."""
    cpu_limit: float | None = None
    memory_gib: float = Field(gt=0)
    ephemeral_gib: float = Field(gt=0)
    memory_per_weight: float = Field(default=0, ge=0)
    """GiB of memory for each GiB of weights (target and draft)."""
    ephemeral_per_weight: float = Field(default=0, ge=0)

    def memory_request_gib(self, weights_gib: float) -> int:
        """Memory request of a pod with so many GiB of weights, in whole GiB."""
        return math.ceil(self.memory_gib + self.memory_per_weight * weights_gib)

    def ephemeral_request_gib(self, weights_gib: float) -> int:
        """Local disk request of a pod with so many GiB of weights, in whole GiB."""
        return math.ceil(self.ephemeral_gib + self.ephemeral_per_weight * weights_gib)


class PodResources(Frozen):
    serving: Resources
    compile: Resources | None = None
    """None if nothing is compiled."""
    benchmark: Resources
    staging: Resources
