"""The compile Job: `vllm serve` on local disk until it is healthy, then its artifact to the bucket."""

from __future__ import annotations

from specdecode import layout, names
from specdecode.exits import PERMANENT
from specdecode.manifests.context import RenderContext
from specdecode.manifests.object_names import compile_name, labels
from specdecode.manifests.pods import (
    KubeObject,
    bundle_env,
    bundle_script,
    claiming,
    container,
    job,
    pod_template,
    word,
)
from specdecode.manifests.serve_command import serve_words
from specdecode.manifests.serving import OFFLINE, SHM_MOUNT, shm_volume
from specdecode.planning import Arm, Plan
from specdecode.planning.fingerprint import serving_env

HEALTHY_SHARE = 0.8
"""Of the Job's deadline: the rest is for downloading the weights and uploading the artifact."""


def compile_job(plan: Plan, arm: Arm, ctx: RenderContext) -> KubeObject:
    """Job that makes `compiled/<fingerprint>/`, COMPLETE.json last.

    It claims the devices that the arm will be served on, since a server is only healthy once it has loaded.
    """
    experiment, engine = plan.experiment, plan.engine
    artifact, resources = engine.artifact, engine.resources.compile
    assert artifact and resources  # noqa: S101 (an engine without them has no artifacts in its plan)
    variant = experiment.variant(arm.variant)
    weights_gib = experiment.weights_gib(variant)
    own = labels(ctx, "compile", variant=arm.variant)
    arguments = ["--bucket", '"$BUCKET"', "--artifact", word(layout.compiled_prefix(arm.fingerprint))]
    for model in experiment.models_of(variant):
        arguments += ["--model", word(model.prefix)]
    arguments += ["--artifact-variable", artifact.variable]
    arguments += ["--health", f'"http://$POD_IP:{names.SERVE_PORT}/health"']
    arguments += ["--minutes", f"{experiment.deadlines.compile * HEALTHY_SHARE:g}"]
    arguments += ["--", *serve_words(experiment, variant, engine, compiled=False)]
    main = container(
        image=engine.reference,
        script=bundle_script("specdecode.pod.compile", arguments),
        env={**bundle_env(ctx), **OFFLINE, **serving_env(experiment, variant, engine)},
        resources=resources,
        weights_gib=weights_gib,
        mounts=[SHM_MOUNT],
        read_only_root=False,
    )
    claimed, placement = claiming(
        main, devices=experiment.serving.devices, logical_neuron_core=experiment.serving.logical_neuron_core
    )
    template = pod_template(
        labels=own,
        service_account=names.SERVICE_ACCOUNTS["compile"],
        main=claimed,
        volumes=[shm_volume(resources, weights_gib)],
        placement=placement,
        restart_policy="Never",
        grace_s=60,
    )
    return job(
        name=compile_name(arm, ctx),
        labels=own,
        template=template,
        retries=2,
        deadline_minutes=experiment.deadlines.compile,
        permanent_exits=PERMANENT,
    )
