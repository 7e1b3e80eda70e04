"""Jobs about prompts, on ordinary CPU nodes: fetch a set from the Hugging Face hub, count with a staged tokenizer."""

from __future__ import annotations

from specdecode import names, s3_keys
from specdecode.exit_codes import PERMANENT
from specdecode.experiment.prompt_lengths import CountSpec
from specdecode.manifests.bundle import bundle_env, bundle_script
from specdecode.manifests.context import RenderContext
from specdecode.manifests.object_names import labels, object_name
from specdecode.manifests.pods import (
    KubeObject,
    container,
    job,
    meta,
    on_cpu_nodes,
    pod_template,
    word,
)
from specdecode.manifests.sessions import ENV, MOUNT, Rights, volume
from specdecode.planning import Plan
from specdecode.planning.states import COUNT_MINUTES
from specdecode.prompts import HubFile, PromptsOf

FEW_SETS = 6
"""Most sets that a session policy names one by one; it has no room for more (`sessions.LIMIT`)."""


def fetch_prompts_job(plan: Plan, given: PromptsOf, hub: HubFile, ctx: RenderContext) -> KubeObject:
    """Job that puts the file of `hub` under the set's key, its hash checked."""
    name = object_name(ctx.run_id, "prompts", given.set, given.sha256[:12])
    words = {"key": given.key, "sha256": given.sha256, "repo": hub.repo, "revision": hub.revision, "file": hub.file}
    arguments = ["--bucket", '"$BUCKET"', *(part for key, value in words.items() for part in (f"--{key}", word(value)))]
    env = {"HF_TOKEN_SECRET": names.HF_TOKEN_SECRET} if hub.gated else {}
    minutes = plan.experiment.deadlines.staging
    return _job(plan, name, bundle_script("specdecode.pod.fetch_prompts", arguments), ctx, env=env, minutes=minutes)


def fetch_prompts_rights(given: PromptsOf, hub: HubFile) -> Rights:
    """Write only this file."""
    return Rights(writes=(given.key,), token=hub.gated)


def count_prompts_job(plan: Plan, spec: CountSpec, ctx: RenderContext) -> list[KubeObject]:
    """ConfigMap with what is to be counted, and the Job, both of one name."""
    name = object_name(ctx.run_id, "count")
    script = bundle_script("specdecode.pod.count_prompts", ["--bucket", '"$BUCKET"', "--spec", "spec/spec.json"])
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": meta(name, labels(ctx, "staging")),
        "data": {"spec.json": spec.model_dump_json(indent=2)},
    }
    return [config, _job(plan, name, script, ctx, spec=True, minutes=COUNT_MINUTES)]


def count_prompts_rights(spec: CountSpec) -> Rights:
    """Read the model's tokenizer and the sets, write the lengths."""
    sets = tuple(dict.fromkeys(case.prompts.key for case in spec.cases if case.prompts))
    if len(sets) > FEW_SETS:
        sets = (f"{s3_keys.PROMPTS}*",)
    return Rights(reads=(f"{spec.model}tokenizer*", f"{spec.model}chat_template.jinja", *sets), writes=(spec.key,))


def _job(
    plan: Plan,
    name: str,
    script: str,
    ctx: RenderContext,
    *,
    minutes: int,
    env: dict[str, str] | None = None,
    spec: bool = False,
) -> KubeObject:
    own = labels(ctx, "staging")
    mounts = [{"name": "spec", "mountPath": f"{names.WORKDIR}/spec", "readOnly": True}] if spec else []
    main = container(
        image=plan.engine.tools_reference,
        script=script,
        env=bundle_env(ctx) | ENV | (env or {}),
        resources=plan.engine.resources.staging,
        mounts=[MOUNT, *mounts],
        read_only_root=True,
    )
    template = pod_template(
        labels=own,
        service_account=names.PLAIN_ACCOUNT,
        main=main,
        volumes=[volume(name), *([{"name": "spec", "configMap": {"name": name}}] if spec else [])],
        placement=on_cpu_nodes(makes_nodes=ctx.makes_nodes),
        restart_policy="Never",
    )
    return job(name=name, labels=own, template=template, retries=2, deadline_minutes=minutes, permanent_exits=PERMANENT)
