"""The benchmark Job of a level that takes several clients, and of one that does not."""

from typing import Any

import pytest
from specdecode import manifests
from specdecode.experiment import ExperimentError, load_preset
from specdecode.manifests import RenderContext

from tests import kubernetes_schema
from tests.plans import PRICED, plan_for


def job_of(ctx: RenderContext, preset: str = "qwen3-32b-load", **workload: object) -> dict[str, Any]:
    experiment = load_preset(preset, overrides={f"workload.{name}": value for name, value in workload.items()})
    plan = plan_for(experiment, capacity=PRICED)
    job = manifests.benchmark(plan, plan.waves[0], ctx).job
    kubernetes_schema.validate(job)
    return job


def main(job: dict[str, Any]) -> dict[str, Any]:
    (found,) = job["spec"]["template"]["spec"]["containers"]
    return dict(found)


def test_a_level_of_many_streams_is_an_indexed_job(ctx: RenderContext) -> None:
    job = job_of(ctx, concurrency=[1, 600])
    spec = job["spec"]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 3, 3)
    assert spec["backoffLimit"] == 2, "failures of all clients together"
    container = main(job)
    script = container["command"][-1]
    assert '--client "$JOB_COMPLETION_INDEX"' in script
    assert f'--meet "s3://$BUCKET/runs/{ctx.run_id}/raw/@clients/$JOB_UID/"' in script
    (uid,) = (variable for variable in container["env"] if variable["name"] == "JOB_UID")
    path = "metadata.labels['batch.kubernetes.io/controller-uid']"
    assert uid["valueFrom"] == {"fieldRef": {"fieldPath": path}}
    assert container["resources"]["requests"]["cpu"] == "2"


def test_what_they_write_is_within_the_sessions_rights(ctx: RenderContext) -> None:
    plan = plan_for(load_preset("rehearsal"))
    rights = manifests.benchmark(plan, plan.waves[0], ctx).rights
    assert f"runs/{ctx.run_id}/raw/*" in rights.writes and f"runs/{ctx.run_id}/raw/*" in rights.reads


def test_one_client_is_a_plain_job(ctx: RenderContext) -> None:
    job = job_of(ctx, concurrency=256)
    assert "completionMode" not in job["spec"] and job["spec"]["completions"] == 1
    assert "--meet" not in main(job)["command"][-1]
    assert main(job)["resources"]["requests"]["cpu"] == "8"


def test_arms_that_are_loaded_at_once_share_the_clients(ctx: RenderContext) -> None:
    assert job_of(ctx, concurrency=200, load="simultaneous")["spec"]["completions"] == 2


def test_an_open_loop_goes_by_chunks_a_second(ctx: RenderContext) -> None:
    """256 streams of 50 chunks a second are 12,800; 40 answers of 600 tokens a second are 24,000."""
    assert job_of(ctx, concurrency=1, rate=40.0, output_tokens=600)["spec"]["completions"] == 2
    assert job_of(ctx, concurrency=1, rate=20.0, output_tokens=600)["spec"]["completions"] == 1


def test_the_node_must_have_room_for_all_clients() -> None:
    serves = {"workload.concurrency": 4096, "node": "trn2.3xlarge", "serving.devices": 1}
    with pytest.raises(ExperimentError) as caught:
        load_preset("llama-3.1-8b-eagle3-small", overrides=serves)
    found = [problem for problem in caught.value.problems if problem.rule == "fits-node"]
    assert any("CPUs" in problem.message for problem in found)


def test_conversations_are_refused_where_a_level_takes_several_clients(ctx: RenderContext) -> None:
    chat = {"workload.concurrency": [1, 512]}
    with pytest.raises(ExperimentError) as caught:
        load_preset("qwen3-32b", overrides=chat)
    assert any("is a conversation, and its next turn holds an answer that one client heard" in str(problem.message)
               for problem in caught.value.problems)  # fmt: skip
