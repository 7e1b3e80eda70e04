"""Jobs: pods until enough succeeded, too many failed or the deadline passed."""

import time
import uuid

from rehearsal.kubernetes import resources as r
from rehearsal.kubernetes.controllers import indexes, pods
from rehearsal.kubernetes.controllers.controller import Controller
from rehearsal.kubernetes.controllers.failure_policy import judge
from rehearsal.kubernetes.etcd import Store
from rehearsal.kubernetes.machinery import Cluster
from rehearsal.kubernetes.objects import (
    Json,
    dig,
    is_true,
    name_of,
    namespace_of,
    now,
    parse_time,
    set_condition,
    terminating,
    uid_of,
)

_COMPONENT = "job-controller"
_LONGEST_BACKOFF = 600.0


def generate_selector(store: Store, resource: r.Resource, obj: Json) -> None:
    """Admission: the uid, selector and labels that the API server generates for a new Job."""
    if resource is not r.JOBS:
        return
    uid = obj["metadata"]["uid"] = str(uuid.uuid4())
    labels = obj["spec"]["template"].setdefault("metadata", {}).setdefault("labels", {})
    labels |= {"batch.kubernetes.io/job-name": name_of(obj), "job-name": name_of(obj)}
    labels |= {"batch.kubernetes.io/controller-uid": uid, "controller-uid": uid}
    obj["spec"]["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}


class Jobs(Controller):
    """`backoff` is the delay before the first retry in seconds (10 in a real cluster). It doubles with each retry."""

    watches = (r.JOBS, r.PODS, r.SERVICE_ACCOUNTS)

    def __init__(self, cluster: Cluster, *, backoff: float) -> None:
        super().__init__(cluster)
        self._backoff = backoff
        self._failures: dict[str, dict[str, Json]] = {}
        """Job uid -> its failed pods by uid. They count even after they have gone with their node."""

    def reconcile(self) -> None:
        for job in self.store.list(r.JOBS):
            if is_true(job, "Complete") or is_true(job, "Failed"):
                self._expire(job)
            elif not terminating(job):
                self._sync(job)

    def _sync(self, job: Json) -> None:
        spec, owned = job["spec"], pods.owned_pods(self.cluster, job)
        succeeded = [pod for pod in owned if dig(pod, "status", "phase") == "Succeeded"]
        failures = self._failures.setdefault(uid_of(job), {})
        ending = [pod for pod in owned if terminating(pod) and not pods.is_finished(pod)]
        waited_for = ending if spec["podReplacementPolicy"] == "Failed" else []
        for pod in owned:
            if dig(pod, "status", "phase") == "Failed" or (pod in ending and not waited_for):
                failures[uid_of(pod)] = pod
        failed = list(failures.values())
        active = [pod for pod in owned if pods.is_active(pod)]
        started = dig(job, "status", "startTime") or (None if spec["suspend"] else now())
        completions = spec.get("completions", 1)
        verdict: tuple[str, str, str] | None = None
        deadline = spec.get("activeDeadlineSeconds")
        if started and deadline is not None:
            left = parse_time(started) + deadline - time.time()
            if left <= 0:
                verdict = ("Failed", "DeadlineExceeded", "Job was active longer than specified deadline")
            else:
                self.wake_in(left)
        judgement = judge(job, failed)
        retries = len(judgement.counted) + sum(
            _restarts(pod) for pod in active if spec["template"]["spec"]["restartPolicy"] == "OnFailure"
        )
        done = len(indexes.completed(job, succeeded)) if indexes.is_indexed(job) else len(succeeded)
        if done >= completions:
            verdict = ("Complete", "CompletionsReached", "Reached expected number of succeeded pods")
        elif judgement.fail:
            verdict = ("Failed", "PodFailurePolicy", judgement.fail)
        elif retries > spec["backoffLimit"]:
            verdict = ("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
        verdict = _decided(job) or verdict
        if verdict or spec["suspend"]:
            for pod in active:
                self.cluster.delete(r.PODS, namespace_of(pod), name_of(pod))
            active = [] if verdict else active
        else:
            wanted = min(spec["parallelism"], completions - done) - len(active) - len(waited_for)
            wait = self._retry_wait(failed)
            if wanted > 0 and wait > 0:
                self.wake_in(wait)
            else:
                created = self._create(job, wanted, succeeded=succeeded, present=[*active, *waited_for])
                active += [pod for pod in created if pod is not None]
                if None in created:
                    self.wake_in(self._backoff)
        is_over = all(map(pods.is_finished, pods.owned_pods(self.cluster, job)))
        self._report(job, started, active, succeeded, failed, verdict, is_over=is_over)

    def _create(self, job: Json, wanted: int, *, succeeded: list[Json], present: list[Json]) -> list[Json | None]:
        if not indexes.is_indexed(job):
            return [pods.create_pod(self.cluster, job) for _ in range(wanted)]
        lacking = indexes.missing(job, succeeded=succeeded, present=present)
        return [
            pods.create_pod(
                self.cluster, job, template=indexes.template(job, index), prefix=indexes.pod_prefix(job, index)
            )
            for index in lacking[: max(wanted, 0)]
        ]

    def _retry_wait(self, failed: list[Json]) -> float:
        """Seconds until the next pod may be created after failures."""
        if not failed:
            return 0.0
        ended = max(parse_time(_ended(pod)) for pod in failed)
        delay = min(self._backoff * 2.0 ** (len(failed) - 1), _LONGEST_BACKOFF)
        return ended + delay - time.time()

    def _report(
        self,
        job: Json,
        started: str | None,
        active: list[Json],
        succeeded: list[Json],
        failed: list[Json],
        verdict: tuple[str, str, str] | None,
        *,
        is_over: bool,
    ) -> None:
        """Until all pods have ended (`is_over`), a verdict is only what the Job will come to."""

        def change(obj: Json) -> None:
            status = obj.setdefault("status", {})
            counts = {
                "active": len(active),
                "ready": sum(pods.is_ready(pod) for pod in active),
                "succeeded": len(succeeded),
                "failed": len(failed),
            }
            if indexes.is_indexed(obj):
                finished = indexes.completed(obj, succeeded)
                status["completedIndexes"] = indexes.in_words(finished)
                counts["succeeded"] = len(finished)
            status.update(counts)
            for key in ("active", "succeeded", "failed"):
                if not status[key]:
                    del status[key]
            status["terminating"] = 0
            status["uncountedTerminatedPods"] = {}
            if started:
                status["startTime"] = started
            conditions = status.get("conditions", [])
            if verdict:
                kind, reason, message = verdict
                target = "SuccessCriteriaMet" if kind == "Complete" else "FailureTarget"
                for each in (target, kind) if is_over else (target,):
                    conditions = set_condition(conditions, each, "True", reason=reason, message=message)
                if kind == "Complete" and is_over:
                    status["completionTime"] = now()
            elif obj["spec"]["suspend"]:
                conditions = set_condition(
                    conditions, "Suspended", "True", reason="JobSuspended", message="Job suspended"
                )
            if conditions:
                status["conditions"] = conditions

        self.cluster.modify(r.JOBS, job, change)
        if verdict and is_over:
            kind, reason, message = verdict
            if kind == "Complete":
                self.cluster.event(job, "Normal", "Completed", "Job completed", component=_COMPONENT)
            else:
                self.cluster.event(job, "Warning", reason, message, component=_COMPONENT)

    def _expire(self, job: Json) -> None:
        keep = job["spec"].get("ttlSecondsAfterFinished")
        if keep is None or terminating(job):
            return
        ended = next(
            c["lastTransitionTime"] for c in job["status"]["conditions"] if c["type"] in ("Complete", "Failed")
        )
        left = parse_time(ended) + keep - time.time()
        if left > 0:
            self.wake_in(left)
        else:
            self.cluster.delete(r.JOBS, namespace_of(job), name_of(job), {"propagationPolicy": "Background"})


def _restarts(pod: Json) -> int:
    return sum(status["restartCount"] for status in dig(pod, "status", "containerStatuses", default=()))


def _ended(pod: Json) -> str:
    finished = [
        dig(s, "state", "terminated", "finishedAt") for s in dig(pod, "status", "containerStatuses", default=())
    ]
    times = [t for t in finished if t]
    return (
        max(times) if times else str(pod["metadata"].get("deletionTimestamp") or pod["metadata"]["creationTimestamp"])
    )


def _decided(job: Json) -> tuple[str, str, str] | None:
    """What the Job will come to when its pods have ended, with the reason that it was given first."""
    kinds = {"FailureTarget": "Failed", "SuccessCriteriaMet": "Complete"}
    for condition in dig(job, "status", "conditions") or []:
        if condition["type"] in kinds and condition["status"] == "True":
            return kinds[condition["type"]], condition["reason"], condition["message"]
    return None
