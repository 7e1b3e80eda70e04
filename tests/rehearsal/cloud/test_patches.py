"""The emulator is pinned. Each function that we replace exists in it."""

import json
import socket
import subprocess
from urllib.parse import urlsplit

from rehearsal import tools
from tests.patience import PATIENCE_S

LOOK = """
import importlib, json, os, pathlib, sys
os.environ["GATEWAY_PORT"] = "1"
from rehearsal.cloud.kubernetes import Kubernetes
from rehearsal.cloud.patches import patches
kubernetes = Kubernetes(url="https://127.0.0.1:1", ca_file=pathlib.Path("ca"), token="t")
found = {}
for patch in patches(kubernetes=kubernetes, runtime=pathlib.Path("r")):
    module = importlib.import_module(patch.module)
    before = getattr(module, patch.attribute)
    size = len(before) if isinstance(before, dict) else 0
    patch.apply()
    after = getattr(module, patch.attribute)
    found[f"{patch.module}.{patch.attribute}"] = after is not before or len(after) > size
print(json.dumps(found))
"""


def test_every_patch_point_exists_and_is_replaced(tmp_path):
    result = subprocess.run(
        [tools.CLOUD_PYTHON, "-c", LOOK],
        cwd=tools.ROOT, capture_output=True, text=True, check=True, timeout=PATIENCE_S,
        env=tools.environment({"TMPDIR": str(tmp_path)}),
    )  # fmt: skip
    found = json.loads(result.stdout)
    assert len(found) == 21
    assert all(found.values()), found


def test_the_emulators_version_is_pinned():
    pins = (tools.ROOT / "requirements" / "cloud.in").read_text().splitlines()
    assert [line for line in pins if line.startswith("ministack")] == ["ministack==1.5.33"]


def test_a_connection_that_a_client_closes_is_closed(cloud):
    """Each holds a file of the emulator, and a rehearsal opens hundreds in a minute."""
    url = urlsplit(cloud.services.endpoint)
    with socket.create_connection((url.hostname, url.port), timeout=20) as client:
        client.sendall(b"GET /_ministack/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert client.recv(65536).startswith(b"HTTP/1.1")
        client.shutdown(socket.SHUT_WR)
        while client.recv(65536):
            pass


def test_types_that_are_only_remembered_deploy_update_and_delete(cloud):
    types = {
        "AWS::EC2::EIP": {"Domain": "vpc"},
        "AWS::EC2::NatGateway": {"SubnetId": "subnet-1", "AllocationId": {"Fn::GetAtt": ["AWSEC2EIP", "AllocationId"]}},
        "AWS::EC2::FlowLog": {"ResourceId": "vpc-1", "ResourceType": "VPC"},
        "AWS::EC2::SecurityGroupIngress": {"GroupId": "sg-1", "IpProtocol": "tcp"},
        "AWS::Budgets::Budget": {"Budget": {"BudgetType": "COST", "TimeUnit": "MONTHLY"}},
        "AWS::CloudWatch::CompositeAlarm": {"AlarmRule": "TRUE"},
        "AWS::CloudWatch::Alarm": {
            "ComparisonOperator": "GreaterThanThreshold", "EvaluationPeriods": 1, "Threshold": 1,
            "Metrics": [{"Id": "e", "Expression": "1 + 1"}],
        },
    }  # fmt: skip
    resources = {name.replace(":", ""): {"Type": name, "Properties": data} for name, data in types.items()}
    outputs = cloud.deploy("remembered", resources, Address={"Ref": "AWSEC2EIP"})
    assert outputs["Address"].startswith("eipalloc-")
    cloud.delete("remembered")


SLOW = """
import json, time, urllib.request

def handler(event, _):
    time.sleep(1)
    told = {name: event[name] for name in ("StackId", "RequestId", "LogicalResourceId")}
    body = json.dumps(told | {"Status": "SUCCESS", "PhysicalResourceId": "slow"}).encode()
    urllib.request.urlopen(urllib.request.Request(event["ResponseURL"], data=body, method="PUT"))
"""


def test_a_stack_is_described_when_it_has_settled(cloud):
    """The CDK CLI looks every 5 s, so it would wait for most of a deployment."""
    formation = cloud.client("cloudformation")
    resource = {"Type": "Custom::Slow", "Properties": {"ServiceToken": cloud.function("slow", SLOW)}}
    arn = formation.create_stack(StackName="slow", TemplateBody=json.dumps({"Resources": {"Slow": resource}}))[
        "StackId"
    ]
    assert formation.describe_stacks(StackName="slow")["Stacks"][0]["StackStatus"] == "CREATE_COMPLETE"
    formation.delete_stack(StackName="slow")
    assert formation.describe_stacks(StackName=arn)["Stacks"][0]["StackStatus"] == "DELETE_COMPLETE"
