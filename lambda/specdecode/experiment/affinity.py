"""EFA interfaces of the node, by which workers of the native plugin pin their CPUs.

A worker looks for the EFA interface beside its Neuron device, pins its threads to that interface's NUMA node, and ends
if there is none, unless a variable says not to look (vllm-project/vllm-neuron, vllm_neuron/vllm/worker/neuron_worker.py
and vllm_neuron/utils/hardware_config.py). Karpenter attaches an EFA interface only if a node class asks for it.
"""

from __future__ import annotations

from specdecode.experiment.capacity import Capacity
from specdecode.experiment.engine import Engine
from specdecode.experiment.model import ServedExperiment

SKIP = "NEURON_SKIP_EFA_AFFINITY"
"""Not "0": workers do not look. The files of native engines set it."""


def on_node_of(capacity: Capacity, experiment: ServedExperiment, engine: Engine) -> ServedExperiment:
    """The experiment with workers that look, if the node has the interfaces and the experiment says nothing else."""
    serving = experiment.serving
    if SKIP not in engine.env or SKIP in serving.env or not capacity.of(experiment.node).efa_interfaces:
        return experiment
    return experiment.model_copy(update={"serving": serving.model_copy(update={"env": {**serving.env, SKIP: "0"}})})


def in_words(experiment: ServedExperiment, engine: Engine) -> str | None:
    """How workers pinned their CPUs, for the report. None if the engine does not pin any."""
    if SKIP not in engine.env:
        return None
    skipped = experiment.serving.env.get(SKIP, engine.env[SKIP]) != "0"
    return f"not pinned ({SKIP})" if skipped else "pinned by the node's EFA interfaces"
