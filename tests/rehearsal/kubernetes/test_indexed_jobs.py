"""Jobs of `completionMode: Indexed`, as Kubernetes 1.35 runs them."""

import pytest

from rehearsal.kubernetes.controllers import indexes
from tests.rehearsal.kubernetes.conftest import Double
from tests.rehearsal.kubernetes.manifests import Json, job

INDEX = "batch.kubernetes.io/job-completion-index"


def indexed(name: str, script: str, *, completions: int | None = 3, parallelism: int = 3, **more: int) -> Json:
    made = job(name, script, **more)
    made["spec"] |= {"completionMode": "Indexed", "parallelism": parallelism}
    made["spec"] |= {} if completions is None else {"completions": completions}
    return made


def log(double: Double, namespace: str, pod: str) -> str:
    return str(double.request("GET", f"/api/v1/namespaces/{namespace}/pods/{pod}/log")[1])


def test_each_index_has_its_pod_and_the_job_ends_with_the_last(double: Double, namespace: str) -> None:
    jobs, pods = f"/apis/batch/v1/namespaces/{namespace}/jobs", f"/api/v1/namespaces/{namespace}/pods"
    double.ok("POST", jobs, indexed("three", "echo index $JOB_COMPLETION_INDEX"))
    done = double.wait(f"{jobs}/three", lambda j: "conditions" in j.get("status", {}))
    assert done["status"]["conditions"][-1]["type"] == "Complete"
    assert (done["status"]["succeeded"], done["status"]["completedIndexes"]) == (3, "0-2")
    found = double.get(pods)["items"]
    for pod in found:
        metadata = pod["metadata"]
        index = metadata["annotations"][INDEX]
        assert metadata["labels"][INDEX] == index and metadata["name"].startswith(f"three-{index}-")
        assert log(double, namespace, metadata["name"]) == f"index {index}\n"
    assert sorted(pod["metadata"]["labels"][INDEX] for pod in found) == ["0", "1", "2"]


def test_an_index_that_failed_is_tried_again_and_no_other(double: Double, namespace: str) -> None:
    jobs, pods = f"/apis/batch/v1/namespaces/{namespace}/jobs", f"/api/v1/namespaces/{namespace}/pods"
    script = 'if [ "$JOB_COMPLETION_INDEX" = 1 ]; then exit 1; fi'
    double.ok("POST", jobs, indexed("one-fails", script, backoff_limit=1))
    ended = double.wait(f"{jobs}/one-fails", lambda j: "conditions" in j.get("status", {}))
    assert ended["status"]["conditions"][-1]["reason"] == "BackoffLimitExceeded"
    assert "1" not in ended["status"]["completedIndexes"] and ended["status"]["failed"] == 2
    assert sorted(pod["metadata"]["labels"][INDEX] for pod in double.get(pods)["items"]) == ["0", "1", "1", "2"]


def test_parallelism_bounds_how_many_run_at_once(double: Double, namespace: str) -> None:
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    double.ok("POST", jobs, indexed("in-turn", "exec sleep 0.3", parallelism=1))
    seen = double.wait(f"{jobs}/in-turn", lambda j: j.get("status", {}).get("succeeded", 0) >= 1)
    assert seen["status"].get("active", 0) <= 1
    done = double.wait(f"{jobs}/in-turn", lambda j: j.get("status", {}).get("succeeded") == 3)
    assert done["status"]["completedIndexes"] == "0-2"


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (indexed("x", "true", completions=None), "when completion mode is Indexed"),
        (indexed("x", "true", parallelism=100_001), "must be less than or equal to 100000"),
        (indexed("a" * 62, "true"), f"will not able to create pod with invalid DNS label: {'a' * 62}-2"),
        ({**job("x", "true"), "spec": {**job("x", "true")["spec"], "completionMode": "Some"}}, "supported values"),
    ],
)
def test_what_the_api_server_refuses(double: Double, namespace: str, wrong: Json, says: str) -> None:
    status, body = double.request("POST", f"/apis/batch/v1/namespaces/{namespace}/jobs", wrong)
    assert status == 422 and says in body["message"]


@pytest.mark.parametrize(
    ("numbers", "text"), [([], ""), ([1], "1"), ([1, 3, 4, 5, 7], "1,3-5,7"), ([0, 1], "0,1"), (range(4), "0-3")]
)
def test_completed_indexes_as_the_api_reference_writes_them(numbers: list[int], text: str) -> None:
    assert indexes.in_words(numbers) == text
