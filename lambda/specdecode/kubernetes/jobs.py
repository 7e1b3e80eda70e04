"""The state of a Job, read from the object alone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from specdecode.kubernetes.pods import condition, is_true
from specdecode.kubernetes.resources import KubeObject, parse_time


class Phase(StrEnum):
    ACTIVE = "active"
    COMPLETE = "complete"
    FAILED = "failed"


@dataclass(frozen=True)
class JobState:
    """Phase of a Job, why it failed, and how many of its pods failed so far."""

    phase: Phase
    message: str
    failed_pods: int


def job_state(job: KubeObject) -> JobState:
    failed_pods = int(job.get("status", {}).get("failed") or 0)
    if is_true(job, "Complete"):
        return JobState(Phase.COMPLETE, "complete", failed_pods)
    if is_true(job, "Failed"):
        found = condition(job, "Failed")
        return JobState(Phase.FAILED, f"{found.get('reason', 'Failed')}: {found.get('message', '')}", failed_pods)
    return JobState(Phase.ACTIVE, f"{job.get('status', {}).get('active') or 0} pod running", failed_pods)


def created_at(obj: KubeObject) -> datetime:
    """The creation time, with its zone."""
    return parse_time(str(obj["metadata"]["creationTimestamp"]))
