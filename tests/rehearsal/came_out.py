"""Everything that a rehearsal leaves for a reader: place -> bytes."""

import json
import re
from collections.abc import Iterator
from typing import Any

from rehearsal.rehearse import Rehearsal
from tests.canaries import files

INTERNAL = re.compile(
    rb"ASIA[0-9A-F]{16}|FwoGZX[0-9a-f]{32}|k8s-aws-v1\.|eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.|X-Amz-Signature="
)
"""Patterns of secrets: keys and session tokens of the embedded cloud, tokens of EKS and of web identities,
signatures.
"""
WEIGHTS = ("models/", "imports/", "compiled/")


def came_out(running: Rehearsal) -> dict[str, bytes]:
    """Templates, objects, logs, histories, metrics, dashboards, alarms, outputs, environments, cluster events."""
    client = running.services.client
    found = {f"cdk.out/{name}": data for name, data in files(running.deployment.assembly).items()}
    found |= {f"s3/{key}": data for key, data in _objects(client("s3"), running.bucket)}
    found |= {f"logs{group}": "\n".join(lines).encode() for group, lines in _logs(client("logs"))}
    found |= {f"history/{name}": _json(events) for name, events in _histories(client("stepfunctions"))}
    cloudwatch, formation = client("cloudwatch"), client("cloudformation")
    found["metrics"] = _json(cloudwatch.list_metrics())
    found["alarms"] = _json(cloudwatch.describe_alarms())
    for entry in cloudwatch.list_dashboards()["DashboardEntries"]:
        found[f"dashboard/{entry['DashboardName']}"] = _json(
            cloudwatch.get_dashboard(DashboardName=entry["DashboardName"])
        )
    found["stacks"] = _json(formation.describe_stacks())
    for page in client("lambda").get_paginator("list_functions").paginate():
        found |= {f"function/{function['FunctionName']}": _json(function) for function in page["Functions"]}
    for rule in client("events").list_rules()["Rules"]:
        targets = client("events").list_targets_by_rule(Rule=rule["Name"])["Targets"]
        found[f"rule/{rule['Name']}"] = _json([rule, targets])
    for kind in ("/api/v1/events", "/api/v1/configmaps", "/api/v1/pods", "/apis/batch/v1/jobs"):
        found[f"cluster{kind}"] = _json(running.kubernetes.request("GET", kind))
    return found


def _objects(s3: Any, bucket: str) -> Iterator[tuple[str, bytes]]:
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket):
        for item in page.get("Contents", []):
            if not item["Key"].startswith(WEIGHTS) or item["Key"].endswith(".json"):
                yield item["Key"], s3.get_object(Bucket=bucket, Key=item["Key"])["Body"].read()


def _logs(logs: Any) -> Iterator[tuple[str, list[str]]]:
    for page in logs.get_paginator("describe_log_groups").paginate():
        for group in page["logGroups"]:
            events = logs.get_paginator("filter_log_events").paginate(logGroupName=group["logGroupName"])
            yield group["logGroupName"], [event["message"] for found in events for event in found["events"]]


def _histories(states: Any) -> Iterator[tuple[str, list[Any]]]:
    for machine in states.list_state_machines()["stateMachines"]:
        arn = machine["stateMachineArn"]
        for execution in states.list_executions(stateMachineArn=arn)["executions"]:
            arn = execution["executionArn"]
            pages = states.get_paginator("get_execution_history").paginate(executionArn=arn)
            yield execution["name"], [states.describe_execution(executionArn=arn), *(page["events"] for page in pages)]


def _json(value: Any) -> bytes:
    return json.dumps(value, default=str).encode()
