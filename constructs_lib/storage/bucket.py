"""The artifact bucket: models, compiled artifacts, runs."""

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct
from specdecode import s3_keys

from constructs_lib.settings.fields import Settings

KEEP_OLD_VERSIONS_DAYS = 14
"""Days for which an overwritten or deleted object can be restored. They are billed: 0.023 USD per GB and month."""


class ArtifactBucket(Construct):
    """A private bucket that accepts TLS only, with access logs in a bucket of their own.

    Models and compiled artifacts stay. The folders of runs, reports too, expire if the settings say so. With `retain`
    the bucket stays when the stack is deleted: an artifact costs hours of a $36 node. Overwritten objects can be
    restored for two weeks.
    """

    def __init__(self, scope: Construct, id: str, *, settings: Settings) -> None:
        super().__init__(scope, id)
        destroy = settings.removal_policy == "destroy"
        # But for a deployment that fails while it creates them: its rollback deletes them, they are empty.
        policy = RemovalPolicy.DESTROY if destroy else RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
        self.key = (
            kms.Key(self, "Key", enable_key_rotation=True, removal_policy=policy)
            if settings.bucket_encryption == "kms"
            else None
        )
        aborted = s3.LifecycleRule(id="aborted-uploads", abort_incomplete_multipart_upload_after=Duration.days(2))
        access_logs = s3.Bucket(
            self,
            "AccessLogs",
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            encryption=s3.BucketEncryption.S3_MANAGED,
            enforce_ssl=True,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            lifecycle_rules=[
                aborted,
                s3.LifecycleRule(id="old-logs", expiration=Duration.days(settings.log_retention_days)),
            ],
            removal_policy=policy,
            auto_delete_objects=destroy,
        )
        rules = [
            aborted,
            s3.LifecycleRule(
                id="old-versions",
                noncurrent_version_expiration=Duration.days(KEEP_OLD_VERSIONS_DAYS),
                expired_object_delete_marker=True,
            ),
        ]
        forgotten = Duration.days(1)
        rules.append(
            s3.LifecycleRule(
                id="asks", prefix=s3_keys.ASKS, expiration=forgotten, noncurrent_version_expiration=forgotten
            )
        )
        if settings.run_retention_days:
            rules.append(
                s3.LifecycleRule(id="old-runs", prefix="runs/", expiration=Duration.days(settings.run_retention_days))
            )
        self.bucket = s3.Bucket(
            self,
            "Bucket",
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            encryption=s3.BucketEncryption.KMS if self.key else s3.BucketEncryption.S3_MANAGED,
            encryption_key=self.key,
            bucket_key_enabled=True if self.key else None,
            enforce_ssl=True,
            versioned=True,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            server_access_logs_bucket=access_logs,
            server_access_logs_prefix="artifacts/",
            lifecycle_rules=rules,
            removal_policy=policy,
            auto_delete_objects=destroy,
        )
