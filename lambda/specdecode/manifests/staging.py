"""The staging Job: a model's weights to the bucket, from an ordinary CPU node."""

from __future__ import annotations

from specdecode import names
from specdecode.exit_codes import PERMANENT
from specdecode.experiment.model import ModelRef
from specdecode.manifests.bundle import bundle_env, bundle_script
from specdecode.manifests.context import RenderContext
from specdecode.manifests.object_names import labels, staging_name
from specdecode.manifests.pods import (
    KubeObject,
    container,
    job,
    on_cpu_nodes,
    pod_template,
    word,
)
from specdecode.manifests.sessions import ENV, MOUNT, Rights, volume
from specdecode.planning import Plan


def staging_job(plan: Plan, model: ModelRef, ctx: RenderContext) -> KubeObject:
    """Job that downloads `model` (or copies it from its import prefix) to `models/…`, COMPLETE.json last.

    The Hugging Face token is read from Secrets Manager by the pod's own session, for gated models only.
    """
    own, name = labels(ctx, "staging"), staging_name(model, ctx)
    source = (
        ["--import-prefix", word(model.import_prefix)]
        if model.import_prefix
        else ["--model", word(model.id), "--revision", word(model.revision)]
    )
    arguments = ["--bucket", '"$BUCKET"', "--prefix", word(model.prefix), *source]
    arguments += ["--rescale-fp8"] if model.rescale_fp8 else []
    arguments += ["--safetensors"] if plan.engine.safetensors_alone else []
    env = bundle_env(ctx) | ENV | ({"HF_TOKEN_SECRET": names.HF_TOKEN_SECRET} if model.gated else {})
    main = container(
        image=plan.engine.tools_reference,
        script=bundle_script("specdecode.pod.stage", arguments),
        env=env,
        resources=plan.engine.resources.staging,
        mounts=[MOUNT],
        read_only_root=True,
    )
    template = pod_template(
        labels=own,
        service_account=names.PLAIN_ACCOUNT,
        main=main,
        volumes=[volume(name)],
        placement=on_cpu_nodes(makes_nodes=ctx.makes_nodes),
        restart_policy="Never",
    )
    return job(
        name=name,
        labels=own,
        template=template,
        retries=4,
        deadline_minutes=plan.experiment.deadlines.staging,
        permanent_exits=PERMANENT,
    )


def staging_rights(model: ModelRef) -> Rights:
    """Write only this model's folder, and read its import prefix."""
    own = f"{model.prefix}*"
    imported = (f"{model.import_prefix}*",) if model.import_prefix else ()
    return Rights(reads=(own, *imported), writes=(own,), token=model.gated)
