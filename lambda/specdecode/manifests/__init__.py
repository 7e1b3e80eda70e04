"""Pure functions from a plan to the Kubernetes objects of a run."""

from specdecode.experiment.prompt_lengths import count_spec, longest_prompt
from specdecode.experiment.prompt_sets import hub_sets
from specdecode.manifests.addresses import api_key_secret as api_key_secret
from specdecode.manifests.addresses import new_api_key as new_api_key
from specdecode.manifests.benchmarking import accuracy_job as accuracy_job
from specdecode.manifests.benchmarking import benchmark as benchmark
from specdecode.manifests.benchmarking import benchmark_spec as benchmark_spec
from specdecode.manifests.benchmarking import hold_job as hold_job
from specdecode.manifests.benchmarking import smoke as smoke
from specdecode.manifests.bundle import Rights as Rights
from specdecode.manifests.bundle import StepJob as StepJob
from specdecode.manifests.bundle import session_policy as session_policy
from specdecode.manifests.bundle import session_secret as session_secret
from specdecode.manifests.compiling import compile_job as compile_job
from specdecode.manifests.compiling import start_check_job as start_check_job
from specdecode.manifests.naming import RenderContext as RenderContext
from specdecode.manifests.naming import compile_name as compile_name
from specdecode.manifests.naming import labels as labels
from specdecode.manifests.naming import serving_name as serving_name
from specdecode.manifests.pods import KubeObject as KubeObject
from specdecode.manifests.pods import network_policies as network_policies
from specdecode.manifests.pods import owned as owned
from specdecode.manifests.pods import run_root as run_root
from specdecode.manifests.serving import serving as serving
from specdecode.manifests.staging import count_prompts_job as count_prompts_job
from specdecode.manifests.staging import fetch_prompts_job as fetch_prompts_job
from specdecode.manifests.staging import staging_job as staging_job
from specdecode.planning import Plan, first_served, last_served


def all_objects(plan: Plan, ctx: RenderContext) -> list[KubeObject]:
    """Every object of a run, in the order in which the pipeline makes them (done work is left out).

    Unlike the pipeline's they have no owner, new API keys at each call, and no AWS credentials in the Jobs' Secrets.
    """
    work = [staging_job(plan, model, ctx) for model in plan.models_to_stage]
    work += [fetch_prompts_job(plan, given, hub, ctx) for given, hub in hub_sets(plan.experiment)]
    if spec := count_spec(plan.experiment, {}):
        work.append(count_prompts_job(plan, spec, ctx))
    work += [start_check_job(plan, plan.served.variant(name), ctx) for name in plan.start_checks]
    work += [compile_job(plan, arm, ctx) for arm in plan.compiles_to_do]
    objects = [*network_policies(), *(obj for each in work for obj in each.objects)]
    longest = longest_prompt(plan.experiment, {})
    for wave in plan.waves:
        for arm in wave.served:
            objects += [api_key_secret(arm, ctx, key=new_api_key()), *serving(plan, arm, ctx)]
        objects += [*smoke(plan, wave, ctx, longest).objects, *benchmark(plan, wave, ctx).objects]
        if plan.experiment.accuracy and first_served(plan.waves, wave):
            objects.append(accuracy_job(plan, wave, ctx).job)
        if plan.experiment.holds_arms and last_served(plan.waves, wave):
            objects.append(hold_job(plan, wave, ctx).job)
    jobs = [obj for obj in objects if obj["kind"] == "Job"]
    return [
        *(session_secret(job, dict.fromkeys(("AccessKeyId", "SecretAccessKey"), "YOURS")) for job in jobs),
        *objects,
    ]
