"""The Job of a start check: an arm's server with a tiny model, as it will be compiled and served.

Image, words of the command, devices and variables are the arm's. The first container makes the model and has the pod's
session; the engine's has no credentials, and nothing that it writes is kept (ADR 198).
"""

import math
from typing import Any

from specdecode import names
from specdecode.exit_codes import PERMANENT, Exit
from specdecode.experiment.effective import serving_env
from specdecode.experiment.variants import HEADS, ServedVariant
from specdecode.manifests.bundle import ENV, MOUNT, Rights, bundle_env, bundle_script, fetched_bundle_script, volume
from specdecode.manifests.compiling import CARRIER, SPARE_GIB, mount
from specdecode.manifests.early import device_check, disk_check
from specdecode.manifests.naming import RenderContext, labels, object_name
from specdecode.manifests.pods import KubeObject, claiming, container, job, pod_template, word
from specdecode.manifests.serve_command import forgotten, serve_words, served_model
from specdecode.manifests.serving import OFFLINE, SHM_MOUNT, shm_volume
from specdecode.planning import Plan
from specdecode.planning.timeline import HEALTHY_SHARE

COMPONENT = "start-check"
MAKE = "tiny-model"
"""Name of the container that makes the model."""
TINY_LAYERS = 2
UNDER_A_HEAD = 8
"""Layers of a tiny target. A head listens to three of its layers, which must differ: vLLM takes 2, n / 2 and n - 3
(`get_eagle3_aux_hidden_state_layers` of its models), and a DFlash head to five or more.
"""


def start_check_job(plan: Plan, variant: ServedVariant, ctx: RenderContext) -> KubeObject:
    """Job that starts the server of `variant` with a tiny model and asks it for some tokens.

    A try that fails is made once more. A server that is not healthy in time is not: it would cost the same again.
    """
    experiment, engine = plan.served, plan.engine
    minutes, weights_gib = experiment.deadlines.start_check, experiment.weights_gib(variant)
    resources = engine.resources.serving
    common: dict[str, Any] = {"resources": resources, "weights_gib": weights_gib}
    name, own = object_name(ctx.run_id, "check", variant.name), labels(ctx, COMPONENT, variant=variant.name)
    make = container(
        name=MAKE,
        image=engine.tools_reference,
        env=bundle_env(ctx) | ENV,
        script=device_check(engine, experiment.serving.devices)
        + disk_check(engine, min(SPARE_GIB, math.ceil(resources.ephemeral_gib)))
        + bundle_script("specdecode.pod.tiny_model", _tiny(plan, variant)),
        mounts=[MOUNT, mount("bundle"), mount("models")],
        scratch=CARRIER,
        read_only_root=True,
        **common,
    )
    serve = container(
        image=engine.reference,
        script=forgotten(engine)
        + fetched_bundle_script("specdecode.pod.compile", _asked(plan, variant, minutes=minutes * HEALTHY_SHARE)),
        env=OFFLINE,
        given=serving_env(experiment, variant, engine),
        mounts=[SHM_MOUNT, mount("bundle", read_only=True), mount("models", read_only=True)],
        read_only_root=False,
        **common,
    )
    make, _ = claiming(make, experiment, ctx)
    serve, placement = claiming(serve, experiment, ctx)
    template = pod_template(
        labels=own,
        service_account=names.PLAIN_ACCOUNT,
        first=(make,),
        main=serve,
        volumes=[
            shm_volume(resources, weights_gib),
            volume(name),
            *({"name": each, "emptyDir": {}} for each in (f"{CARRIER}work", f"{CARRIER}tmp", "bundle", "models")),
        ],
        placement=placement,
        restart_policy="Never",
        grace_s=60,
    )
    return job(
        name=name,
        labels=own,
        template=template,
        retries=1,
        deadline_minutes=minutes,
        permanent_exits=(*PERMANENT, Exit.NOT_HEALTHY),
    )


def _tiny(plan: Plan, variant: ServedVariant) -> list[str]:
    """Arguments of the program that makes the models."""
    target, *drafts = plan.served.models_of(variant)
    kind = "--head" if has_head(variant) else "--model"
    words = ["--bucket", '"$BUCKET"', "--layers", str(layers(variant)), "--model", word(target.prefix)]
    return words + [item for draft in drafts for item in (kind, word(draft.prefix))]


def _asked(plan: Plan, variant: ServedVariant, *, minutes: float) -> list[str]:
    """Arguments of the program that starts the server. What it compiles lies on the pod's own disk."""
    artifact = plan.engine.artifact
    words = ["--artifact", "compiled/", "--artifact-variable", artifact.variable] if artifact else []
    words += ["--health", f'"http://$POD_IP:{names.SERVE_PORT}/health"', "--minutes", f"{minutes:g}"]
    words += ["--ask", word(served_model(plan.experiment))]
    return [*words, "--", *serve_words(plan.served, variant, plan.engine, compiled=False)]


def start_check_rights(plan: Plan, variant: ServedVariant) -> Rights:
    """Read the models that the tiny ones are made after, and write nothing."""
    return Rights(reads=tuple(f"{model.prefix}*" for model in plan.served.models_of(variant)))


def has_head(variant: ServedVariant) -> bool:
    """Whether the arm speculates with a head of its target."""
    return variant.speculation is not None and variant.speculation.method in HEADS


def layers(variant: ServedVariant) -> int:
    """Layers of the arm's tiny target, and of its draft model."""
    return UNDER_A_HEAD if has_head(variant) else TINY_LAYERS
