"""Pure functions from a plan to the Kubernetes objects of a run."""

from specdecode.experiment.prompt_lengths import count_spec, longest_prompt
from specdecode.experiment.prompt_sets import hub_sets
from specdecode.manifests.addresses import api_key_secret, new_api_key
from specdecode.manifests.benchmarking import (
    accuracy_job,
    accuracy_rights,
    benchmark,
    benchmark_rights,
    benchmark_spec,
    hold_job,
    hold_rights,
    smoke,
)
from specdecode.manifests.bundle import Rights, session_policy, session_secret
from specdecode.manifests.compiling import compile_job, compile_rights
from specdecode.manifests.naming import RenderContext, compile_name, labels, serving_name, staging_name, wave_name
from specdecode.manifests.pods import KubeObject
from specdecode.manifests.root import network_policies, owned, run_root
from specdecode.manifests.serving import serving
from specdecode.manifests.staging import (
    count_prompts_job,
    count_prompts_rights,
    fetch_prompts_job,
    fetch_prompts_rights,
    staging_job,
    staging_rights,
)
from specdecode.manifests.start_check import start_check_job, start_check_rights
from specdecode.planning import Plan, first_served, last_served

__all__ = [
    "KubeObject",
    "RenderContext",
    "Rights",
    "accuracy_job",
    "accuracy_rights",
    "all_objects",
    "api_key_secret",
    "benchmark",
    "benchmark_rights",
    "benchmark_spec",
    "compile_job",
    "compile_name",
    "compile_rights",
    "count_prompts_job",
    "count_prompts_rights",
    "fetch_prompts_job",
    "fetch_prompts_rights",
    "hold_job",
    "hold_rights",
    "labels",
    "network_policies",
    "new_api_key",
    "owned",
    "run_root",
    "serving",
    "serving_name",
    "session_policy",
    "session_secret",
    "smoke",
    "staging_job",
    "staging_name",
    "staging_rights",
    "start_check_job",
    "start_check_rights",
    "wave_name",
]


def all_objects(plan: Plan, ctx: RenderContext) -> list[KubeObject]:
    """Every object of a run, in the order in which the pipeline makes them (done work is left out).

    Three things differ from the pipeline's: no object has an owner, each call gives the servers new API keys, and the
    Secrets that are called as the Jobs are have no AWS credentials yet.
    """
    objects = [*network_policies(), *(staging_job(plan, model, ctx) for model in plan.models_to_stage)]
    objects += [fetch_prompts_job(plan, given, hub, ctx) for given, hub in hub_sets(plan.experiment)]
    if spec := count_spec(plan.experiment, {}):
        objects += count_prompts_job(plan, spec, ctx)
    objects += [start_check_job(plan, plan.served.variant(name), ctx) for name in plan.start_checks]
    objects += [compile_job(plan, arm, ctx) for arm in plan.compiles_to_do]
    longest = longest_prompt(plan.experiment, {})
    for wave in plan.waves:
        for arm in wave.served:
            objects += [api_key_secret(arm, ctx, key=new_api_key()), *serving(plan, arm, ctx)]
        objects += [*smoke(plan, wave, ctx, longest), *benchmark(plan, wave, ctx)]
        if plan.experiment.accuracy and first_served(plan.waves, wave):
            objects.append(accuracy_job(plan, wave, ctx))
        if plan.experiment.holds_arms and last_served(plan.waves, wave):
            objects.append(hold_job(plan, wave, ctx))
    jobs = [obj for obj in objects if obj["kind"] == "Job"]
    return [
        *(session_secret(job, key_id="YOURS", secret_key="YOURS", token=None, until=None) for job in jobs),  # noqa: S106
        *objects,
    ]
