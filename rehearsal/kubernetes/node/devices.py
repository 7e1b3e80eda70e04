"""The Neuron DRA driver's kubelet plugin: it prepares a claim before the pod may start."""

from rehearsal.kubernetes import resources as r
from rehearsal.kubernetes.controllers import allocation
from rehearsal.kubernetes.etcd import Store
from rehearsal.kubernetes.objects import Json, dig, namespace_of

DRIVER = "neuron.aws.com"
_FIELDS = {"apiVersion", "kind", "logicalNeuronCore"}


class PrepareError(Exception):
    """The driver refuses a claim: the pod stays in ContainerCreating."""


def prepare(store: Store, pod: Json) -> None:
    """Check the opaque configuration of each claim as the driver does. Raises PrepareError."""
    for _, name in allocation.claims_of(store, pod):
        claim = store.get(r.CLAIMS, namespace_of(pod), str(name))
        for entry in dig(claim, "status", "allocation", "devices", "config", default=()):
            if dig(entry, "opaque", "driver") != DRIVER:
                continue
            problem = _problem(entry["opaque"].get("parameters") or {})
            if problem:
                raise PrepareError(
                    f"Failed to prepare dynamic resources: NodePrepareResources failed for claim {name}: {problem}"
                )


def _problem(parameters: Json) -> str:
    if parameters.get("apiVersion") != "neuron.aws.com/v1" or parameters.get("kind") != "NeuronConfig":
        return f'no kind "{parameters.get("kind")}" is registered for version "{parameters.get("apiVersion")}"'
    unknown = sorted(set(parameters) - _FIELDS)
    if unknown:
        return f'strict decoding error: unknown field "{unknown[0]}"'
    if parameters.get("logicalNeuronCore", 1) not in (1, 2):
        return f"logicalNeuronCore must be 1 or 2, not {parameters['logicalNeuronCore']}"
    return ""
