"""Which region and credentials a session has, and that there is one place that makes sessions."""

import ast
import re
from pathlib import Path

import pytest
import specdecode
from botocore.exceptions import ProfileNotFound
from specdecode import aws

CONFIG = """[default]
region = eu-west-1
[profile work]
region = ap-southeast-4
[profile bare]
"""
KEYS = """[default]
aws_access_key_id = d
aws_secret_access_key = s
[work]
aws_access_key_id = w
aws_secret_access_key = s
"""


@pytest.fixture
def user(monkeypatch, tmp_path):
    """A user's machine with two profiles; gives the function that exports variables."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    for name, text in (("AWS_CONFIG_FILE", CONFIG), ("AWS_SHARED_CREDENTIALS_FILE", KEYS)):
        (tmp_path / name).write_text(text)
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setattr(aws, "_process", [])
    return monkeypatch.setenv


@pytest.mark.parametrize(
    ("given", "exported", "region"),
    [
        ({"region": "us-west-2"}, {"AWS_REGION": "us-east-2"}, "us-west-2"),
        ({}, {"AWS_REGION": "us-east-2"}, "us-east-2"),
        ({}, {"AWS_REGION": "us-east-2", "AWS_DEFAULT_REGION": "us-east-1"}, "us-east-2"),
        ({}, {"AWS_REGION": "", "AWS_DEFAULT_REGION": "us-east-1"}, "us-east-1"),
        ({}, {"AWS_DEFAULT_REGION": "us-east-1", "AWS_PROFILE": "work"}, "us-east-1"),
        ({"profile": "work"}, {"AWS_REGION": "us-east-2"}, "us-east-2"),
        ({"profile": "work"}, {}, "ap-southeast-4"),
        ({}, {"AWS_PROFILE": "work"}, "ap-southeast-4"),
        ({}, {}, "eu-west-1"),
    ],
)
def test_the_region_is_that_of_the_aws_cli(user, given, exported, region):
    for name, value in exported.items():
        user(name, value)
    assert aws.session(**given).region_name == region


def test_no_region_anywhere_says_what_to_do(user):
    with pytest.raises(aws.NoRegion, match=r"export AWS_REGION=.*--region.*--profile"):
        aws.session(profile="bare")


def test_the_credentials_are_the_profile_s(user):
    user("AWS_ACCESS_KEY_ID", "exported")
    user("AWS_SECRET_ACCESS_KEY", "s")
    assert aws.session(profile="work").get_credentials().access_key == "w"
    assert aws.session().get_credentials().access_key == "exported"
    with pytest.raises(ProfileNotFound):
        aws.session(profile="other")


def test_clients_of_a_process_share_the_session_that_was_chosen(user):
    aws.choose(region="us-east-2", profile="work")
    first, second = aws.client("s3"), aws.client("cloudwatch")
    assert [one.meta.region_name for one in (first, second)] == ["us-east-2"] * 2
    assert first._request_signer._credentials is second._request_signer._credentials
    user("AWS_REGION", "us-west-2")
    assert aws.client("sqs").meta.region_name == "us-east-2"


def test_sts_is_asked_in_the_region_whatever_boto3_does_by_itself(user):
    user("AWS_STS_REGIONAL_ENDPOINTS", "legacy")
    assert aws.session(region="us-east-2").client("sts").meta.endpoint_url == "https://sts.us-east-2.amazonaws.com"


def test_nothing_else_makes_sessions_or_clients():
    """`boto3.client`, `boto3.Session` and the like stand in one file of the package."""
    package = Path(specdecode.__file__).parent
    makers = re.compile(r"(boto3|botocore\.session)$")
    found = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        and any(makers.match(name) for name in [getattr(node, "module", "") or "", *(a.name for a in node.names)])
    }
    assert found == {"aws.py"}
