"""One embedded AWS for this folder's tests. A recorder stands for its clusters' API."""

import io
import json
import socket
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import botocore
import pytest

from rehearsal import servers, tools
from rehearsal.processes import Processes
from tests.local_http import Handler, served
from tests.patience import until

MAILS, LATER = "mails.jsonl", "hours-later"
"""Files of rehearsal/cloud/mail.py, which imports the emulator. A test holds the names."""


class Recorder(Handler):
    """Answers discovery with three kinds, deletes at once, and remembers every request."""

    requests: ClassVar[list] = []

    def answer(self):
        self.requests.append((self.command, self.path, json.loads(self.body() or b"null")))
        status, answer = 200, {}
        if self.command == "GET" and self.path in ("/api/v1", "/apis/apps/v1"):
            kinds = {"/api/v1": ("Namespace", "ConfigMap"), "/apis/apps/v1": ("Deployment",)}[self.path]
            answer = {
                "resources": [{"name": f"{k.lower()}s", "kind": k, "namespaced": k != "Namespace"} for k in kinds]
            }
        elif self.path == "/_rehearsal/join":
            answer = {"node": "ip-10-0-0-1"}
        elif self.command == "GET":
            status, answer = 404, {"message": f"{self.path} not found"}
        self.reply(status, json.dumps(answer).encode())

    do_GET = do_POST = do_PATCH = do_DELETE = answer


@dataclass
class Cloud:
    services: servers.Services
    kubernetes_url: str
    requests: list
    folder: Path
    """Where the emulator keeps its state."""

    def client(self, name):
        return self.services.client(name)

    def role(self, name, principal, statements):
        """Create a role that `principal` (a service) may assume. Returns its ARN."""
        iam = self.client("iam")
        trust = [{"Effect": "Allow", "Principal": {"Service": principal}, "Action": "sts:AssumeRole"}]
        arn = iam.create_role(RoleName=name, AssumeRolePolicyDocument=policy(trust))["Role"]["Arn"]
        iam.put_role_policy(RoleName=name, PolicyName="p", PolicyDocument=policy(statements))
        return arn

    def function(self, name, source, statements=()):
        """Create a Python function from its source. Returns its ARN."""
        allow = {"Effect": "Allow", "Action": "logs:*", "Resource": "*"}
        role = self.role(f"{name}-role", "lambda.amazonaws.com", [allow, *statements])
        code = io.BytesIO()
        with zipfile.ZipFile(code, "w") as archive:
            archive.writestr(zipfile.ZipInfo("app.py", (1980, 1, 1, 0, 0, 0)), source)
        created = self.client("lambda").create_function(
            FunctionName=name, Runtime="python3.11", Role=role, Handler="app.handler", Timeout=300,
            Code={"ZipFile": code.getvalue()},
        )  # fmt: skip
        return created["FunctionArn"]

    def machine(self, name, definition):
        role = self.role(f"{name}-machine", "states.amazonaws.com", [allow_all()])
        return self.client("stepfunctions").create_state_machine(
            name=name, roleArn=role, definition=json.dumps({"QueryLanguage": "JSONata"} | definition)
        )["stateMachineArn"]

    def execute(self, machine, data=None):
        """Run an execution to its end. Returns its description."""
        states = self.client("stepfunctions")
        arn = states.start_execution(stateMachineArn=machine, input=json.dumps(data or {}))["executionArn"]
        return until(lambda: (d := states.describe_execution(executionArn=arn))["status"] != "RUNNING" and d)

    def deploy(self, name, resources, **outputs):
        """Deploy a template by CloudFormation. Returns its outputs."""
        formation = self.client("cloudformation")
        template = {
            "Description": "made by a test (specdecode 0)",
            "Resources": resources,
            "Outputs": {key: {"Value": value} for key, value in outputs.items()},
        }
        formation.create_stack(StackName=name, TemplateBody=json.dumps(template), Capabilities=["CAPABILITY_NAMED_IAM"])
        stack = until(
            lambda: (
                not (s := formation.describe_stacks(StackName=name)["Stacks"][0])["StackStatus"].endswith("IN_PROGRESS")
                and s
            )
        )
        reasons = [
            event.get("ResourceStatusReason")
            for event in formation.describe_stack_events(StackName=name)["StackEvents"]
            if "FAILED" in event["ResourceStatus"]
        ]
        assert stack["StackStatus"] == "CREATE_COMPLETE", reasons
        return {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", [])}

    def delete(self, name):
        formation = self.client("cloudformation")
        identity = formation.describe_stacks(StackName=name)["Stacks"][0]["StackId"]
        formation.delete_stack(StackName=name)
        until(lambda: formation.describe_stacks(StackName=identity)["Stacks"][0]["StackStatus"] == "DELETE_COMPLETE")


def policy(statements):
    return json.dumps({"Version": "2012-10-17", "Statement": statements})


def allow_all():
    return {"Effect": "Allow", "Action": "*", "Resource": "*"}


@pytest.fixture(scope="session")
def cloud(tmp_path_factory):
    if not tools.CLOUD_PYTHON.exists():
        pytest.fail("the embedded cloud is not installed: make install-rehearsal")
    with (
        served(Recorder) as url,
        Processes(folder=tmp_path_factory.mktemp("aws"), root=tools.ROOT) as processes,
        socket.create_server(("127.0.0.1", 0)) as bound,
    ):
        ca_file = Path(botocore.__file__).parent / "cacert.pem"
        running = servers.start_aws(processes, bound, url=url, ca_file=ca_file, token="token")
        yield Cloud(running, url, Recorder.requests, processes.folder / "aws")
