"""Jobs that send requests to the arms of a wave: the smoke test, the benchmark, the accuracy test."""

from collections.abc import Sequence
from typing import Any

from specdecode import names, s3_keys
from specdecode.experiment.benchmark_spec import BenchmarkArm, BenchmarkReader, BenchmarkSpec
from specdecode.experiment.model import answered, answers_of
from specdecode.experiment.prompt_lengths import LongestPrompt
from specdecode.experiment.sizing import each_client
from specdecode.experiment.step import most_tokens
from specdecode.manifests.addresses import address, client_env
from specdecode.manifests.bundle import Rights, StepJob, program_job
from specdecode.manifests.naming import RenderContext, labels, wave_name
from specdecode.manifests.pods import KubeObject, on_held_node, word
from specdecode.manifests.serve_command import served_model
from specdecode.planning import Arm, Plan, Wave, first_served, last_served
from specdecode.planning.timeline import ACCURACY_MINUTES
from specdecode.planning.timeline import SMOKE_MINUTES as SMOKE_MINUTES
from specdecode.records import CONVERSATIONS, SERVERS

JOB_UID: KubeObject = {
    "name": names.JOB_UID,
    "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['batch.kubernetes.io/controller-uid']"}},
}
"""Tells this Job's clients from an earlier Job's. Kubernetes puts the label on the pods of every Job."""


def benchmark_spec(plan: Plan, wave: Wave, ctx: RenderContext) -> BenchmarkSpec:
    return BenchmarkSpec(
        run_id=ctx.run_id,
        experiment=plan.experiment.name,
        wave=wave.index,
        round=wave.round,
        model=served_model(plan.experiment),
        arms=tuple(_benchmark_arm(plan, arm, ctx) for arm in _loaded(plan, wave)) or _answered(plan),
        readers=tuple(
            BenchmarkReader(
                variant=variant.name,
                reads=variant.reads,
                draft=plan.experiment.target_of(variant).id,
                most_tokens_per_step=plan.engine.most_tokens_per_step,
            )
            for variant in plan.experiment.readers
            if variant.reads
        ),
        workload=plan.experiment.workload,
        trusted_counters=not plan.experiment.holds_node or plan.engine.metrics.trusted,
        tokenizer=plan.experiment.staged[0].prefix.rstrip("/") if plan.experiment.holds_node else None,
    )


def _answered(plan: Plan) -> tuple[BenchmarkArm, ...]:
    """The arms that are not loaded here, since an earlier run has their answers."""
    return tuple(BenchmarkArm(variant=each.name, label=each.label) for each in answered(plan.experiment))


def _loaded(plan: Plan, wave: Wave) -> list[Arm]:
    reading = {variant.name for variant in plan.experiment.readers}
    return [arm for arm in wave.arms if arm.variant not in reading]


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


def benchmark(plan: Plan, wave: Wave, ctx: RenderContext) -> StepJob:
    """The Job; of several clients, an indexed one with a pod for each. It reads prompts, records and conversations of
    this run, and servers.json, and of an earlier run the records whose answers it takes.
    """
    spec = benchmark_spec(plan, wave, ctx)
    clients = spec.most_clients
    loaded = _loaded(plan, wave)
    arguments = ["--spec", "spec/spec.json", *_arms(plan, loaded, ctx)]
    arguments += _arms(plan, [arm for arm in wave.arms if arm not in loaded], ctx, option="--reader")
    answers = answers_of(plan.experiment) or ""
    if answers:
        arguments += ["--answers", f'"s3://$BUCKET/{s3_keys.run_key(answers, "raw", "")}"']
    arguments += ["--upload", f'"s3://$BUCKET/{s3_keys.run_prefix(ctx.run_id)}"']
    if clients > 1:
        notes = s3_keys.run_key(ctx.run_id, s3_keys.NOTES)
        arguments += ["--client", '"$JOB_COMPLETION_INDEX"', "--meet", f'"s3://$BUCKET/{notes}${names.JOB_UID}/"']
    tokenizer = {"models": {"persistentVolumeClaim": {"claimName": names.model_pv("models"), "readOnly": True}}}
    parts = (("raw", "*"), (CONVERSATIONS, "*"), (SERVERS,))
    own = tuple(s3_keys.run_key(ctx.run_id, *part) for part in parts)
    earlier = tuple(s3_keys.run_key(answers, "raw", each.name, "*") for each in answered(plan.experiment))
    return program_job(
        plan,
        ctx,
        "specdecode.forecast" if spec.readers else "specdecode.benchmark",
        arguments,
        name=wave_name(wave, "benchmark", ctx),
        labels=labels(ctx, "benchmark", wave=wave.index),
        resources=each_client(plan.engine.resources.benchmark, clients),
        references=[*client_env(plan, wave.arms, ctx), *([JOB_UID] if clients > 1 else [])],
        files={"spec": {"spec.json": spec.model_dump_json(indent=2)}},
        folders=tokenizer if plan.experiment.holds_node else None,
        account=names.SERVICE_ACCOUNTS["benchmark"],
        minutes=plan.experiment.deadlines.benchmark,
        retries=2,
        rights=Rights(reads=(*own, s3_keys.run_key(ctx.run_id, s3_keys.PROMPTS) + "*", *earlier), writes=own),
        indexes=clients,
        **_beside_the_servers(plan, ctx),
    )


