"""The cluster for the command line."""

from pydantic import BaseModel, ConfigDict

from specdecode.runs.lease import Lease


class PodView(BaseModel):
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
    model_config = ConfigDict(frozen=True)

    lease: Lease
    """The lease of the nodes. If it cannot be read, it has no holder and `problems` says so."""
    lease_read: bool | None = None
    """Whether the lease of the nodes was read. None if the deployment is older than this field."""
    slots: tuple[str, ...] = ()
    """NodePools of one node each that runs can hold. Empty if the deployment is older than this field."""
    turns: Lease = Lease()
    """The same for the servers that already run."""
    problems: tuple[str, ...] = ()
    """What could not be read, each with its reason."""
    replicas: int | None
    """Sum of the NodePools' replicas. None if no pool exists."""
    nodes: tuple[str, ...]
    """Nodes of the pools, `name of slot (Ready)` or `name of slot (NotReady)`."""
    pods: tuple[PodView, ...]

    @property
    def is_holder_known(self) -> bool:
        """Whether a lease without a holder means that nobody holds a node. An older deployment does not say what it
        could not read: it is known if all could be.
        """
        return not self.problems if self.lease_read is None else self.lease_read
