"""The facts of a manifest that the deployment knows, and the names and labels that follow from them.

Names are pure functions, so that the pipeline always finds the objects again.
"""

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Annotated, Any

from pydantic import StringConstraints

from specdecode import names
from specdecode.experiment.base import Frozen
from specdecode.experiment.capacity import NodeStorage
from specdecode.experiment.variants import ModelRef
from specdecode.planning import Arm, Wave


class RenderContext(Frozen):
    run_id: Annotated[str, StringConstraints(pattern=f"^{names.RUN_ID}$")]
    bucket: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]
    bundle_uri: Annotated[str, StringConstraints(pattern=r"^s3://[^/]+/.+$")]
    """The zip with `specdecode`, its dependencies and assets/."""
    bundle_sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    region: Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]{1,32}$")]
    pool: str | None = None
    """NodePool of the run's own node. None before it has one: the objects then name the first pool of its kind."""
    makes_nodes: bool = True
    """Whether the cluster has our NodePools. If not, pods that need no held node run on any node."""
    node_storage: NodeStorage = "instance-store"
    claims: str = ""
    """What the names of the deployment's claim templates end in."""
    contents: Mapping[str, str] = {}
    """Folder of the bucket -> the hash that it must have. A folder that is not named is as its COMPLETE.json says."""

    @classmethod
    def without_bucket(cls, run_id: str, **more: Any) -> "RenderContext":
        """For objects of which nobody uses bucket and bundle."""
        nowhere = {"bucket": "none", "bundle_uri": "s3://none/bundle.zip", "bundle_sha256": "0" * 64, "region": "none"}
        return cls(**{"run_id": run_id, **nowhere, **more})


LIMIT = 63
"""Most characters of a Service's name and of a label's value."""


def object_name(run_id: str, *parts: str) -> str:
    """`r<8 digits of the run>-<parts>`: a DNS label of at most 63 characters, unique for run and parts."""
    full = "-".join([f"r{sha256(run_id.encode()).hexdigest()[:8]}", *parts])
    name = re.sub(r"[^a-z0-9]+", "-", full.lower()).strip("-")
    if len(name) <= LIMIT and name == full:
        return name
    return f"{name[: LIMIT - 7].strip('-')}-{sha256(full.encode()).hexdigest()[:6]}"


def root_name(ctx: RenderContext) -> str:
    return object_name(ctx.run_id, "run")


def staging_name(model: ModelRef, ctx: RenderContext) -> str:
    return object_name(ctx.run_id, "stage", model.prefix.removeprefix("models/").rstrip("/"))


def compile_name(arm: Arm, ctx: RenderContext) -> str:
    return object_name(ctx.run_id, "compile", arm.fingerprint)


def serving_name(arm: Arm, ctx: RenderContext) -> str:
    return object_name(ctx.run_id, f"w{arm.wave}", arm.variant)


def wave_name(wave: Wave, component: str, ctx: RenderContext) -> str:
    """Name of a wave's Job (`benchmark`, `smoke`, `accuracy`, `hold`)."""
    return object_name(ctx.run_id, f"w{wave.index}", component)


def service_host_variable(name: str) -> str:
    """Variable in which Kubernetes gives the cluster IP of the Service `name` to the pods started after it."""
    return name.upper().replace("-", "_") + "_SERVICE_HOST"


def labels(
    ctx: RenderContext, component: str, *, wave: int | None = None, variant: str | None = None
) -> dict[str, str]:
    out = {
        "app.kubernetes.io/name": "specdecode",
        "app.kubernetes.io/managed-by": "specdecode",
        names.COMPONENT_LABEL: component,
        names.RUN_LABEL: names.run_label(ctx.run_id),
    }
    if wave is not None:
        out[names.WAVE_LABEL] = str(wave)
    if variant is not None:
        out[names.VARIANT_LABEL] = variant
    return out
