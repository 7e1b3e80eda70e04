"""spec.podFailurePolicy of Jobs: what follows from a failed pod, by its containers' exit codes and its conditions."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rehearsal.kubernetes.objects import Json, dig, name_of, namespace_of


@dataclass(frozen=True, kw_only=True)
class PolicyVerdict:
    """`fail` is the message with which the Job ends at once; `counted` are the failed pods that use up retries."""

    fail: str | None
    counted: list[Json]


def judge(job: Json, failed: Iterable[Json]) -> PolicyVerdict:
    """Apply the rules to the failed pods. The first rule that matches a pod decides. A pod without such a rule is
    counted.
    """
    rules = dig(job, "spec", "podFailurePolicy", "rules", default=())
    counted = []
    for pod in failed:
        action, message = next(
            ((rule["action"], text) for index, rule in enumerate(rules) for text in _matches(rule, index, pod)),
            ("Count", ""),
        )
        if action == "FailJob":
            return PolicyVerdict(fail=message, counted=[])
        if action == "Count":
            counted.append(pod)
    return PolicyVerdict(fail=None, counted=counted)


def _matches(rule: Json, index: int, pod: Json) -> Iterator[str]:
    """Kubernetes' own message if the rule matches."""
    where, action = f"{namespace_of(pod)}/{name_of(pod)}", rule["action"]
    codes = rule.get("onExitCodes")
    if codes:
        lists = ("containerStatuses", "initContainerStatuses")
        for status in (status for found in lists for status in dig(pod, "status", found, default=())):
            code = dig(status, "state", "terminated", "exitCode", default=0)
            named = codes.get("containerName") in (None, status["name"])
            if named and code and (code in codes["values"]) == (codes["operator"] == "In"):
                yield (
                    f"Container {status['name']} for pod {where} failed with exit code {code} "
                    f"matching {action} rule at index {index}"
                )
    for wanted in rule.get("onPodConditions") or ():
        for condition in dig(pod, "status", "conditions", default=()):
            if (condition["type"], condition["status"]) == (wanted["type"], wanted.get("status", "True")):
                yield f"Pod {where} has condition {condition['type']} matching {action} rule at index {index}"
