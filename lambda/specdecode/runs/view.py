"""The cluster as the command line shows it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from specdecode.runs.lease import Lease


class PodView(BaseModel):
    """A line of the pod list."""

    model_config = ConfigDict(frozen=True)

    name: str
    run: str
    component: str
    variant: str | None
    phase: str
    ready: bool
    restarts: int
    problem: str | None


class ClusterView(BaseModel):
    """The cluster as the pipeline sees it now."""

    model_config = ConfigDict(frozen=True)

    lease: Lease
    """Of the nodes; without a holder if it cannot be read, which `problems` says then."""
    slots: tuple[str, ...] = ()
    """NodePools of one node each that can be held; empty if the deployment is older than this field."""
    turns: Lease = Lease()
    """Of the servers that already run; the same."""
    problems: tuple[str, ...] = ()
    """What could not be looked at, each with its reason."""
    replicas: int | None
    """Sum of the NodePools' replicas; None if no pool exists."""
    nodes: tuple[str, ...]
    """Nodes of the pools, `name of slot (Ready)` or `name of slot (NotReady)`."""
    pods: tuple[PodView, ...]
