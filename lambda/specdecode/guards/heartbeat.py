"""The watchdog's first heartbeat: sent by the watchdog itself while it is being deployed.

The alarm on missing heartbeats would go off on every new deployment; and a watchdog that cannot run is found now, and
not when a node is left running.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

SEEN_WITHIN = timedelta(minutes=15)
"""The alarm's own range: three periods of five minutes."""


def first_beat(
    function: str, *, namespace: str, metric: str, lambda_client: Any, metrics: Any
) -> Callable[[], list[str]]:
    """A look that runs the watchdog until it finds nothing amiss once, then waits until its heartbeat can be read.

    What it returns is why it is not done yet: the function's error, what the watchdog could not do, or that CloudWatch
    shows no heartbeat yet.
    """
    done: list[bool] = []

    def look() -> list[str]:
        if not done:
            answer = lambda_client.invoke(FunctionName=function, InvocationType="RequestResponse", Payload=b"{}")
            said = json.loads(answer["Payload"].read())
            if "FunctionError" in answer:
                return [f"{said.get('errorType', 'error')}: {said.get('errorMessage', said)}"]
            if said.get("problems"):
                return [str(problem) for problem in said["problems"]]
            done.append(True)
        now = datetime.now(UTC)
        found = metrics.get_metric_statistics(
            Namespace=namespace,
            MetricName=metric,
            StartTime=now - SEEN_WITHIN,
            EndTime=now,
            Period=300,
            Statistics=["Sum"],
        )
        return [] if found["Datapoints"] else [f"CloudWatch has no {metric} of it yet"]

    return look
