"""Alarms on results. The pipeline has the alarms on runs that fail, on the watchdog and on idle nodes."""

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cw
from constructs import Construct
from specdecode import names

ERROR_RATE = 0.05
"""Share of failed requests in a block. Above it the block's speed figures are no fair sample (the report says so too).
"""
REGRESSION = 0.9
"""Speed-up relative to the last good run of the same experiment. Below it something got worse."""

OPERATIONS = "docs/operations.md#when-it-fails"
"""The page for the person who gets the alarm."""


def described(what: str, *, runbook: str) -> str:
    """An alarm's description: what happened, what to do first, where to read more."""
    return f"{what} Runbook: {runbook} More: {OPERATIONS}"


class ResultAlarms(Construct):
    """`alarms`: a block with failed requests, a speed-up that fell since the last good run.

    Both use Metrics Insights: the arms and test cases of future experiments are not known here, and an alarm
    cannot watch a SEARCH.
    """

    def __init__(self, scope: Construct, id: str) -> None:
        super().__init__(scope, id)
        period = Duration.minutes(5)
        self.alarms = [
            self._alarm(
                "RequestErrors",
                metric=_insights("MAX", "ErrorRate", period),
                threshold=ERROR_RATE,
                operator=cw.ComparisonOperator.GREATER_THAN_THRESHOLD,
                description=described(
                    f"More than {ERROR_RATE:.0%} of the requests of a block failed: its figures are no fair sample.",
                    runbook="open the run's report, section What failed; then the serving pod's log.",
                ),
            ),
            self._alarm(
                "SpeedupRegression",
                metric=_insights("MIN", "SpeedupOverLastRun", period),
                threshold=REGRESSION,
                operator=cw.ComparisonOperator.LESS_THAN_THRESHOLD,
                description=described(
                    f"A speed-up fell below {REGRESSION:.0%} of the last good run's.",
                    runbook="`specdecode compare LAST_RUN THIS_RUN` shows which case and whether versions differ.",
                ),
            ),
        ]

    def _alarm(
        self,
        id: str,
        *,
        metric: cw.IMetric,
        threshold: float,
        operator: cw.ComparisonOperator,
        description: str,
    ) -> cw.Alarm:
        return cw.Alarm(
            self,
            id,
            metric=metric,
            threshold=threshold,
            comparison_operator=operator,
            evaluation_periods=1,
            treat_missing_data=cw.TreatMissingData.NOT_BREACHING,
            alarm_description=description,
        )


def _insights(function: str, metric: str, period: Duration) -> cw.MathExpression:
    """The extreme of a metric over all arms and test cases, as a Metrics Insights query."""
    return cw.MathExpression(
        expression=f'SELECT {function}({metric}) FROM SCHEMA("{names.METRIC_NAMESPACE}", TestCase, Variant)',  # noqa: S608 - our names
        label=metric,
        period=period,
        using_metrics={},
    )
