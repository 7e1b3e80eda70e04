"""The winning arm as a Deployment to keep: served as in the run, without the objects of the run."""

from typing import Any

from specdecode import names
from specdecode.manifests.naming import RenderContext
from specdecode.manifests.pods import KubeObject
from specdecode.manifests.serving import serving
from specdecode.planning import Plan


def production(plan: Plan, variant: str, *, name: str, replicas: int, ctx: RenderContext) -> list[KubeObject]:
    """Deployment and Service of `variant`, called `name`: the run's container, claim, mounts, probes and checks.

    They are the user's: with no label, owner or key of the run, and placed by instance type, since the pipeline's pool
    has no node while nothing runs.
    """
    arm = next(arm for wave in plan.waves for arm in wave.arms if arm.variant == variant)
    deployment, service = serving(plan, arm, ctx)
    own = {"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": plan.experiment.name}
    made = {"name": name, "namespace": names.NAMESPACE, "labels": own}
    template = deployment["spec"]["template"]
    pod: dict[str, Any] = {
        **template["spec"],
        "containers": [_with_key(each, name) for each in template["spec"]["containers"]],
        "nodeSelector": {"node.kubernetes.io/instance-type": plan.experiment.shape.name},
    }
    return [
        {
            **deployment,
            "metadata": made,
            "spec": {
                **deployment["spec"],
                "replicas": replicas,
                "selector": {"matchLabels": own},
                "template": {**template, "metadata": {**template["metadata"], "labels": own}, "spec": pod},
            },
        },
        {**service, "metadata": made, "spec": {**service["spec"], "selector": own}},
    ]


def _with_key(container: KubeObject, name: str) -> KubeObject:
    """The container with its API key from a Secret of the user's."""
    env = [
        {**each, "valueFrom": {"secretKeyRef": {**each["valueFrom"]["secretKeyRef"], "name": name}}}
        if "secretKeyRef" in each.get("valueFrom", {})
        else each
        for each in container.get("env", [])
    ]
    return {**container, "env": env}
