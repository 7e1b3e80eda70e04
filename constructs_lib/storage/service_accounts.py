"""The pods' service accounts. Pods that mount the bucket have a role that reads the mounted prefixes."""

from typing import Any

from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct, IDependable
from specdecode import names

from constructs_lib.acknowledgements import acknowledge_wildcards
from constructs_lib.cluster.irsa import ROLE_ANNOTATION, IrsaRole
from constructs_lib.cluster.manifest import apply
from constructs_lib.storage.bundle_asset import BundleAsset

READS: dict[str, tuple[str, ...]] = {
    "serving": ("models/", "compiled/"),
    "monitored": ("models/", "compiled/"),
    "benchmark": ("models/",),
}
"""Component -> prefixes that its pods mount. They write none."""


class ServiceAccounts(Construct):
    """A ServiceAccount with its IRSA role for every component of names.SERVICE_ACCOUNTS, and one without a role."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: eks.ICluster,
        bucket: s3.IBucket,
        key: kms.IKey | None,
        bundle: BundleAsset,
        needs: tuple[IDependable, ...],
    ) -> None:
        super().__init__(scope, id)
        for component, account in names.SERVICE_ACCOUNTS.items():
            irsa = IrsaRole(
                self,
                component.capitalize(),
                cluster=cluster,
                namespace=names.NAMESPACE,
                service_account=account,
            )
            _allow_bucket(irsa, component, bucket=bucket, key=key)
            if component == "monitored":  # its monitor is started by the bundle
                irsa.allow("s3:GetObject", resources=[bundle.object_arn])
                _allow_metrics(irsa)
            annotations = {"annotations": {ROLE_ANNOTATION: irsa.role.role_arn}}
            apply(
                self,
                f"{component.capitalize()}Account",
                cluster=cluster,
                manifest=_account(account, **annotations),
                needs=needs,
            )
        apply(self, "PlainAccount", cluster=cluster, manifest=_account(names.PLAIN_ACCOUNT), needs=needs)


def _account(name: str, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": names.NAMESPACE, **metadata},
        "automountServiceAccountToken": False,
    }


def _allow_bucket(irsa: IrsaRole, component: str, *, bucket: s3.IBucket, key: kms.IKey | None) -> None:
    """Read the component's prefixes.

    It may list the names of all objects. For a missing object S3 answers 404 only if the caller may list without a
    condition on the prefix, else 403; Mountpoint could then not tell "not there yet" from "forbidden".
    """
    objects = [bucket.arn_for_objects(f"{prefix}*") for prefix in READS[component]]
    irsa.allow("s3:GetObject", resources=objects)
    irsa.allow("s3:ListBucket", resources=[bucket.bucket_arn])
    acknowledge_wildcards(irsa, *objects, reason="Objects of the component's own prefixes, whatever their names.")
    if key is not None:
        irsa.allow("kms:Decrypt", resources=[key.key_arn])


def _allow_metrics(irsa: IrsaRole) -> None:
    """Publish the experiment's metrics, and no others."""
    irsa.allow(
        "cloudwatch:PutMetricData",
        resources=["*"],
        conditions={"StringEquals": {"cloudwatch:namespace": names.METRIC_NAMESPACE}},
    )
    acknowledge_wildcards(
        irsa, "*", reason="PutMetricData has no resource type; the condition confines it to one namespace."
    )
