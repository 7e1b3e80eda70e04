"""The compile Job: weights to local disk, `vllm serve` until it is healthy, its artifact to the bucket.

Three containers, one after the other. The first and the last have the pod's session and run the bundle alone; the one
between them runs the engine and has no credentials (ADR 127).
"""

import math
from typing import Any

from specdecode import names, s3_keys
from specdecode.exit_codes import PERMANENT
from specdecode.experiment.effective import serving_env
from specdecode.experiment.engine_parts import Artifact, CpuCompile
from specdecode.manifests.bundle import ENV, MOUNT, Rights, bundle_env, bundle_script, fetched_bundle_script, volume
from specdecode.manifests.early import device_check, disk_check
from specdecode.manifests.naming import RenderContext, compile_name, labels
from specdecode.manifests.pods import (
    KubeObject,
    claiming,
    container,
    job,
    on_cpu_nodes,
    pod_template,
    word,
)
from specdecode.manifests.serve_command import forgotten, serve_words
from specdecode.manifests.serving import OFFLINE, SHM_MOUNT, shm_volume
from specdecode.planning import Arm, Plan
from specdecode.planning.timeline import HEALTHY_SHARE, cpu_deadline

FETCH, COMPILE, STORE = "fetch", "compile", "store"
"""Names of the containers, in their order."""
SPARE_GIB = 20
"""Local disk that must be free beside the weights and the artifact. The scheduler provides the requested disk, which is
much more; images and other pods' files may still have taken some of it."""
CARRIER = "carrier-"
"""Prefix of the names of the carriers' own volumes. The engine cannot write there."""


def compile_job(plan: Plan, arm: Arm, ctx: RenderContext) -> KubeObject:
    """Job that makes `compiled/<fingerprint>/`, COMPLETE.json last.

    On the node the Job claims the devices that the arm will be served on, since a server is only healthy once it has
    loaded. The first container sees them too: it looks at them, their driver and the disk before it fetches a byte. An
    arm with a `fallback` is compiled on a CPU node: without devices, by a server that may end instead of loading.
    """
    experiment, engine = plan.served, plan.engine
    artifact = engine.artifact
    assert artifact  # noqa: S101 (an engine without one has no artifacts in its plan)
    on_cpu = artifact.on_cpu if arm.fallback else None
    resources = on_cpu.resources if on_cpu else engine.resources.compile
    assert resources  # noqa: S101 (as above)
    deadline = cpu_deadline(experiment, engine) if on_cpu else experiment.deadlines.compile
    weights_gib = experiment.weights_gib(experiment.variant(arm.variant))
    common: dict[str, Any] = {"resources": resources, "weights_gib": weights_gib}
    free = math.ceil(resources.ephemeral_per_weight * weights_gib) + SPARE_GIB
    fetch, store = _carriers(plan, arm, ctx, free_gib=free, common=common, on_cpu=bool(on_cpu))
    engine_runs = _compiler(plan, arm, artifact, on_cpu, minutes=deadline * HEALTHY_SHARE, common=common)
    placement = on_cpu_nodes(names.COMPILE_NODEPOOL, makes_nodes=ctx.makes_nodes)
    if not on_cpu:
        fetch, _ = claiming(fetch, experiment, ctx)  # to look at the devices before it fetches
        engine_runs, placement = claiming(engine_runs, experiment, ctx)
    own = {**labels(ctx, "compile", variant=arm.variant), names.ARTIFACT_LABEL: arm.fingerprint}
    on_disk = (f"{CARRIER}work", f"{CARRIER}tmp", "bundle", "models", "compiled")
    template = pod_template(
        labels=own,
        service_account=names.PLAIN_ACCOUNT,
        first=(fetch, engine_runs),
        main=store,
        volumes=[
            shm_volume(resources, weights_gib),
            volume(compile_name(arm, ctx)),
            *({"name": name, "emptyDir": {}} for name in on_disk),
        ],
        placement=placement,
        restart_policy="Never",
        grace_s=60,
    )
    return job(
        name=compile_name(arm, ctx),
        labels=own,
        template=template,
        retries=2,
        deadline_minutes=deadline,
        permanent_exits=PERMANENT,
    )


