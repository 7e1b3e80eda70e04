"""The bundle as a CDK asset: one object in the bootstrap bucket, for the Lambdas and for the pods."""

from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3_assets as s3_assets
from constructs import Construct

from constructs_lib.storage.bundle import Bundle


class BundleAsset(Construct):
    """`.code` is for Lambda functions. `.uri`, `.sha256` and `.object_arn` are for readers of the object in S3."""

    def __init__(self, scope: Construct, id: str, *, bundle: Bundle) -> None:
        super().__init__(scope, id)
        asset = s3_assets.Asset(self, "Asset", path=str(bundle.path))
        # The same file under the same hash: published once, as the object that `uri` names.
        self.code: lambda_.Code = lambda_.Code.from_asset(str(bundle.path))
        self.uri = asset.s3_object_url
        self.sha256 = bundle.sha256
        self.object_arn = asset.bucket.arn_for_objects(asset.s3_object_key)
