"""What a step reads from pods and events: an arm that was started again, and Karpenter's words of an earlier wait."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from specdecode.kubernetes.pools import missing_because
from specdecode.steps import jobs
from specdecode.steps.errors import BenchmarkFailed

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
ARM = SimpleNamespace(variant="sd", wave=0)


def pod(*, restarts, ready="True"):
    return {
        "metadata": {"name": "sd-0"},
        "status": {
            "conditions": [{"type": "Ready", "status": ready}],
            "containerStatuses": [{"name": "main", "restartCount": restarts}],
        },
    }


@pytest.mark.parametrize(("restarts", "dies"), [(0, False), (1, True)])
def test_an_arm_that_is_ready_again_was_still_started_anew_under_load(monkeypatch, restarts, dies):
    monkeypatch.setattr(jobs, "look_at_pods", lambda *given, **more: ([pod(restarts=restarts)], []))
    wave = SimpleNamespace(served=(ARM,))
    if dies:
        with pytest.raises(BenchmarkFailed, match="arm sd died under load"):
            jobs.check_alive(None, "run-1", wave, failure=BenchmarkFailed)
    else:
        jobs.check_alive(None, "run-1", wave, failure=BenchmarkFailed)


@pytest.mark.parametrize(("age_min", "told"), [(-1, True), (0, True), (1, False)])
def test_what_karpenter_said_before_this_wait_is_not_its_reason(age_min, told):
    event = {
        "metadata": {},
        "reason": "InsufficientCapacityError",
        "message": "none left",
        "lastTimestamp": (NOW - timedelta(minutes=age_min)).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    said = missing_because(nodes=[], claims=[], events=[event], pool={"metadata": {"name": "p"}}, since=NOW)
    assert ("InsufficientCapacityError" in said) is told
