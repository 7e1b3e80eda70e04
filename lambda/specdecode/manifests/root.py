"""Objects before any pod: network policies, and the ConfigMap that owns all other objects."""

from specdecode import names
from specdecode.assets import kubernetes_objects
from specdecode.manifests.naming import RenderContext, labels, root_name
from specdecode.manifests.pods import KubeObject, config_map
from specdecode.planning import Plan


def network_policies() -> list[KubeObject]:
    """The same policies that the stack applies. They select by component, not by run: one set for the namespace.

    Inert without `enableNetworkPolicy` of vpc-cni.
    """
    return kubernetes_objects("network-policies.yaml")


def run_root(plan: Plan, ctx: RenderContext) -> KubeObject:
    """The first object that a run creates. It only says to which run the objects belong."""
    about = {"run": ctx.run_id, "experiment": plan.experiment.name}
    return config_map(root_name(ctx), labels(ctx, names.ROOT_COMPONENT), about)


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
