import pytest

from tests.access.policies import NotUnderstood, allows

READ = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::b/runs/*"}
ASKED = {"action": "s3:GetObject", "resource": "arn:aws:s3:::b/runs/r"}


@pytest.mark.parametrize(
    ("changes", "allowed"),
    [
        ({}, True),
        ({"Action": ["s3:PutObject", "s3:Get*"]}, True),
        ({"Action": "S3:getobject"}, True),
        ({"Action": "s3:PutObject"}, False),
        ({"Resource": "arn:aws:s3:::b/Runs/*"}, False),
        ({"Resource": "arn:aws:s3:::b/runs"}, False),
        ({"Resource": "arn:aws:s3:::b/runs/?"}, True),
        ({"Resource": "arn:aws:s3:::b/runs/[r]"}, False),
        ({"Resource": ["x", "*"]}, True),
        ({"Condition": {"StringEquals": {"aws:RequestedRegion": "us-east-2"}}}, True),
        ({"Condition": {"StringEquals": {"aws:RequestedRegion": ["x", "us-east-2"]}}}, True),
        ({"Condition": {"StringEquals": {"aws:RequestedRegion": "us-*"}}}, False),
        ({"Condition": {"StringLike": {"aws:RequestedRegion": "us-*"}}}, True),
        ({"Condition": {"StringEquals": {"aws:RequestTag/a": "b"}}}, False),
        ({"Condition": {"ArnEquals": {"iam:PolicyARN": "arn:a"}}}, False),
        ({"Condition": {"StringEqualsIfExists": {"aws:RequestTag/a": "b"}}}, True),
        ({"Condition": {"ForAllValues:StringEquals": {"aws:TagKeys": ["a", "b", "c"]}}}, True),
        ({"Condition": {"ForAllValues:StringEquals": {"aws:TagKeys": ["a"]}}}, False),
        ({"Condition": {"Null": {"aws:RequestedRegion": "true"}}}, False),
        ({"Condition": {"Null": {"aws:RequestedRegion": "false"}}}, True),
        ({"Condition": {"Null": {"aws:RequestTag/a": "true"}}}, True),
        ({"Condition": {"Null": {"aws:RequestTag/a": "false"}}}, False),
        ({"Condition": {"StringEquals": {"aws:RequestedRegion": "us-east-2", "aws:RequestTag/a": "b"}}}, False),
    ],
)
def test_a_statement(changes, allowed):
    context = {"aws:RequestedRegion": "us-east-2", "aws:TagKeys": ("a", "b")}
    assert allows([READ | changes], **ASKED, context=context) is allowed


def test_a_denial_wins_and_silence_refuses():
    assert not allows([READ, READ | {"Effect": "Deny"}], **ASKED)
    assert not allows([], **ASKED)


@pytest.mark.parametrize(
    "statement",
    [
        READ | {"NotAction": "x"},
        READ | {"NotResource": "x"},
        READ | {"Principal": "*"},
        READ | {"Effect": "allow"},
        READ | {"Condition": {"DateGreaterThan": {"aws:CurrentTime": "x"}}},
        READ | {"Condition": {"ForAnyValue:StringEquals": {"aws:TagKeys": "x"}}},
    ],
)
def test_what_is_not_known_is_not_guessed(statement):
    with pytest.raises(NotUnderstood):
        allows([statement], **ASKED)
