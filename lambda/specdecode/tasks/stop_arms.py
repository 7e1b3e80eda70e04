"""StopArms: delete the run's workloads and wait until no pod and no device claim of it is left."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from specdecode.cluster.teardown import delete_workloads, run_selector
from specdecode.tasks.errors import TeardownStuck
from specdecode.tasks.runtime import Progress, Runtime, StepInput, run_step

LIMIT = timedelta(minutes=15)
"""The node pool's terminationGracePeriod is 10 minutes; whatever outlives that is not going to leave by itself."""


def stop_arms(given: StepInput, rt: Runtime) -> Progress:
    left = delete_workloads(rt.kube, selector=run_selector(given.run_id))
    if not left:
        return Progress(done=True, message="no workload is left")
    text = f"{len(left)} objects are still going: {', '.join(item.label for item in left[:5])}"
    oldest = min((item.deleted_at for item in left if item.deleted_at), default=None)
    if oldest is not None and rt.now() - oldest > LIMIT:
        raise TeardownStuck(f"after {LIMIT} {text}")
    return Progress(done=False, message=text, wait_s=15)


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    return run_step(stop_arms, event, context)
