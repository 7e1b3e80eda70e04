"""ResourceClaimTemplates: what an arm's pods ask of the Neuron DRA driver."""

from typing import Any, Literal

from specdecode import names
from specdecode.experiment.shapes import NodeShape

LOGICAL_NEURON_CORE = 2
"""Two physical cores make a logical one: 8 devices of 8 cores are 32 logical cores, for tensor parallelism 32."""

DRIVER = "neuron.aws.com"

TOPOLOGIES = (4, 8)
"""Numbers of devices for which the driver has an attribute of the place in the torus (deploy/eks/dra.rst)."""

ClaimConstraint = Literal["devicegroup", "topology", "none"]


def together(constraint: ClaimConstraint, devices: int) -> tuple[str, ...]:
    """Attributes that the devices of a claim share. One device shares everything with itself."""
    if devices == 1 or constraint == "none":
        return ()
    if constraint == "devicegroup":
        return (f"resource.aws.com/devicegroup{devices}_id",)
    return (f"{DRIVER}/topology{devices}_id",) if devices in TOPOLOGIES else ()


def variant_of(driver: str | None, constraint: ClaimConstraint) -> str:
    """What the names of a deployment's templates end in. Empty with the default settings."""
    return (f"-driver-{driver}" if driver else "") + (f"-{constraint}" if constraint != "devicegroup" else "")


def name_of(devices: int, shape: NodeShape, variant: str = "") -> str:
    """The template's name, as pods give it."""
    return names.claim_template(None if is_whole(devices, shape) else devices, LOGICAL_NEURON_CORE, variant=variant)


def is_whole(devices: int, shape: NodeShape) -> bool:
    """Whether a claim is for all devices of a node that has several."""
    return devices == shape.devices > 1


def claim_template(
    devices: int, *, shape: NodeShape, driver: str | None = None, constraint: ClaimConstraint = "devicegroup"
) -> dict[str, Any]:
    """A claim for `devices` Neuron devices that share their device group.

    With `driver` (`2.25`) only a node with a Neuron driver of that minor version is a match: with any other the pod
    stays Pending with the reason in its events, where the runtime would crash. The attribute is text of four numbers
    (aws-neuron-sdk, deploy/eks/dra.rst compares it with '2.25.4.0'). `constraint` says which attribute the devices
    must share: the device group, or, where the driver publishes none, the position in the torus.

    The whole node is `All`: refused at once while somebody holds one device. Its count makes the scheduler try every
    set of devices for 10 s, in which it places nobody's pods (a real 1.35.6; ExactDeviceRequest in resource.k8s.io/v1).
    """
    whole, attributes = is_whole(devices, shape), f"device.attributes['{DRIVER}']"
    expressions = [f"{attributes}.instanceType == '{shape.name}'"]
    expressions += [f"{attributes}.neuronDriverVersion.startsWith('{driver}.')"] if driver else []
    exactly = {
        "deviceClassName": DRIVER,
        **({"allocationMode": "All"} if whole else {"allocationMode": "ExactCount", "count": devices}),
        "selectors": [{"cel": {"expression": expression}} for expression in expressions],
    }
    cores = {"apiVersion": f"{DRIVER}/v1", "kind": "NeuronConfig", "logicalNeuronCore": LOGICAL_NEURON_CORE}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name_of(devices, shape, variant_of(driver, constraint)), "namespace": names.NAMESPACE},
        "spec": {
            "spec": {
                "devices": {
                    "requests": [{"name": "neurons", "exactly": exactly}],
                    "constraints": [
                        {"requests": ["neurons"], "matchAttribute": attribute}
                        for attribute in together(constraint, devices)
                    ],
                    "config": [{"requests": ["neurons"], "opaque": {"driver": DRIVER, "parameters": cores}}],
                }
            }
        },
    }
