"""ResourceClaimTemplates: one for each number of devices that arms on the node may claim."""

from aws_cdk import aws_eks_v2 as eks
from constructs import Construct, IDependable
from specdecode.experiment.claims import claim_template

from constructs_lib.cluster.manifest import apply
from constructs_lib.settings.fields import Settings


class ClaimTemplates(Construct):
    """One template for each size, in the namespace of the pods that name it."""

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
