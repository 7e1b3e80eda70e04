"""`specdecode destroy` on the embedded cloud, as a user types it: it says what happens, and lies about nothing."""

import pytest
from botocore.exceptions import ClientError

from constructs_lib.settings.costs import capacity
from constructs_lib.settings.fields import Settings
from tests.rehearsal.cloud.test_patches import SLOW
from tests.rehearsal.cloud.test_readme import typed


def destroy(cloud, *words, region="us-east-2"):
    return typed([".venv/bin/specdecode", "destroy", *words], cloud, AWS_REGION=region)


@pytest.fixture
def deployed(cloud):
    settings = {"region": "us-east-2", "bucket_encryption": "kms"}
    guard = {"ServiceToken": cloud.function("holds", SLOW), "Settings": settings}
    spec = {
        "Bucket": {"Type": "AWS::S3::Bucket", "DeletionPolicy": "Retain", "Properties": {"BucketName": "artifacts-1"}},
        "Guard": {"Type": "Custom::SpecDecodeSettingsGuard", "Properties": guard},
    }
    cloud.deploy("TrainiumClusterStack", {"Topic": {"Type": "AWS::SNS::Topic"}})
    cloud.deploy("SpecDecodeStack", spec, BucketName={"Ref": "Bucket"}, Capacity=capacity(Settings()).model_dump_json())
    cloud.client("s3").put_object(Bucket="artifacts-1", Key="runs/a", Body=b"x" * 1000)


def standing(cloud):
    found = []
    for name in ("SpecDecodeStack", "TrainiumClusterStack"):
        try:
            found += cloud.client("cloudformation").describe_stacks(StackName=name)["Stacks"]
        except ClientError:
            continue
    return [stack["StackName"] for stack in found]


def test_it_deletes_what_is_there_and_fails_where_nothing_is(deployed, cloud):
    elsewhere = destroy(cloud, "--yes", region="us-west-2")
    assert elsewhere.returncode == 3 and elsewhere.stdout == ""
    assert "there is no deployment in us-west-2: nothing was deleted" in elsewhere.stderr
    assert "one is in us-east-2: `.venv/bin/specdecode destroy --region us-east-2`" in elsewhere.stderr
    unasked = destroy(cloud)
    assert unasked.returncode == 2 and "give --yes (nothing was deleted)" in unasked.stderr
    assert standing(cloud) == ["SpecDecodeStack", "TrainiumClusterStack"]

    ended = destroy(cloud, "--yes")
    assert ended.returncode == 0, ended.stderr
    what = ("what ends: 0.62 USD an hour", "the bucket artifacts-1, 0.0 GB at $0.00 a month", "five log groups")
    for words in (*what, "their KMS key at $1.00 a month"):
        assert words in ended.stdout
    assert ended.stdout.index("SpecDecodeStack is gone") < ended.stdout.index("TrainiumClusterStack is gone")
    assert standing(cloud) == []
    again = destroy(cloud, "--yes")
    assert again.returncode == 3 and "there is no deployment in us-east-2" in again.stderr
