"""What the cases share in which the pipeline's own parts are broken: functions, documents, the bucket, the backstop."""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from rehearsal.deployment import STACK
from rehearsal.execution import Run
from tests.end_to_end.cloud import Cloud

AT_ONCE = {"WINDOW_MINUTES": "0.1"}
"""The backstop's patience of 30 minutes, as six seconds."""


def stored(cloud: Cloud, key: str, data: bytes) -> None:
    """Put an object into the bucket, as somebody would who should not."""
    cloud.running.services.client("s3").put_object(Bucket=cloud.running.bucket, Key=key, Body=data)


def physical(cloud: Cloud, logical: str) -> str:
    """Name of the stack's resource whose logical id begins so."""
    found = cloud.running.services.client("cloudformation").describe_stack_resources(StackName=STACK)["StackResources"]
    (name,) = {item["PhysicalResourceId"] for item in found if item["LogicalResourceId"][:-8] == logical}
    return str(name)


def invoke(cloud: Cloud, function: str) -> dict[str, Any]:
    """Call a function; its answer, or its error."""
    answer = cloud.running.services.client("lambda").invoke(FunctionName=function, Payload=b"{}")
    return dict(json.loads(answer["Payload"].read()))


@contextlib.contextmanager
def changed(
    cloud: Cloud, function: str, *, handler: str = "", variables: dict[str, str] | None = None
) -> Iterator[None]:
    """The function has another handler, or other variables, meanwhile."""
    client = cloud.running.services.client("lambda")
    before = client.get_function_configuration(FunctionName=function)
    environment = before["Environment"]["Variables"]
    client.update_function_configuration(
        FunctionName=function,
        Handler=handler or before["Handler"],
        Environment={"Variables": environment | (variables or {})},
    )
    try:
        yield
    finally:
        client.update_function_configuration(
            FunctionName=function, Handler=before["Handler"], Environment={"Variables": environment}
        )


@contextlib.contextmanager
def cluster_away(cloud: Cloud) -> Iterator[None]:
    """The Kubernetes API answers nobody; Karpenter goes on inside it, as if only the way to it were broken."""
    cloud.control("faults", api=[{"code": 503, "count": 10**9, "path": "/api"}])
    try:
        yield
    finally:
        cloud.control("faults", reset=True)


def instances(cloud: Cloud) -> set[str]:
    """Instances of the trn2 pool that EC2 bills."""
    filters = [
        {"Name": "tag:karpenter.sh/nodepool", "Values": ["trn2"]},
        {"Name": "instance-state-name", "Values": ["pending", "running"]},
    ]
    found = cloud.running.services.client("ec2").describe_instances(Filters=filters)["Reservations"]
    return {item["InstanceId"] for group in found for item in group["Instances"]}


@dataclass
class Backstop:
    """The backstop with a patience of seconds, beside a run that holds a node."""

    cloud: Cloud
    run: Run
    mail: list[str]
    """What it said on the alerts topic, there when the block ends."""
    ended: list[str] = field(default_factory=list)
    """Instances that it has ended."""

    def look(self) -> dict[str, Any]:
        found = invoke(self.cloud, physical(self.cloud, "BackstopFunction"))
        self.ended.extend(found["ended"])
        return found

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """The watchdog, the bucket and the way to the cluster are broken meanwhile; Karpenter is alive."""
        with (
            changed(
                self.cloud, physical(self.cloud, "PipelineWatchdogFunction"), handler="specdecode.steps.gone.handler"
            ),
            cluster_away(self.cloud),
            self.cloud.denied(["s3:GetObject", "s3:PutObject"], "*"),
        ):
            yield
        self.cloud.until(lambda: self.run.deployment.reconcile()["replicas"] == 0, what="a watchdog that works again")

    def ends(self, number: int) -> None:
        """The execution dies, too, and the backstop ends that many instances."""

        def enough() -> bool:
            if "has not worked" not in str(self.look()["why"]):
                self.run.deployment.stop(self.run.arn)
            return len(self.ended) >= number

        self.cloud.until(enough, what=f"the end of {number} instances")


@contextlib.contextmanager
def backstop(cloud: Cloud, run: Run) -> Iterator[Backstop]:
    """It is in a hurry meanwhile, and leaves the run alone while that is watched over."""
    with mailbox(cloud) as mail, changed(cloud, physical(cloud, "BackstopFunction"), variables=AT_ONCE):
        made = Backstop(cloud, run, mail)
        run.deployment.reconcile()
        assert made.look()["ended"] == [], "a healthy run is never touched"
        yield made


@contextlib.contextmanager
def mailbox(cloud: Cloud) -> Iterator[list[str]]:
    """What reaches the alerts topic meanwhile: subjects and texts, there when the block ends."""
    sns, sqs = cloud.running.services.client("sns"), cloud.running.services.client("sqs")
    url = sqs.create_queue(QueueName="alerts-mailbox")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    topic = physical(cloud, "AlertsTopic")
    let_in = {"Effect": "Allow", "Principal": {"Service": "sns.amazonaws.com"}, "Action": "sqs:SendMessage"}
    statement = let_in | {"Resource": arn, "Condition": {"ArnEquals": {"aws:SourceArn": topic}}}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy})
    subscription = sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)["SubscriptionArn"]
    texts: list[str] = []
    try:
        yield texts
        while found := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
            for message in found:
                body = json.loads(message["Body"])
                texts.append(f"{body.get('Subject')}\n{body['Message']}")
                sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    finally:
        sns.unsubscribe(SubscriptionArn=subscription)
        sqs.delete_queue(QueueUrl=url)
