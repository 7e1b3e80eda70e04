"""Jobs that send requests to the arms of a wave: the smoke test, the benchmark, the accuracy test."""

from __future__ import annotations

from collections.abc import Sequence

from specdecode import names, s3_keys
from specdecode.exit_codes import PERMANENT
from specdecode.experiment.benchmark_spec import BenchmarkArm, BenchmarkSpec
from specdecode.experiment.clients import each_client
from specdecode.experiment.prompt_lengths import LongestPrompt
from specdecode.experiment.step import most_tokens
from specdecode.manifests.addresses import address
from specdecode.manifests.api_keys import client_env
from specdecode.manifests.bundle import bundle_env, bundle_script
from specdecode.manifests.context import RenderContext
from specdecode.manifests.object_names import labels, wave_name
from specdecode.manifests.pods import (
    CONTAINER,
    KubeObject,
    container,
    job,
    meta,
    on_cpu_nodes,
    on_held_node,
    pod_template,
    word,
)
from specdecode.manifests.serve_command import served_model
from specdecode.manifests.sessions import ENV, MOUNT, Rights, volume
from specdecode.planning import Arm, Plan, Wave, first_served
from specdecode.planning.states import ACCURACY_MINUTES
from specdecode.planning.states import SMOKE_MINUTES as SMOKE_MINUTES
from specdecode.records import CONVERSATIONS, SERVERS

JOB_UID: KubeObject = {
    "name": names.JOB_UID,
    "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['batch.kubernetes.io/controller-uid']"}},
}
"""Tells the clients of this Job from the clients of an earlier Job. Kubernetes puts the label on the pods of every
Job."""


def benchmark_spec(plan: Plan, wave: Wave, ctx: RenderContext) -> BenchmarkSpec:
    """The specification of the benchmark of `wave`."""
    return BenchmarkSpec(
        run_id=ctx.run_id,
        experiment=plan.experiment.name,
        wave=wave.index,
        round=wave.round,
        model=served_model(plan.experiment),
        arms=tuple(_benchmark_arm(plan, arm, ctx) for arm in wave.arms),
        workload=plan.experiment.workload,
        trusted_counters=not plan.experiment.holds_node or plan.engine.metrics.trusted,
        tokenizer=plan.experiment.target.prefix.rstrip("/") if plan.experiment.holds_node else None,
    )


def _benchmark_arm(plan: Plan, arm: Arm, ctx: RenderContext) -> BenchmarkArm:
    variant = plan.experiment.variant(arm.variant)
    return BenchmarkArm(
        variant=arm.variant,
        label=arm.label,
        compare_to=variant.compare_to,
        num_speculative_tokens=variant.speculation.num_speculative_tokens if variant.speculation else None,
        most_tokens_per_step=most_tokens(plan.experiment, variant) if variant.speculation else None,
        model=address(plan, arm, ctx).model,
    )


def benchmark(plan: Plan, wave: Wave, ctx: RenderContext) -> list[KubeObject]:
    """ConfigMap with the specification, and the Job, both called `wave_name(wave, "benchmark", ctx)`.

    If a level takes several clients, the Job is an indexed one with a pod for each.
    """
    name = wave_name(wave, "benchmark", ctx)
    own = labels(ctx, "benchmark", wave=wave.index)
    spec = benchmark_spec(plan, wave, ctx)
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": meta(name, own),
        "data": {"spec.json": spec.model_dump_json(indent=2)},
    }
    volumes: dict[str, KubeObject] = {"spec": {"name": "spec", "configMap": {"name": name}}}
    if plan.experiment.holds_node:  # for the tokenizer
        claim = {"claimName": names.model_pv("models"), "readOnly": True}
        volumes["models"] = {"name": "models", "persistentVolumeClaim": claim}
    template = pod_template(
        labels=own,
        service_account=names.SERVICE_ACCOUNTS["benchmark"],
        main=_benchmark_container(plan, wave, ctx, clients=spec.most_clients, folders=tuple(volumes)),
        without_credentials=(CONTAINER,),
        volumes=[volume(name), *volumes.values()],
        placement=_placement(plan, ctx),
        restart_policy="Never",
        finds_services=plan.experiment.holds_node,
    )
    made = job(
        name=name,
        labels=own,
        template=template,
        retries=2,
        deadline_minutes=plan.experiment.deadlines.benchmark,
        permanent_exits=PERMANENT,
        indexes=spec.most_clients,
    )
    return [config, made]


def _benchmark_container(
    plan: Plan, wave: Wave, ctx: RenderContext, *, clients: int, folders: Sequence[str]
) -> KubeObject:
    """The container of one of `clients`, with a mount for each of `folders`."""
    arguments = ["--spec", "spec/spec.json", *_arms(plan, wave.arms, ctx)]
    arguments += ["--upload", f'"s3://$BUCKET/{s3_keys.run_prefix(ctx.run_id)}"']
    if clients > 1:
        notes = s3_keys.run_key(ctx.run_id, s3_keys.NOTES)
        arguments += ["--client", '"$JOB_COMPLETION_INDEX"', "--meet", f'"s3://$BUCKET/{notes}${names.JOB_UID}/"']
    return container(
        image=plan.engine.tools_reference,
        script=bundle_script("specdecode.benchmark", arguments),
        env=bundle_env(ctx) | ENV,
        references=[*client_env(plan, wave.arms, ctx), *([JOB_UID] if clients > 1 else [])],
        resources=each_client(plan.engine.resources.benchmark, clients),
        mounts=[
            MOUNT,
            *({"name": name, "mountPath": f"{names.WORKDIR}/{name}", "readOnly": True} for name in folders),
        ],
        read_only_root=True,
    )


