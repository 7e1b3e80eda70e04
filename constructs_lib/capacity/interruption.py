"""The queue that tells Karpenter when EC2 takes a node back."""

from aws_cdk import Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from constructs_lib.acknowledgements import acknowledge

RULES = {
    "ScheduledChange": ("aws.health", "AWS Health Event"),
    "SpotInterruption": ("aws.ec2", "EC2 Spot Instance Interruption Warning"),
    "Rebalance": ("aws.ec2", "EC2 Instance Rebalance Recommendation"),
    "InstanceStateChange": ("aws.ec2", "EC2 Instance State-change Notification"),
    "CapacityReservationInterruption": ("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning"),
}
"""The five events that Karpenter v1.14 handles: rule -> source and detail type."""


class InterruptionQueue(Construct):
    """An encrypted queue that accepts TLS only, and the five EventBridge rules that write to it."""

    def __init__(self, scope: Construct, id: str, *, queue_name: str) -> None:
        super().__init__(scope, id)
        self.queue = sqs.Queue(
            self,
            "Queue",
            queue_name=queue_name,
            retention_period=Duration.minutes(5),
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
        )
        acknowledge(
            self.queue,
            "SQS3",
            reason="Messages are hints that are worthless after five minutes; Karpenter sees the node go anyway.",
        )
        for name, (source, detail_type) in RULES.items():
            events.Rule(
                self,
                name,
                event_pattern=events.EventPattern(source=[source], detail_type=[detail_type]),
                targets=[targets.SqsQueue(self.queue)],
            )
