"""A run on the other node while faults are thrown at one: it must work on as if nothing had happened."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from specdecode import names, s3_keys
from specdecode.runs.lease import Claim

from rehearsal.execution import Run

if TYPE_CHECKING:
    from tests.end_to_end.cloud import Cloud

UNDISTURBED = "undisturbed"
CASES = ["repeat-line", "json-records", "count", "library-docs", "meaning-of-life"]
REQUESTS = 60
CALM = {
    "workload.cases": CASES,
    "workload.prompts": [],
    "workload.requests": REQUESTS,
    "workload.rate": 1,
    "workload.output_tokens": 16,
    "workload.rounds": 1,
    "deadlines.capacity": 10,
    "deadlines.serve": 10,
    "deadlines.benchmark": 60,
}
"""Ten minutes of one request a second: it leaves the processors to the case beside it."""


@dataclass(frozen=True)
class Seen:
    """What must not change of a run that nobody touches."""

    claim: Claim
    pods: frozenset[tuple[str, str, str, int]]
    """(name, uid, node, restarts) of its servers and its client."""


class Beside:
    """The run on the other node; begun anew when it has ended."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._seen: Seen | None = None
        self.run: Run | None = None
        self.became = UNDISTURBED
        """What the table says of it after a case."""

    @property
    def label(self) -> str:
        """RUN_LABEL of the run that holds the other node."""
        return "" if self.run is None else names.run_label(self.run.run_id)

    @property
    def is_running(self) -> bool:
        return self.run is not None and self.run.look().status == "RUNNING"

    def begin(self) -> None:
        """Have it measure, while nobody else holds or waits. What went before must have ended well."""
        self.became = UNDISTURBED
        if self.is_running:
            return
        if self.run is not None:
            self.check()
        self.run = None
        run = self._cloud.start("beside", CALM)
        self._cloud.until_step(run, "Benchmark")
        self._cloud.until(lambda: self._pods(run, "benchmark"), what="the client of the run beside")
        self.run, self._seen = run, self._look(run)

    def check(self) -> None:
        """Its lease, its node, its pods and its figures are as they were; where it has ended, it is whole."""
        run = self.run
        if run is None:
            return
        end = run.look()
        assert end.status in {"RUNNING", "SUCCEEDED"}, f"the run beside: {end.error}: {end.cause}"
        if end.status == "RUNNING" and self._cloud.lease().held_by(run.run_id):
            now = self._look(run)
            assert self._seen is not None and now.claim == self._seen.claim
            assert now.pods in (self._seen.pods, frozenset()), "its pods are others"
        found = self._cloud.records(run)
        wrong = Counter(record.error for records in found.values() for record in records if record.error)
        assert not wrong, f"requests of the run beside failed: {wrong}"
        measured = {key: sum(not record.warmup for record in records) for key, records in found.items()}
        if end.status == "SUCCEEDED":
            assert measured == {(arm, case): REQUESTS for arm in ("base", "sd") for case in CASES}
            report = json.loads(self._cloud.stored(s3_keys.run_key(run.run_id, "report.json")))
            assert report["context"]["failures"] == []

    def finish(self) -> None:
        """Let it come to its end."""
        if self.run is not None:
            self._cloud.ended(self.run)
            self.check()

    def stop(self) -> None:
        """End it, undisturbed so far: a case needs that no execution runs."""
        assert self.run is not None
        self.check()
        self.run.deployment.stop(self.run.arn)
        self._cloud.ended(self.run)
        self.run = None

    def ends_too(self, *errors: str) -> None:
        """It ends with one of `errors`."""
        assert self.run is not None
        end = self._cloud.ended(self.run)
        assert end.status == "FAILED" and end.error in errors, f"{end.status} {end.error}: {end.cause}"
        self.run, self.became = None, f"ends too: {end.error}"

    def _look(self, run: Run) -> Seen:
        (claim,) = [claim for claim in self._cloud.lease().holders if claim.run_id == run.run_id]
        found = [pod for part in ("serving", "benchmark") for pod in self._pods(run, part)]
        return Seen(claim, frozenset(_identity(pod) for pod in found))

    def _pods(self, run: Run, component: str) -> list[dict[str, Any]]:
        label = names.run_label(run.run_id)
        found = self._cloud.all_pods(component)
        return [pod for pod in found if pod["metadata"]["labels"][names.RUN_LABEL] == label and "status" in pod]


def _identity(pod: dict[str, Any]) -> tuple[str, str, str, int]:
    restarts = sum(each.get("restartCount", 0) for each in pod["status"].get("containerStatuses", ()))
    return pod["metadata"]["name"], pod["metadata"]["uid"], pod["spec"].get("nodeName", ""), restarts
