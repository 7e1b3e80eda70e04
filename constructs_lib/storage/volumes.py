"""Read-only views of the bucket for serving pods: one PersistentVolume and claim for each prefix."""

from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_s3 as s3
from constructs import Construct, IDependable
from specdecode import names
from specdecode.experiment.capacity import COPY_STREAMS
from specdecode.experiment.shapes import TRN2

from constructs_lib.cluster.addons import addon
from constructs_lib.cluster.manifest import Manifest, apply
from constructs_lib.settings.fields import Settings

PREFIXES = ("models", "compiled")
MOUNT_OPTIONS = (
    "read-only",
    "allow-other",  # the pods' user is not root
    # Without the metadata service, which pods cannot reach, it assumes 10.
    f"maximum-throughput-gbps {TRN2.link_gbps:g}",
    f"max-threads {4 * COPY_STREAMS}",  # 16 operations at once would be one arm's copy
)
"""Options of Mountpoint (doc/CONFIGURATION.md of 1.23) beside region and prefix. How far it reads ahead is no option:
only an unstable environment variable sets it, and the driver does not pass that on.
"""
SIZE = "10Ti"
"""A size is required by Kubernetes and ignored by the driver."""


class Volumes(Construct):
    """The Mountpoint for S3 CSI add-on (a cluster that exists has it), and the volumes that it mounts.

    Credentials are those of the pod's service account, so the add-on needs no role. The Mountpoint pods, one a volume,
    request CPU and memory: without requests they are the first to be evicted from a full node. They have no memory
    limit: a pod that is killed at its limit does not come back for the pods that use it (awslabs/mountpoint-s3, issue
    1556). The files that are read at once bound the memory that it needs (ADR 178).
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: eks.ICluster,
        bucket: s3.IBucket,
        needs: tuple[IDependable, ...],
        settings: Settings,
    ) -> None:
        super().__init__(scope, id)
        if not settings.existing_cluster:
            needs = (
                *needs,
                addon(self, "CsiDriver", cluster=cluster, name="aws-mountpoint-s3-csi-driver", settings=settings),
            )
        self.claims = []
        for prefix in PREFIXES:
            volume = apply(
                self,
                f"{prefix.capitalize()}Volume",
                cluster=cluster,
                manifest=persistent_volume(prefix, bucket_name=bucket.bucket_name, region=settings.region),
                needs=needs,
            )
            self.claims.append(
                apply(
                    self,
                    f"{prefix.capitalize()}Claim",
                    cluster=cluster,
                    manifest=persistent_volume_claim(prefix),
                    needs=(volume, *needs),
                )
            )


def persistent_volume(prefix: str, *, bucket_name: str, region: str) -> Manifest:
    """A read-only volume of the bucket below `prefix`/."""
    name = names.model_pv(prefix)
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": SIZE},
            "accessModes": ["ReadOnlyMany"],
            "storageClassName": "",
            "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": {"namespace": names.NAMESPACE, "name": name},
            "mountOptions": [*MOUNT_OPTIONS, f"region {region}", f"prefix {prefix}/"],
            "csi": {
                "driver": "s3.csi.aws.com",
                "volumeHandle": name,
                "volumeAttributes": {
                    "bucketName": bucket_name,
                    "authenticationSource": "pod",
                    "stsRegion": region,
                    "mountpointContainerResourcesRequestsCpu": "500m",
                    "mountpointContainerResourcesRequestsMemory": "1Gi",
                },
            },
        },
    }


def persistent_volume_claim(prefix: str) -> Manifest:
    """The claim of that volume, in the workloads' namespace."""
    name = names.model_pv(prefix)
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": names.NAMESPACE},
        "spec": {
            "accessModes": ["ReadOnlyMany"],
            "storageClassName": "",
            "volumeName": name,
            "resources": {"requests": {"storage": SIZE}},
        },
    }
