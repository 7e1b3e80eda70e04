"""Jobs that send requests to the arms of a wave: the smoke test, the benchmark."""

from __future__ import annotations

from specdecode import layout, names
from specdecode.exits import PERMANENT
from specdecode.experiment.benchmark_spec import BenchmarkArm, BenchmarkSpec
from specdecode.manifests.context import RenderContext
from specdecode.manifests.object_names import benchmark_name, labels, service_host_variable, serving_name, smoke_name
from specdecode.manifests.pods import (
    KubeObject,
    bundle_env,
    bundle_script,
    container,
    job,
    meta,
    on_trainium,
    pod_template,
    word,
)
from specdecode.manifests.serve_command import served_model
from specdecode.planning import Plan, Wave

SMOKE_MINUTES = 15


def benchmark_spec(plan: Plan, wave: Wave, ctx: RenderContext) -> BenchmarkSpec:
    """What the benchmark of `wave` is told."""
    return BenchmarkSpec(
        run_id=ctx.run_id,
        experiment=plan.experiment.name,
        wave=wave.index,
        round=wave.round,
        model=served_model(plan.experiment),
        arms=tuple(BenchmarkArm(variant=arm.variant, label=arm.label) for arm in wave.arms),
        workload=plan.experiment.workload,
        tokenizer=plan.experiment.target.prefix.rstrip("/"),
    )


def benchmark(plan: Plan, wave: Wave, ctx: RenderContext) -> list[KubeObject]:
    """ConfigMap with the specification, and the Job, both called `benchmark_name(wave, ctx)`."""
    name = benchmark_name(wave, ctx)
    own = labels(ctx, "benchmark", wave=wave.index)
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": meta(name, own),
        "data": {"spec.json": benchmark_spec(plan, wave, ctx).model_dump_json(indent=2)},
    }
    arguments = ["--spec", "spec/spec.json", *_arms(wave, ctx)]
    arguments += ["--upload", f'"s3://$BUCKET/{layout.run_prefix(ctx.run_id)}"']
    main = container(
        image=plan.engine.tools_image or plan.engine.image,
        script=bundle_script("specdecode.benchmark", arguments),
        env=bundle_env(ctx),
        resources=plan.engine.resources.benchmark,
        mounts=[
            {"name": "spec", "mountPath": f"{names.WORKDIR}/spec", "readOnly": True},
            {"name": "models", "mountPath": f"{names.WORKDIR}/models", "readOnly": True},
        ],
        read_only_root=True,
    )
    template = pod_template(
        labels=own,
        service_account=names.SERVICE_ACCOUNTS["benchmark"],
        main=main,
        volumes=[
            {"name": "spec", "configMap": {"name": name}},
            {"name": "models", "persistentVolumeClaim": {"claimName": names.model_pv("models"), "readOnly": True}},
        ],
        placement=on_trainium(),
        restart_policy="Never",
    )
    deadline = plan.experiment.deadlines.benchmark
    return [
        config,
        job(name=name, labels=own, template=template, retries=2, deadline_minutes=deadline, permanent_exits=PERMANENT),
    ]


def smoke_job(plan: Plan, wave: Wave, ctx: RenderContext) -> KubeObject:
    """Job that sends one real request to every arm of `wave` and fails unless each answers with text and usage."""
    own = labels(ctx, "smoke", wave=wave.index)
    workload = plan.experiment.workload
    arguments = ["--model", word(served_model(plan.experiment)), "--endpoint", workload.endpoint, *_arms(wave, ctx)]
    main = container(
        image=plan.engine.tools_image or plan.engine.image,
        script=bundle_script("specdecode.pod.smoke", arguments),
        env=bundle_env(ctx),
        resources=plan.engine.resources.benchmark,
        read_only_root=True,
    )
    template = pod_template(
        labels=own,
        service_account=names.SERVICE_ACCOUNTS["benchmark"],
        main=main,
        placement=on_trainium(),
        restart_policy="Never",
    )
    return job(
        name=smoke_name(wave, ctx),
        labels=own,
        template=template,
        retries=1,
        deadline_minutes=SMOKE_MINUTES,
        permanent_exits=PERMANENT,
    )


def _arms(wave: Wave, ctx: RenderContext) -> list[str]:
    """`--arm base="http://$…_SERVICE_HOST:8000"` for each arm, by the variables that Kubernetes sets for Services."""
    words = []
    for arm in wave.arms:
        host = service_host_variable(serving_name(arm, ctx))
        words += ["--arm", f'{arm.variant}="http://${host}:{names.SERVE_PORT}"']
    return words
