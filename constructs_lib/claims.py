"""ResourceClaimTemplates: 8 devices of one device group (two arms on a node), and all 16."""

from aws_cdk import aws_eks_v2 as eks
from constructs import Construct, IDependable
from specdecode import names

from constructs_lib.manifest import Manifest, apply
from constructs_lib.trainium import INSTANCE_TYPE

SIZES = (8, 16)
LOGICAL_NEURON_CORE = 2
"""Two physical cores to a logical one: 8 devices of 8 cores are 32 logical cores, tensor parallelism 32."""

DRIVER = "neuron.aws.com"


class ClaimTemplates(Construct):
    """One template a size, in the namespace of the pods that name it."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: eks.ICluster,
        needs: tuple[IDependable, ...],
        driver_below: str | None,
    ) -> None:
        super().__init__(scope, id)
        for devices in SIZES:
            apply(
                self,
                f"Devices{devices}",
                cluster=cluster,
                manifest=claim_template(devices, driver_below=driver_below),
                needs=needs,
            )


def claim_template(devices: int, *, driver_below: str | None) -> Manifest:
    """A claim for `devices` Neuron devices that share their device group.

    With `driver_below` a node whose Neuron driver is that version or newer is no match: the pod stays Pending with
    the reason in its events, where the runtime would crash.
    """
    attributes = f"device.attributes['{DRIVER}']"
    selectors = [f"{attributes}.instanceType == '{INSTANCE_TYPE}'"]
    if driver_below:
        semver = ".".join([*driver_below.split("."), "0", "0"][:3])
        selectors.append(f"{attributes}.neuronDriverVersion.compareTo(semver('{semver}')) < 0")
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
                        {"requests": ["neurons"], "matchAttribute": f"resource.aws.com/devicegroup{devices}_id"}
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
