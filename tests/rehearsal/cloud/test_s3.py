"""Conditional writes: the capacity lease is a compare-and-swap on one object."""

import threading

import pytest
from botocore.exceptions import ClientError


@pytest.fixture(scope="module")
def s3(cloud):
    client = cloud.client("s3")
    client.create_bucket(Bucket="lease", CreateBucketConfiguration={"LocationConstraint": "us-east-2"})
    return client


def code(call, **arguments):
    with pytest.raises(ClientError) as error:
        call(**arguments)
    return error.value.response["Error"]["Code"]


def test_if_none_match_creates_only_once(s3):
    s3.put_object(Bucket="lease", Key="a", Body=b"1", IfNoneMatch="*")
    assert code(s3.put_object, Bucket="lease", Key="a", Body=b"2", IfNoneMatch="*") == "PreconditionFailed"
    assert s3.get_object(Bucket="lease", Key="a")["Body"].read() == b"1"


def test_if_match_writes_only_over_the_version_that_was_read(s3):
    first = s3.put_object(Bucket="lease", Key="b", Body=b"1")["ETag"]
    s3.put_object(Bucket="lease", Key="b", Body=b"2", IfMatch=first)
    assert code(s3.put_object, Bucket="lease", Key="b", Body=b"3", IfMatch=first) == "PreconditionFailed"
    assert s3.get_object(Bucket="lease", Key="b")["Body"].read() == b"2"


def test_one_of_many_concurrent_writers_wins(s3):
    etag = s3.put_object(Bucket="lease", Key="c", Body=b"0")["ETag"]
    won = []

    def write(number):
        try:
            s3.put_object(Bucket="lease", Key="c", Body=str(number).encode(), IfMatch=etag)
            won.append(number)
        except ClientError:
            pass

    threads = [threading.Thread(target=write, args=(n,)) for n in range(1, 17)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert s3.get_object(Bucket="lease", Key="c")["Body"].read() == str(won[0]).encode()
