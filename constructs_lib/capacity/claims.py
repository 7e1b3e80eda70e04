"""ResourceClaimTemplates: one for each number of devices that arms on the node may claim."""

from aws_cdk import aws_eks_v2 as eks
from constructs import Construct, IDependable
from specdecode.experiment.claims import claim_template, is_whole, variant_of

from constructs_lib.cluster.manifest import apply
from constructs_lib.settings.fields import Settings


class ClaimTemplates(Construct):
    """One template for each size, in the namespace of the pods that name it.

    Nobody can edit a template (`field is immutable`). So what settings change has a name and a resource of its own:
    CloudFormation makes the new ones first, and deletes the old ones when all else is done.
    """

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
        driver, constraint = settings.guarded_driver, settings.claim_constraint
        for devices in settings.shape.claims:
            manifest = claim_template(devices, shape=settings.shape, driver=driver, constraint=constraint)
            size = "All" if is_whole(devices, settings.shape) else devices
            id = f"Devices{size}{variant_of(driver, constraint)}"
            apply(self, id, cluster=cluster, manifest=manifest, needs=needs)
