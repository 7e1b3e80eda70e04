"""Jobs that run an arm's engine before it serves: the compile, and the start check with a tiny model (ADR 198).

Carriers have the pod's session and run the bundle alone. The container that runs the engine, with the arm's image,
command, devices and variables, has no credentials (ADR 127).
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from specdecode import names, s3_keys
from specdecode.exit_codes import PERMANENT, Exit
from specdecode.experiment.effective import serving_env
from specdecode.experiment.engine_parts import Resources
from specdecode.experiment.variants import HEADS, ServedVariant
from specdecode.manifests.bundle import ENV, MOUNT, Rights, StepJob, bundle_env, bundle_script, volume
from specdecode.manifests.early import device_check, disk_check
from specdecode.manifests.naming import RenderContext, compile_name, labels, object_name
from specdecode.manifests.pods import (
    KubeObject,
    claiming,
    container,
    job,
    on_cpu_nodes,
    pod_template,
    word,
)
from specdecode.manifests.serve_command import forgotten, serve_words, served_model
from specdecode.manifests.serving import OFFLINE, SHM_MOUNT, shm_volume
from specdecode.planning import Arm, Plan
from specdecode.planning.timeline import HEALTHY_SHARE, cpu_deadline

FETCH, COMPILE, STORE = "fetch", "compile", "store"
SPARE_GIB = 20
"""Local disk that must be free beside weights and artifact: images and other pods may have taken of the request."""
CARRIER = "carrier-"
"""Prefix of the names of the carriers' own volumes. The engine cannot write there."""


COMPONENT = "start-check"
MAKE = "tiny-model"
TINY_LAYERS = 2
UNDER_A_HEAD = 8
"""Layers of a tiny target. A head listens to three of its layers, which must differ: vLLM takes 2, n / 2 and n - 3
(`get_eagle3_aux_hidden_state_layers` of its models), and a DFlash head to five or more.
"""


def compile_job(plan: Plan, arm: Arm, ctx: RenderContext) -> StepJob:
    """Job that makes `compiled/<fingerprint>/`, COMPLETE.json last: fetch the weights, compile, store the artifact. It
    writes only there, and reads the weights.

    It claims the devices that the arm will be served on: a server is only healthy once it has loaded. The first
    container looks at devices, driver and disk before it fetches a byte. An arm with a `fallback` is compiled on a CPU
    node, by a server that may end instead of loading.
    """
    experiment, engine, variant = plan.served, plan.engine, plan.served.variant(arm.variant)
    assert engine.artifact  # noqa: S101 (an engine without one has no artifacts in its plan)
    on_cpu = engine.artifact.on_cpu if arm.fallback else None
    resources = on_cpu.resources if on_cpu else engine.resources.compile
    assert resources  # noqa: S101 (as above)
    deadline = cpu_deadline(experiment, engine) if on_cpu else experiment.deadlines.compile
    weights_gib, folder = experiment.weights_gib(variant), s3_keys.compiled_prefix(arm.fingerprint)
    common: dict[str, Any] = {"resources": resources, "weights_gib": weights_gib}
    transfer = ["--bucket", '"$BUCKET"', "--artifact", word(folder)]
    weights = [item for model in experiment.models_of(variant) for item in ("--folder", word(model.prefix))]
    weights += ["--safetensors"] if engine.safetensors_alone else []
    fetch = _carrier(
        plan,
        ctx,
        ("" if on_cpu else device_check(engine, experiment.serving.devices))
        + disk_check(engine, math.ceil(resources.ephemeral_per_weight * weights_gib) + SPARE_GIB)
        + bundle_script("specdecode.pod.fetch", [*transfer, *weights]),
        [_mount("bundle"), _mount("models")],
        name=FETCH,
        **common,
    )
    command = serve_words(experiment, variant, engine, compiled=False)
    store = _carrier(
        plan,
        ctx,
        bundle_script("specdecode.pod.upload", [*transfer, "--", *command], fetches=False),
        [_mount("bundle", read_only=True), _mount("compiled", read_only=True)],
        name=STORE,
        **common,
    )
    last = experiment.serving_of(variant).tensor_parallel_size - 1
    leaves = [word(path.format(last_rank=last)) for path in on_cpu.leaves] if on_cpu else []
    compiles = _engine_runs(
        plan,
        variant,
        folder,
        [part for leaf in leaves for part in ("--leaves", leaf)],
        minutes=deadline,
        given=on_cpu.env if on_cpu else {},
        mounts=[_mount("compiled")],
        name=COMPILE,
        **common,
    )
    placement = on_cpu_nodes(names.COMPILE_NODEPOOL, makes_nodes=ctx.makes_nodes)
    if not on_cpu:
        fetch, _ = claiming(fetch, experiment, ctx)  # to look at the devices before it fetches
        compiles, placement = claiming(compiles, experiment, ctx)
    own = {**labels(ctx, "compile", variant=arm.variant), names.ARTIFACT_LABEL: arm.fingerprint}
    containers = fetch, compiles, store
    models = (f"{model.prefix}*" for model in experiment.models_of(variant))
    rights = Rights(reads=(f"{folder}*", *models), writes=(f"{folder}*",), clears=True)
    common |= {"rights": rights, "disks": ("compiled",), "minutes": deadline, "retries": 2}
    return _job(compile_name(arm, ctx), own, containers, placement, **common)


