"""ResourceClaimTemplates: 8 devices of one device group (two arms on a node), and all 16."""

from aws_cdk import aws_eks_v2 as eks
from constructs import Construct, IDependable
from specdecode import names

from constructs_lib.manifest import Manifest, apply
from constructs_lib.settings import ClaimConstraint, Settings
from constructs_lib.trainium import INSTANCE_TYPE

SIZES = (8, 16)
LOGICAL_NEURON_CORE = 2
"""Two physical cores to a logical one: 8 devices of 8 cores are 32 logical cores, tensor parallelism 32."""

DRIVER = "neuron.aws.com"

TOGETHER: dict[ClaimConstraint, dict[int, tuple[str, ...]]] = {
    "devicegroup": {size: (f"resource.aws.com/devicegroup{size}_id",) for size in SIZES},
    "topology": {8: (f"{DRIVER}/topology8_id",)},
    "none": {},
}
"""Setting -> devices -> attributes that the devices of a claim share. All 16 devices share everything."""


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
        for devices in SIZES:
            apply(
                self,
                f"Devices{devices}",
                cluster=cluster,
                manifest=claim_template(devices, driver=driver, together=settings.claim_constraint),
                needs=needs,
            )


def claim_template(devices: int, *, driver: str | None, together: ClaimConstraint) -> Manifest:
    """A claim for `devices` Neuron devices that share their device group.

    With `driver` (`2.25`) only a node with a Neuron driver of that minor version is a match: with any other the pod
    stays Pending with the reason in its events, where the runtime would crash. The attribute is text of four numbers
    (aws-neuron-sdk, deploy/eks/dra.rst compares it with '2.25.4.0'). `together` names the attribute that the devices
    must share: the device group, or, where the driver publishes none, the position in the torus.
    """
    attributes = f"device.attributes['{DRIVER}']"
    selectors = [f"{attributes}.instanceType == '{INSTANCE_TYPE}'"]
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
                        for attribute in TOGETHER[together].get(devices, ())
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
