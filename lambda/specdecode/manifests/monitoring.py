"""An optional container beside a server. It publishes neuron-monitor's figures of the server's NeuronCores (ADR
127).
"""

from __future__ import annotations

from specdecode import names
from specdecode.experiment.capacity import MONITOR
from specdecode.manifests.bundle import bundle_env, bundle_script
from specdecode.manifests.context import RenderContext
from specdecode.manifests.pods import KubeObject, container, word
from specdecode.planning import Arm, Plan

CONTAINER = "neuron-monitor"
SCRATCH = "monitor-"
"""Prefix of the names of its own volumes. The engine cannot write there."""


def monitored(template: KubeObject, plan: Plan, arm: Arm, ctx: RenderContext) -> KubeObject:
    """The serving pod's `template` with the monitor in it, the account that may publish, and a way to do so.

    It shares the server's claim, to see its devices, and nothing else: it has credentials, and the engine has none.
    Whatever happens to it, the container stays: a pod is only ready, and an arm only measured, with all its containers.
    """
    script = bundle_script("specdecode.pod.neuron_metrics", ["--variant", word(arm.label)])
    beside = container(
        name=CONTAINER,
        image=plan.engine.reference,
        script=f"sh -c {word(script)} || true\nexec sleep infinity",
        env=bundle_env(ctx),
        resources=MONITOR,
        scratch=SCRATCH,
        read_only_root=False,
    )
    beside["resources"]["claims"] = [{"name": "neuron"}]
    metadata, spec = template["metadata"], template["spec"]
    return {
        "metadata": {**metadata, "labels": {**metadata["labels"], names.MONITORED_LABEL: "true"}},
        "spec": {
            **spec,
            "serviceAccountName": names.SERVICE_ACCOUNTS["monitored"],
            "containers": [*spec["containers"], beside],
            "volumes": [*spec["volumes"], *({"name": f"{SCRATCH}{name}", "emptyDir": {}} for name in ("work", "tmp"))],
        },
    }
