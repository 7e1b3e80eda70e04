"""The service-level objective: the limits of a good request."""

from __future__ import annotations

from pydantic import Field

from specdecode.experiment.base import Frozen

SENT_OVER = 2 / 3
"""Share of an open loop's time in which it must have sent. If it sent for less, no queue had the time to build up, and
the server may be slower than the rate: the test does not show that the server carries it. A choice of ours."""


class Slo(Frozen):
    """Service-level objective: the limits of a good request, and the share of requests that must be good."""

    ttft_s: float | None = Field(default=None, gt=0)
    """Largest time to first token, in seconds. Unset: no limit."""
    tpot_s: float | None = Field(default=None, gt=0)
    """Largest time per output token, in seconds."""
    e2e_s: float | None = Field(default=None, gt=0)
    """Largest end-to-end latency, in seconds."""
    share: float = Field(default=0.95, gt=0, le=1)
    """Share of all requests that must keep to every limit for a load to keep the objective."""

    @property
    def asked(self) -> bool:
        """Whether there is any limit."""
        return (self.ttft_s, self.tpot_s, self.e2e_s) != (None, None, None)
