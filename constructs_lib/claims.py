"""ResourceClaimTemplates: one for each number of devices that arms on the node may claim."""

from aws_cdk import aws_eks_v2 as eks
from constructs import Construct, IDependable
from specdecode import names
from specdecode.experiment.shapes import NodeShape

from constructs_lib.manifest import Manifest, apply
from constructs_lib.settings import ClaimConstraint, Settings

LOGICAL_NEURON_CORE = 2
"""Two physical cores to a logical one: 8 devices of 8 cores are 32 logical cores, tensor parallelism 32."""

DRIVER = "neuron.aws.com"

TOPOLOGIES = (4, 8)
"""Numbers of devices for which the driver has an attribute of the place in the torus (deploy/eks/dra.rst)."""


def together(constraint: ClaimConstraint, devices: int) -> tuple[str, ...]:
    """Attributes that the devices of a claim share. One device shares everything with itself."""
    if devices == 1 or constraint == "none":
        return ()
    if constraint == "devicegroup":
        return (f"resource.aws.com/devicegroup{devices}_id",)
    return (f"{DRIVER}/topology{devices}_id",) if devices in TOPOLOGIES else ()


class ClaimTemplates(Construct):
    """One template a size, in the namespace of the pods that name it."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: eks.ICluster,
        needs: tuple[IDependable, ...],
        settings: Settings,
    ) -> None:
        super().__init__(scope, id)
        driver = ".".join(settings.neuron_driver.split(".")[:2]) if settings.driver_guard else None
        for devices in settings.shape.claims:
            apply(
                self,
                f"Devices{devices}",
                cluster=cluster,
                manifest=claim_template(
                    devices, shape=settings.shape, driver=driver, constraint=settings.claim_constraint
                ),
                needs=needs,
            )


def claim_template(devices: int, *, shape: NodeShape, driver: str | None, constraint: ClaimConstraint) -> Manifest:
    """A claim for `devices` Neuron devices that share their device group.

    With `driver` (`2.25`) only a node with a Neuron driver of that minor version is a match: with any other the pod
    stays Pending with the reason in its events, where the runtime would crash. The attribute is text of four numbers
    (aws-neuron-sdk, deploy/eks/dra.rst compares it with '2.25.4.0'). `constraint` says which attribute the devices
    must share: the device group, or, where the driver publishes none, the position in the torus.
    """
    attributes = f"device.attributes['{DRIVER}']"
    selectors = [f"{attributes}.instanceType == '{shape.name}'"]
    if driver:
        selectors.append(f"{attributes}.neuronDriverVersion.startsWith('{driver}.')")
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {
            "name": names.claim_template(devices, LOGICAL_NEURON_CORE),
            "namespace": names.NAMESPACE,
        },
        "spec": {
            "spec": {
                "devices": {
                    "requests": [
                        {
                            "name": "neurons",
                            "exactly": {
                                "deviceClassName": DRIVER,
                                "allocationMode": "ExactCount",
                                "count": devices,
                                "selectors": [{"cel": {"expression": expression}} for expression in selectors],
                            },
                        }
                    ],
                    "constraints": [
                        {"requests": ["neurons"], "matchAttribute": attribute}
                        for attribute in together(constraint, devices)
                    ],
                    "config": [
                        {
                            "requests": ["neurons"],
                            "opaque": {
                                "driver": DRIVER,
                                "parameters": {
                                    "apiVersion": f"{DRIVER}/v1",
                                    "kind": "NeuronConfig",
                                    "logicalNeuronCore": LOGICAL_NEURON_CORE,
                                },
                            },
                        }
                    ],
                }
            }
        },
    }
