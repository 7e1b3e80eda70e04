"""Indexed Jobs: which index a pod has, which are done, and the template of each.

Kubernetes 1.35: pkg/controller/job/indexed_job_utils.go; the API reference of batch/v1 (`completionMode`).
"""

import copy
from collections.abc import Iterable, Iterator

from rehearsal.kubernetes.objects import Json, annotations_of, name_of

ANNOTATION = "batch.kubernetes.io/job-completion-index"
"""Annotation and, since 1.28 (feature PodIndexLabel), label of the pods."""
VARIABLE = "JOB_COMPLETION_INDEX"
_LONGEST_PREFIX = 58
"""Longest prefix of a generated name. Its random suffix has five characters (k8s.io/apiserver/pkg/storage/names)."""


def is_indexed(job: Json) -> bool:
    return bool(job["spec"].get("completionMode") == "Indexed")


def index_of(pod: Json) -> int | None:
    """The index of a pod. None if it has no readable one; the controller ignores such pods."""
    text = annotations_of(pod).get(ANNOTATION, "")
    return int(text) if text.isdecimal() else None


def completed(job: Json, succeeded: Iterable[Json]) -> list[int]:
    """Indexes with a pod that succeeded."""
    found = {index_of(pod) for pod in succeeded}
    return [index for index in range(job["spec"]["completions"]) if index in found]


def missing(job: Json, *, succeeded: Iterable[Json], present: Iterable[Json]) -> list[int]:
    """Indexes that need a pod, the smallest first: they are not done and have none (`present`)."""
    taken = {index_of(pod) for pod in (*succeeded, *present)}
    return [index for index in range(job["spec"]["completions"]) if index not in taken]


def template(job: Json, index: int) -> Json:
    """The Job's template as the pod of that index gets it."""
    found: Json = copy.deepcopy(job["spec"]["template"])
    for kind in ("annotations", "labels"):
        found["metadata"].setdefault(kind, {})[ANNOTATION] = str(index)
    for container in (*found["spec"].get("initContainers", ()), *found["spec"]["containers"]):
        variables = container.setdefault("env", [])
        if all(variable["name"] != VARIABLE for variable in variables):
            path = f"metadata.labels['{ANNOTATION}']"
            variables.append({"name": VARIABLE, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}})
    return found


def pod_prefix(job: Json, index: int) -> str:
    """The beginning of the pod's name."""
    return name_of(job)[: _LONGEST_PREFIX - len(f"-{index}-")] + f"-{index}-"


def in_words(numbers: Iterable[int]) -> str:
    """Indexes in the form of `status.completedIndexes`: `0,2-4,6`. Three or more in a row are a range."""
    return ",".join(_ranges(sorted(numbers)))


def _ranges(numbers: list[int]) -> Iterator[str]:
    while numbers:
        first, length = numbers[0], 1
        while length < len(numbers) and numbers[length] == first + length:
            length += 1
        row, numbers = numbers[:length], numbers[length:]
        yield from [f"{row[0]}-{row[-1]}"] if length > 2 else map(str, row)
