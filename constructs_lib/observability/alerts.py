"""The topic for alarms and budget notices, and the monthly budget."""

from aws_cdk import Annotations, Aws, CfnOutput
from aws_cdk import aws_budgets as budgets
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct, IConstruct

from constructs_lib.settings.fields import Settings
from constructs_lib.settings.zones import WITHOUT_BUDGETS

THRESHOLDS = (("ACTUAL", 80), ("FORECASTED", 100))
"""Percent of the budget. A notice is sent when it is reached."""


NOBODY = (
    "Nobody is told when a node stays or a run is stuck, and `specdecode run` refuses: "
    "`.venv/bin/specdecode configure alert_email=you@example.com`, or accept_no_alerts=true."
)


class Alerts(Construct):
    """An SNS topic that sends mail if the settings name an address, and the account's monthly budget that writes to it.

    In a region whose CloudFormation has no budgets there is none, and the synth says so.
    """

    def __init__(self, scope: Construct, id: str, *, settings: Settings) -> None:
        super().__init__(scope, id)
        self.topic = sns.Topic(self, "Topic", enforce_ssl=True)
        for service in ("budgets", "cloudwatch"):
            # A topic with a policy has lost the default one, by which the account's alarms could publish.
            self.topic.add_to_resource_policy(
                iam.PolicyStatement(
                    sid=f"Allow{service.capitalize()}",
                    actions=["sns:Publish"],
                    principals=[iam.ServicePrincipal(f"{service}.amazonaws.com")],
                    resources=[self.topic.topic_arn],
                    conditions={"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}},
                )
            )
        CfnOutput(self, "TopicArn", value=self.topic.topic_arn).override_logical_id("AlertsTopicArn")
        if settings.alert_email:
            self.topic.add_subscription(subscriptions.EmailSubscription(settings.alert_email))
        elif not settings.accept_no_alerts:
            Annotations.of(self).add_warning_v2("specdecode:no-alerts", NOBODY)
        if settings.region in WITHOUT_BUDGETS:
            Annotations.of(self).add_warning_v2(
                "specdecode:no-budget",
                f"CloudFormation has no budgets in {settings.region}: budget_usd has no effect there. Make one in the "
                "console (Billing, Budgets), or deploy to another region.",
            )
        else:
            self._budget(settings)

    def _budget(self, settings: Settings) -> None:
        budgets.CfnBudget(
            self,
            "Budget",
            budget=budgets.CfnBudget.BudgetDataProperty(
                budget_name=f"{settings.cluster_name}-{settings.region}",
                budget_type="COST",
                time_unit="MONTHLY",
                budget_limit=budgets.CfnBudget.SpendProperty(amount=settings.budget_usd, unit="USD"),
            ),
            notifications_with_subscribers=[
                budgets.CfnBudget.NotificationWithSubscribersProperty(
                    notification=budgets.CfnBudget.NotificationProperty(
                        notification_type=kind,
                        comparison_operator="GREATER_THAN",
                        threshold=percent,
                        threshold_type="PERCENTAGE",
                    ),
                    subscribers=[
                        budgets.CfnBudget.SubscriberProperty(subscription_type="SNS", address=self.topic.topic_arn)
                    ],
                )
                for kind, percent in THRESHOLDS
            ],
        )

    def receive(self, scope: IConstruct) -> None:
        """Send every alarm below `scope` to the topic."""
        for construct in scope.node.find_all():
            if isinstance(construct, cloudwatch.Alarm):
                construct.add_alarm_action(actions.SnsAction(self.topic))
