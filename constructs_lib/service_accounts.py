"""The pods' service accounts: each its own role, each role its own prefix and action."""

from aws_cdk import Aws
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct, IDependable
from specdecode import names

from constructs_lib.acknowledgements import acknowledge_wildcards
from constructs_lib.bundle_asset import BundleAsset
from constructs_lib.irsa import ROLE_ANNOTATION, IrsaRole
from constructs_lib.manifest import apply

READS: dict[str, tuple[str, ...]] = {
    "staging": ("imports/", "models/"),
    "compile": ("models/", "compiled/"),
    "serving": ("models/", "compiled/"),
    "monitored": ("models/", "compiled/"),
    "benchmark": ("runs/", "models/"),
}
"""Component -> prefixes that it reads. A writer reads its own prefix: it must see what is there already."""

WRITES: dict[str, str] = {"staging": "models/", "compile": "compiled/", "benchmark": "runs/"}
"""Component -> the one prefix that it writes. Nothing is ever deleted."""

FETCHES_BUNDLE = ("staging", "compile", "monitored", "benchmark")
"""Components whose containers start with the project's own code; serving runs the engine alone."""
PUBLISHES = ("monitored",)
"""Components that publish metrics."""


class ServiceAccounts(Construct):
    """A ServiceAccount with its IRSA role for every component of names.SERVICE_ACCOUNTS."""

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
            if component in FETCHES_BUNDLE:
                irsa.allow("s3:GetObject", resources=[bundle.object_arn])
            if component == "staging":
                _allow_token(irsa)
            if component in PUBLISHES:
                _allow_metrics(irsa)
            apply(
                self,
                f"{component.capitalize()}Account",
                cluster=cluster,
                manifest={
                    "apiVersion": "v1",
                    "kind": "ServiceAccount",
                    "metadata": {
                        "name": account,
                        "namespace": names.NAMESPACE,
                        "annotations": {ROLE_ANNOTATION: irsa.role.role_arn},
                    },
                    "automountServiceAccountToken": False,
                },
                needs=needs,
            )


def _allow_bucket(irsa: IrsaRole, component: str, *, bucket: s3.IBucket, key: kms.IKey | None) -> None:
    """Read the component's prefixes and write its own.

    The names of all objects are listable: for a missing object S3 answers 404 only to one who may list without a
    condition on the prefix, else 403, by which staging and Mountpoint could not tell "not there yet" from "forbidden".
    """
    objects = [bucket.arn_for_objects(f"{prefix}*") for prefix in READS[component]]
    irsa.allow("s3:GetObject", resources=objects)
    irsa.allow("s3:ListBucket", resources=[bucket.bucket_arn])
    acknowledge_wildcards(irsa, *objects, reason="Objects of the component's own prefixes, whatever their names.")
    if component in WRITES:
        written = bucket.arn_for_objects(f"{WRITES[component]}*")
        irsa.allow("s3:PutObject", "s3:AbortMultipartUpload", resources=[written])
    if key is not None:
        irsa.allow("kms:Decrypt", resources=[key.key_arn])
        if component in WRITES:
            irsa.allow("kms:GenerateDataKey", resources=[key.key_arn])


def _allow_token(irsa: IrsaRole) -> None:
    """Read the Hugging Face token, if somebody stored one; a secret's ARN ends with six random characters."""
    arn = f"arn:{Aws.PARTITION}:secretsmanager:{Aws.REGION}:{Aws.ACCOUNT_ID}:secret:{names.HF_TOKEN_SECRET}-??????"
    irsa.allow("secretsmanager:GetSecretValue", resources=[arn])


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