def benchmark_rights(ctx: RenderContext) -> Rights:
    """Prompts, records and conversations of this run, and servers.json. No plan, state or report."""
    parts = (("raw", "*"), (CONVERSATIONS, "*"), (SERVERS,))
    own = tuple(s3_keys.run_key(ctx.run_id, *part) for part in parts)
    return Rights(reads=(*own, s3_keys.run_key(ctx.run_id, s3_keys.PROMPTS) + "*"), writes=own)


def smoke(plan: Plan, wave: Wave, ctx: RenderContext, longest: LongestPrompt | None = None) -> list[KubeObject]:
    """Job that sends one real request to every arm of `wave`, then the `longest` prompt, and fails unless each answers
    with text and usage and has room for that prompt and its answer. Before it the ConfigMap with that prompt.
    """
    arguments = ["--endpoint", plan.experiment.workload.endpoint]
    arguments += ["--longest", "longest/prompt.json"] if longest else []
    image = plan.engine.tools_reference
    asks = _client_job(
        plan, wave, ctx, "smoke", arguments, image=image, minutes=SMOKE_MINUTES, retries=1, arms=wave.arms
    )
    if longest is None:
        return [asks]
    name, pod = asks["metadata"]["name"], asks["spec"]["template"]["spec"]
    pod["volumes"].append({"name": "longest", "configMap": {"name": name}})
    mount = {"name": "longest", "mountPath": f"{names.WORKDIR}/longest", "readOnly": True}
    pod["containers"][0]["volumeMounts"].append(mount)
    data = {"prompt.json": longest.model_dump_json()}
    metadata = meta(name, labels(ctx, "smoke", wave=wave.index))
    return [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}, asks]


def accuracy_job(plan: Plan, wave: Wave, ctx: RenderContext) -> KubeObject:
    """Job that measures the arms that `wave` is the first to serve with lm-eval, into runs/<run id>/accuracy/.

    It runs in the engine's image, which the node has: lm-eval draws in wheels that need a newer glibc than the small
    image's 2.26 (numpy 2.3 and later: 2.27).
    """
    prefix = s3_keys.run_key(ctx.run_id, "accuracy", "")
    arguments = ["--bucket", '"$BUCKET"', "--prefix", word(prefix)]
    experiment = plan.experiment
    asked = max(level.concurrency or 1 for level in experiment.workload.levels)
    arguments += ["--concurrency", str(experiment.batch or asked)]
    arms = first_served(plan.waves, wave)
    minutes = ACCURACY_MINUTES * len(arms)
    image = plan.engine.reference
    return _client_job(plan, wave, ctx, "accuracy", arguments, image=image, minutes=minutes, retries=1, arms=arms)


def accuracy_rights(ctx: RenderContext) -> Rights:
    """The results of this run's accuracy test and nothing else: lm-eval, which is foreign code, runs in the pod."""
    return Rights(writes=(s3_keys.run_key(ctx.run_id, "accuracy", "*"),))


def _client_job(
    plan: Plan,
    wave: Wave,
    ctx: RenderContext,
    component: str,
    arguments: list[str],
    *,
    image: str,
    minutes: int,
    retries: int,
    arms: Sequence[Arm],
) -> KubeObject:
    """Job of the program `specdecode.pod.<component>` with the model and the `arms` as arguments."""
    own = labels(ctx, component, wave=wave.index)
    arguments = ["--model", word(served_model(plan.experiment)), *arguments, *_arms(plan, arms, ctx)]
    for arm in arms:
        if model := address(plan, arm, ctx).model:
            arguments += ["--arm-model", word(f"{arm.variant}={model}")]
    main = container(
        image=image,
        script=bundle_script(f"specdecode.pod.{component}", arguments),
        env=bundle_env(ctx) | ENV,
        references=client_env(plan, arms, ctx),
        resources=plan.engine.resources.benchmark,
        mounts=[MOUNT],
        read_only_root=True,
    )
    name = wave_name(wave, component, ctx)
    template = pod_template(
        labels=own,
        service_account=names.PLAIN_ACCOUNT,
        main=main,
        volumes=[volume(name)],
        placement=_placement(plan, ctx),
        restart_policy="Never",
        finds_services=plan.experiment.holds_node,
    )
    return job(
        name=name, labels=own, template=template, retries=retries, deadline_minutes=minutes, permanent_exits=PERMANENT
    )


def _placement(plan: Plan, ctx: RenderContext) -> KubeObject:
    """On the held node beside the servers. On an ordinary node if the servers already run elsewhere."""
    if plan.experiment.holds_node:
        return on_held_node(plan.experiment, ctx.pool)
    return on_cpu_nodes(makes_nodes=ctx.makes_nodes)


def _arms(plan: Plan, arms: Sequence[Arm], ctx: RenderContext) -> list[str]:
    """`--arm NAME=URL` for each arm."""
    return [part for arm in arms for part in ("--arm", f"{arm.variant}={address(plan, arm, ctx).url}")]
