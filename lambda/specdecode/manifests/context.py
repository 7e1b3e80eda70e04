"""The facts of a manifest that the deployment knows. All others come from the plan."""

from __future__ import annotations

from typing import Annotated

from pydantic import StringConstraints

from specdecode import names
from specdecode.experiment.capacity import NodeStorage
from specdecode.experiment.model import Frozen


class RenderContext(Frozen):
    """One run in one deployment."""

    run_id: Annotated[str, StringConstraints(pattern=f"^{names.RUN_ID}$")]
    bucket: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]
    """The artifact bucket."""
    bundle_uri: Annotated[str, StringConstraints(pattern=r"^s3://[^/]+/.+$")]
    """The zip with `specdecode`, its dependencies and assets/."""
    bundle_sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    region: Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]{1,32}$")]
    pool: str | None = None
    """NodePool of the run's own node. None if the run has none yet: the objects then name the first pool of its
    kind."""
    makes_nodes: bool = True
    """Whether the cluster has our NodePools. If not, pods that need no held node run on any node."""
    node_storage: NodeStorage = "instance-store"