def start_check_job(plan: Plan, variant: ServedVariant, ctx: RenderContext) -> StepJob:
    """Job that makes tiny models, starts the server of `variant` with them, and asks it for some tokens.

    It reads the models that the tiny ones are made after, and nothing that it writes is kept. A try that fails is made
    once more, unless the server was not healthy in time: it would cost the same again.
    """
    experiment, engine, minutes = plan.served, plan.engine, plan.served.deadlines.start_check
    resources = engine.resources.serving
    common: dict[str, Any] = {"resources": resources, "weights_gib": experiment.weights_gib(variant)}
    name, own = object_name(ctx.run_id, "check", variant.name), labels(ctx, COMPONENT, variant=variant.name)
    make = _carrier(
        plan,
        ctx,
        device_check(engine, experiment.serving.devices)
        + disk_check(engine, min(SPARE_GIB, math.ceil(resources.ephemeral_gib)))
        + bundle_script("specdecode.pod.tiny_model", _tiny(plan, variant)),
        [_mount("bundle"), _mount("models")],
        name=MAKE,
        **common,
    )
    ask = ["--ask", word(served_model(plan.experiment))]
    serve = _engine_runs(plan, variant, "compiled/", ask, minutes=minutes, **common)
    make, _ = claiming(make, experiment, ctx)
    serve, placement = claiming(serve, experiment, ctx)
    rights = Rights(reads=tuple(f"{model.prefix}*" for model in experiment.models_of(variant)))
    common |= {"rights": rights, "exits": (*PERMANENT, Exit.NOT_HEALTHY), "minutes": minutes, "retries": 1}
    return _job(name, own, (make, serve), placement, **common)


def _carrier(plan: Plan, ctx: RenderContext, script: str, mounts: Sequence[KubeObject], **more: Any) -> KubeObject:
    return container(
        image=plan.engine.tools_reference,
        env=bundle_env(ctx) | ENV,
        script=script,
        mounts=[MOUNT, *mounts],
        scratch=CARRIER,
        read_only_root=True,
        **more,
    )


def _engine_runs(
    plan: Plan,
    variant: ServedVariant,
    folder: str,
    arguments: Sequence[str],
    *,
    minutes: float,
    given: Mapping[str, str] | None = None,
    mounts: Sequence[KubeObject] = (),
    **more: Any,
) -> KubeObject:
    """The container that runs the engine until its server is healthy, for a share of `minutes` at most.

    `folder`: where its artifact comes to lie; `arguments`: more of the program that watches it, as words of shell.
    """
    engine = plan.engine
    words = ["--artifact", word(folder), "--artifact-variable", engine.artifact.variable] if engine.artifact else []
    words += ["--health", f'"http://$POD_IP:{names.SERVE_PORT}/health"', "--minutes", f"{minutes * HEALTHY_SHARE:g}"]
    command = serve_words(plan.served, variant, engine, compiled=False)
    script = bundle_script("specdecode.pod.compile", [*words, *arguments, "--", *command], fetches=False)
    return container(
        image=engine.reference,
        script=forgotten(engine) + script,
        env=OFFLINE,
        given=serving_env(plan.served, variant, engine) | dict(given or {}),
        mounts=[SHM_MOUNT, _mount("bundle", read_only=True), _mount("models", read_only=True), *mounts],
        read_only_root=False,
        **more,
    )


def _job(
    name: str,
    own: Mapping[str, str],
    containers: Sequence[KubeObject],
    placement: Mapping[str, Any],
    *,
    resources: Resources,
    weights_gib: float,
    disks: Sequence[str] = (),
    minutes: int,
    retries: int,
    rights: Rights,
    exits: Sequence[int] = PERMANENT,
) -> StepJob:
    """Job of `containers`, one after the other. `disks`: volumes beside those that all have."""
    *first, main = containers
    on_disk = (f"{CARRIER}work", f"{CARRIER}tmp", "bundle", "models", *disks)
    template = pod_template(
        labels=own,
        service_account=names.PLAIN_ACCOUNT,
        first=first,
        main=main,
        volumes=[
            shm_volume(resources, weights_gib),
            volume(name),
            *({"name": each, "emptyDir": {}} for each in on_disk),
        ],
        placement=placement,
        restart_policy="Never",
        grace_s=60,
    )
    made = job(
        name=name, labels=own, template=template, retries=retries, deadline_minutes=minutes, permanent_exits=exits
    )
    return StepJob(made, minutes, rights)


def _mount(name: str, *, read_only: bool = False) -> dict[str, Any]:
    return {"name": name, "mountPath": f"{names.WORKDIR}/{name}", **({"readOnly": True} if read_only else {})}


def _tiny(plan: Plan, variant: ServedVariant) -> list[str]:
    target, *drafts = plan.served.models_of(variant)
    kind = "--head" if has_head(variant) else "--model"
    words = ["--bucket", '"$BUCKET"', "--layers", str(layers(variant)), "--model", word(target.prefix)]
    return words + [item for draft in drafts for item in (kind, word(draft.prefix))]


def has_head(variant: ServedVariant) -> bool:
    return variant.speculation is not None and variant.speculation.method in HEADS


def layers(variant: ServedVariant) -> int:
    """Layers of the arm's tiny target, and of its draft model."""
    return UNDER_A_HEAD if has_head(variant) else TINY_LAYERS