def _carriers(
    plan: Plan, arm: Arm, ctx: RenderContext, *, free_gib: int, common: dict[str, Any], on_cpu: bool
) -> tuple[KubeObject, KubeObject]:
    """The containers with the role: FETCH brings the weights, STORE takes the artifact to the bucket.

    `free_gib`: local disk that FETCH must find free; `common`: what all three containers request.
    """
    experiment, engine = plan.served, plan.engine
    variant = experiment.variant(arm.variant)
    transfer = ["--bucket", '"$BUCKET"', *_destination(arm)]
    weights = [item for model in experiment.models_of(variant) for item in ("--folder", word(model.prefix))]
    weights += ["--safetensors"] if engine.safetensors_alone else []
    devices = "" if on_cpu else device_check(engine, experiment.serving.devices)
    own_image = {"image": engine.tools_reference, "env": bundle_env(ctx) | ENV}
    carrier: dict[str, Any] = {**common, **own_image, "scratch": CARRIER, "read_only_root": True}
    fetch = container(
        name=FETCH,
        script=devices + disk_check(engine, free_gib) + bundle_script("specdecode.pod.fetch", [*transfer, *weights]),
        mounts=[MOUNT, mount("bundle"), mount("models")],
        **carrier,
    )
    command = serve_words(experiment, variant, engine, compiled=False)
    store = container(
        name=STORE,
        script=fetched_bundle_script("specdecode.pod.store", [*transfer, "--", *command]),
        mounts=[MOUNT, mount("bundle", read_only=True), mount("compiled", read_only=True)],
        **carrier,
    )
    return fetch, store


def _compiler(
    plan: Plan, arm: Arm, artifact: Artifact, on_cpu: CpuCompile | None, *, minutes: float, common: dict[str, Any]
) -> KubeObject:
    """The container that runs the engine until its server is healthy, for `minutes` at most. It has no credentials."""
    experiment, engine = plan.served, plan.engine
    variant = experiment.variant(arm.variant)
    serving = ["--artifact-variable", artifact.variable]
    serving += ["--health", f'"http://$POD_IP:{names.SERVE_PORT}/health"']
    serving += ["--minutes", f"{minutes:g}"]
    ranks = experiment.serving_of(variant).tensor_parallel_size
    for path in on_cpu.leaves if on_cpu else ():
        serving += ["--leaves", word(path.format(last_rank=ranks - 1))]
    command = serve_words(experiment, variant, engine, compiled=False)
    return container(
        name=COMPILE,
        image=engine.reference,
        script=forgotten(engine)
        + fetched_bundle_script("specdecode.pod.compile", [*_destination(arm), *serving, "--", *command]),
        env=OFFLINE,
        given=serving_env(experiment, variant, engine) | (on_cpu.env if on_cpu else {}),
        mounts=[SHM_MOUNT, mount("bundle", read_only=True), mount("models", read_only=True), mount("compiled")],
        read_only_root=False,
        **common,
    )


def _destination(arm: Arm) -> list[str]:
    return ["--artifact", word(s3_keys.compiled_prefix(arm.fingerprint))]


def compile_rights(plan: Plan, arm: Arm) -> Rights:
    """Write only this artifact, and read the weights that it is made of."""
    models = plan.served.models_of(plan.served.variant(arm.variant))
    own = f"{s3_keys.compiled_prefix(arm.fingerprint)}*"
    return Rights(reads=(own, *(f"{model.prefix}*" for model in models)), writes=(own,), clears=True)


def mount(name: str, *, read_only: bool = False) -> dict[str, Any]:
    return {"name": name, "mountPath": f"{names.WORKDIR}/{name}", **({"readOnly": True} if read_only else {})}
