"""IAM is enforced: roles of functions, IRSA, bucket policies."""

import json

from .conftest import policy

WRITER = """
import boto3
def handler(event, context):
    answers = {}
    for key in event["keys"]:
        try:
            boto3.client("s3").put_object(Bucket=event["bucket"], Key=key, Body=b"")
            answers[key] = "ok"
        except Exception as error:
            answers[key] = error.response["Error"]["Code"]
    return answers
"""


def test_a_bucket_that_demands_tls_is_usable(cloud):
    s3 = cloud.client("s3")
    s3.create_bucket(Bucket="secure", CreateBucketConfiguration={"LocationConstraint": "us-east-2"})
    deny = {
        "Effect": "Deny", "Principal": "*", "Action": "s3:*",
        "Resource": ["arn:aws:s3:::secure", "arn:aws:s3:::secure/*"],
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }  # fmt: skip
    s3.put_bucket_policy(Bucket="secure", Policy=policy([deny]))
    allowed = {"Effect": "Allow", "Action": "s3:PutObject", "Resource": "arn:aws:s3:::secure/*"}
    cloud.function("writes-securely", WRITER, [allowed])
    payload = json.dumps({"bucket": "secure", "keys": ["a"]})
    answer = cloud.client("lambda").invoke(FunctionName="writes-securely", Payload=payload)
    assert json.loads(answer["Payload"].read()) == {"a": "ok"}


def test_a_role_that_is_confined_to_a_metric_namespace_publishes_there_only(cloud):
    source = """
import boto3
def handler(event, context):
    answers = {}
    for namespace in event:
        try:
            data = [{"MetricName": "m" * 200, "Value": n} for n in range(100)]  # long enough to be compressed
            boto3.client("cloudwatch").put_metric_data(Namespace=namespace, MetricData=data)
            answers[namespace] = "ok"
        except Exception as error:
            answers[namespace] = error.response["Error"]["Code"]
    return answers
"""
    confined = {
        "Effect": "Allow", "Action": "cloudwatch:PutMetricData", "Resource": "*",
        "Condition": {"StringEquals": {"cloudwatch:namespace": "Qwen/LLMPerf"}},
    }  # fmt: skip
    cloud.function("publishes", source, [confined])
    answer = cloud.client("lambda").invoke(FunctionName="publishes", Payload=b'["Qwen/LLMPerf", "Other"]')
    answers = json.loads(answer["Payload"].read())
    assert answers["Qwen/LLMPerf"] == "ok"
    assert answers["Other"].startswith("AccessDenied")


CALLS = """
import boto3
def handler(event, context):
    answers = []
    for service, method, arguments in event["calls"]:
        try:
            getattr(boto3.client(service), method)(**arguments)
            answers.append("ok")
        except Exception as error:
            answers.append(error.response["Error"]["Code"])
    return answers
"""


def calls(cloud, name, statements, made):
    cloud.function(name, CALLS, statements)
    answer = cloud.client("lambda").invoke(FunctionName=name, Payload=json.dumps({"calls": made}))
    return json.loads(answer["Payload"].read())


def launch(**tags):
    specified = [{"Key": key.replace("_", "/"), "Value": value} for key, value in tags.items()]
    given = {"ResourceType": "instance", "Tags": specified}
    return {"ImageId": "ami-00000000", "MinCount": 1, "MaxCount": 1, "TagSpecifications": [given]}


def test_instances_are_launched_and_ended_by_their_tags(cloud):
    asked = {"Condition": {"StringEquals": {"aws:RequestTag/a/pool": "mine"}}}
    held = {"Condition": {"StringEquals": {"aws:ResourceTag/a/pool": "mine"}}}
    instance = "arn:aws:ec2:us-east-2:*:instance/*"
    allowed = [
        {"Effect": "Allow", "Action": "ec2:RunInstances", "Resource": instance} | asked,
        {"Effect": "Allow", "Action": "ec2:TerminateInstances", "Resource": instance} | held,
    ]
    ec2 = cloud.client("ec2")
    mine, other = (
        ec2.run_instances(**launch(a_pool=pool))["Instances"][0]["InstanceId"] for pool in ("mine", "another")
    )
    made = [
        ("ec2", "run_instances", launch(a_pool="mine")),
        ("ec2", "run_instances", launch(a_pool="another")),
        ("ec2", "run_instances", launch()),
        ("ec2", "terminate_instances", {"InstanceIds": [mine]}),
        ("ec2", "terminate_instances", {"InstanceIds": [other]}),
    ]
    no = "UnauthorizedOperation"
    assert calls(cloud, "instances", allowed, made) == ["ok", no, no, "ok", no]


def test_one_policy_can_be_attached_to_one_role_and_takes_effect(cloud):
    iam = cloud.client("iam")
    arns = [
        iam.create_policy(
            PolicyName=f"attachable-{number}",
            PolicyDocument=policy([{"Effect": "Deny", "Action": "s3:ListAllMyBuckets", "Resource": "*"}]),
        )["Policy"]["Arn"]
        for number in range(2)
    ]
    cloud.role(
        "closed", "lambda.amazonaws.com", [{"Effect": "Allow", "Action": "s3:ListAllMyBuckets", "Resource": "*"}]
    )
    role = "arn:aws:iam::*:role/closed"
    this = {"Condition": {"ArnEquals": {"iam:PolicyARN": arns[0]}}}
    allowed = [{"Effect": "Allow", "Action": "iam:AttachRolePolicy", "Resource": role} | this]
    made = [("iam", "attach_role_policy", {"RoleName": "closed", "PolicyArn": arn}) for arn in arns]
    assert calls(cloud, "attaches", allowed, made) == ["ok", "AccessDenied"]
    attached = iam.list_attached_role_policies(RoleName="closed")["AttachedPolicies"]
    assert [item["PolicyArn"] for item in attached] == [arns[0]]