def smoke(plan: Plan, wave: Wave, ctx: RenderContext, longest: LongestPrompt | None = None) -> StepJob:
    """Job that sends one real request to every arm of `wave`, then the `longest` prompt of the ConfigMap before it, and
    fails unless each answers with text and usage and has room for prompt and answer.
    """
    arguments = ["--endpoint", plan.experiment.workload.endpoint]
    arguments += ["--longest", "longest/prompt.json"] if longest else []
    files = {"longest": {"prompt.json": longest.model_dump_json()}} if longest else {}
    return _asking(plan, wave, ctx, "smoke", arguments, wave.arms, minutes=SMOKE_MINUTES, files=files)


def accuracy_job(plan: Plan, wave: Wave, ctx: RenderContext) -> StepJob:
    """Job that measures the arms that `wave` is the first to serve with lm-eval, into runs/<run id>/accuracy/. It may
    touch nothing else: lm-eval is foreign code.

    In the engine's image: lm-eval's wheels need a newer glibc than the small image's 2.26 (numpy 2.3 and later: 2.27).
    """
    experiment, arms = plan.experiment, first_served(plan.waves, wave)
    asked = max(level.concurrency or 1 for level in experiment.workload.levels)
    arguments = ["--bucket", '"$BUCKET"', "--prefix", word(s3_keys.run_key(ctx.run_id, "accuracy", ""))]
    arguments += ["--concurrency", str(experiment.batch or asked)]
    more = {"rights": Rights(writes=(s3_keys.run_key(ctx.run_id, "accuracy", "*"),)), "image": plan.engine.reference}
    return _asking(plan, wave, ctx, "accuracy", arguments, arms, minutes=ACCURACY_MINUTES * len(arms), **more)


def hold_job(plan: Plan, wave: Wave, ctx: RenderContext) -> StepJob:
    """Job that asks the arms that `wave` is the last to serve what people put into asks/<run id>/."""
    arguments = ["--endpoint", plan.experiment.workload.endpoint, "--bucket", '"$BUCKET"']
    arguments += ["--prefix", word(s3_keys.asks_prefix(ctx.run_id))]
    arms, asks = last_served(plan.waves, wave), (s3_keys.asks_prefix(ctx.run_id) + "*",)
    rights = Rights(reads=asks, writes=asks, clears=True)
    return _asking(plan, wave, ctx, "hold", arguments, arms, minutes=plan.experiment.holds_arms, rights=rights)


def _asking(
    plan: Plan, wave: Wave, ctx: RenderContext, component: str, arguments: list[str], arms: Sequence[Arm], **more: Any
) -> StepJob:
    """Job of the program `specdecode.pod.<component>` with the model and `arms` as arguments. `more`: of the Job."""
    arguments = ["--model", word(served_model(plan.experiment)), *arguments, *_arms(plan, arms, ctx)]
    for arm in arms:
        if model := address(plan, arm, ctx).model:
            arguments += ["--arm-model", word(f"{arm.variant}={model}")]
    return program_job(
        plan,
        ctx,
        f"specdecode.pod.{component}",
        arguments,
        name=wave_name(wave, component, ctx),
        labels=labels(ctx, component, wave=wave.index),
        resources=plan.engine.resources.benchmark,
        references=client_env(plan, arms, ctx),
        retries=1,
        **_beside_the_servers(plan, ctx),
        **more,
    )


def _beside_the_servers(plan: Plan, ctx: RenderContext) -> dict[str, Any]:
    """On the held node, where the pods find the servers. On an ordinary node if the servers already run elsewhere."""
    holds_node = plan.experiment.holds_node
    return {"placement": on_held_node(plan.experiment, ctx.pool), "finds_services": True} if holds_node else {}


def _arms(plan: Plan, arms: Sequence[Arm], ctx: RenderContext, option: str = "--arm") -> list[str]:
    return [part for arm in arms for part in (option, f"{arm.variant}={address(plan, arm, ctx).url}")]
