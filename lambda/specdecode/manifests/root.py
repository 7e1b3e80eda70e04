"""The run's root: a small ConfigMap that owns all other objects of the run. They are deleted with it."""

from __future__ import annotations

from specdecode import names
from specdecode.manifests.context import RenderContext
from specdecode.manifests.object_names import labels, root_name
from specdecode.manifests.pods import KubeObject, meta
from specdecode.planning import Plan


def run_root(plan: Plan, ctx: RenderContext) -> KubeObject:
    """The first object that a run creates. It only says to which run the objects belong."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": meta(root_name(ctx), labels(ctx, names.ROOT_COMPONENT)),
        "data": {"run": ctx.run_id, "experiment": plan.experiment.name},
    }


def owned(obj: KubeObject, root: KubeObject) -> KubeObject:
    """`obj` with `root`, as the API server returned it, for its owner: the garbage collector deletes it with the root.

    It blocks a foreground deletion, so that a root that is gone means that all it owned is gone.
    """
    reference = {
        "apiVersion": root["apiVersion"],
        "kind": root["kind"],
        "name": root["metadata"]["name"],
        "uid": root["metadata"]["uid"],
        "blockOwnerDeletion": True,
    }
    return {**obj, "metadata": {**obj["metadata"], "ownerReferences": [reference]}}
