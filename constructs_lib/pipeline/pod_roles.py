"""The most that pods may do: roles that the pipeline's functions assume, each time with a session policy (ADR 127)."""

from collections.abc import Mapping

from aws_cdk import Aws
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from constructs import Construct
from specdecode import names

from constructs_lib.acknowledgements import acknowledge_wildcards
from constructs_lib.storage.bundle_asset import BundleAsset

READS: dict[str, tuple[str, ...]] = {
    "staging": ("imports/", "models/", "prompts/"),
    "compile": ("models/", "compiled/"),
    "results": ("runs/", "asks/"),
}
"""Role -> prefixes that it reads. A writer reads its own prefix, to see what is there already."""

WRITES: dict[str, tuple[str, ...]] = {
    "staging": ("models/", "prompts/"),
    "compile": ("compiled/",),
    "results": ("runs/", "asks/"),
}
"""Role -> prefixes that it writes."""

CLEARS = ("models/", "compiled/", "asks/")
"""Prefixes where a writer also deletes: what an upload that ended early has left in the folder that it finishes. The
bucket keeps deleted files as old versions for a while, as it keeps those that are written over.
"""


class PodRoles(Construct):
    """A role for every entry of names.POD_ROLES. Only the functions of that entry may assume it: no pod can."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        functions: Mapping[str, lambda_.Function],
        bucket: s3.IBucket,
        key: kms.IKey | None,
        bundle: BundleAsset,
    ) -> None:
        super().__init__(scope, id)
        for name, takers in names.POD_ROLES.items():
            givers = [functions[taker] for taker in takers]
            principals = [iam.ArnPrincipal(_role_of(function).role_arn) for function in givers]
            role = iam.Role(
                self,
                f"{name.capitalize()}Role",
                assumed_by=iam.CompositePrincipal(*principals),
                description=f"What pods get a part of from {', '.join(takers)}",
            )
            _allow_bucket(role, name, bucket=bucket, key=key)
            _allow(role, "s3:GetObject", resources=[bundle.object_arn])
            if name == "staging":
                _allow_token(role)
            for function in givers:
                function.add_to_role_policy(iam.PolicyStatement(actions=["sts:AssumeRole"], resources=[role.role_arn]))
                function.add_environment("POD_ROLE_ARN", role.role_arn)


def _role_of(function: lambda_.Function) -> iam.IRole:
    assert function.role  # noqa: S101 (every function is made with one)
    return function.role


def _allow(role: iam.Role, *actions: str, resources: list[str]) -> None:
    role.add_to_policy(iam.PolicyStatement(actions=list(actions), resources=resources))


def _allow_bucket(role: iam.Role, name: str, *, bucket: s3.IBucket, key: kms.IKey | None) -> None:
    """Read the role's prefixes and write its own.

    It may list the names of all objects. For a missing object S3 answers 404 only if the caller may list without a
    condition on the prefix, else 403; staging could then not tell "not there yet" from "forbidden".
    """
    objects = [bucket.arn_for_objects(f"{prefix}*") for prefix in READS[name]]
    written = [bucket.arn_for_objects(f"{prefix}*") for prefix in WRITES[name]]
    _allow(role, "s3:GetObject", resources=objects)
    _allow(role, "s3:ListBucket", resources=[bucket.bucket_arn])
    _allow(role, "s3:PutObject", "s3:AbortMultipartUpload", resources=written)
    if cleared := [bucket.arn_for_objects(f"{prefix}*") for prefix in WRITES[name] if prefix in CLEARS]:
        _allow(role, "s3:DeleteObject", resources=cleared)
    if key is not None:
        _allow(role, "kms:Decrypt", "kms:GenerateDataKey", resources=[key.key_arn])
    acknowledge_wildcards(role, *objects, reason="A session policy narrows it to the folders of one step of one run.")


def _allow_token(role: iam.Role) -> None:
    """Read the Hugging Face token, if one was stored. A secret's ARN ends with six random characters."""
    arn = f"arn:{Aws.PARTITION}:secretsmanager:{Aws.REGION}:{Aws.ACCOUNT_ID}:secret:{names.HF_TOKEN_SECRET}-??????"
    _allow(role, "secretsmanager:GetSecretValue", resources=[arn])
