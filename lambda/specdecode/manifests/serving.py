"""The Deployment and the Service of an arm, of a run or to keep. Weights and artifact are mounted read-only.

The engine's container has no AWS credentials: the kubelet hands a token to the CSI driver (Mountpoint for S3 CSI
driver, docs/CONFIGURATION.md, "Pod-Level Credentials").
"""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from specdecode import names, s3_keys
from specdecode.exit_codes import Exit
from specdecode.experiment.capacity import COPY_MARGIN, MONITOR
from specdecode.experiment.effective import serving_env
from specdecode.experiment.engine_parts import Probe, Resources
from specdecode.experiment.sizing import mount_streams
from specdecode.manifests import verified_copy
from specdecode.manifests.addresses import server_env
from specdecode.manifests.bundle import HOME, bundle_env, bundle_script
from specdecode.manifests.early import device_check, disk_check
from specdecode.manifests.naming import RenderContext, labels, serving_name
from specdecode.manifests.pods import CONTAINER, KubeObject, claiming, container, meta, pod_template, word
from specdecode.manifests.serve_command import LOCAL, forgotten, serve_words
from specdecode.planning import Arm, Plan
from specdecode.planning.weight_reading import is_copied, reads_weights

OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
"""A server has its weights and its artifact; it asks the network for nothing."""
_PROGRAM = Path(verified_copy.__file__).read_text("utf-8")
_VERIFY = f"""\
if [ ! -f {LOCAL}/verified ]; then
  [ ! -d {LOCAL} ] || chmod -R u+w {LOCAL}
  rm -rf {LOCAL}
  mkdir {LOCAL}
{{room}}fi
python3 -I -c {{program}} {{folders}}
if [ ! -f {LOCAL}/verified ]; then
{{done}}  echo "specdecode: every byte is as stored; copied $(du -sh {LOCAL} | cut -f 1) to the local disk" >&2
fi
"""
"""Reads what the server loads, many files at once, compares it with COMPLETE.json, and copies on the way, after
`room`'s look at the disk. A container that is started again finds its copies, and compares what it loads through the
mount once more: that may have changed meanwhile.
"""
_READ_ONLY = f"  touch {LOCAL}/verified\n  chmod -R a-w {LOCAL}\n"
"""NxD Inference compiles an artifact anew that it can write and fails to load: the run would measure the wrong one."""
_WRITABLE = f"  chmod -R u+w {LOCAL}\n"
"""For an engine that must write there. The next start copies all of it anew: the last one may have half written it."""
MONITOR_CONTAINER, MONITOR_SCRATCH = "neuron-monitor", "monitor-"
"""The monitor beside a server, and the prefix of its own volumes' names: the engine cannot write there."""
SHM_MOUNT = {"name": "shm", "mountPath": "/dev/shm"}  # noqa: S108


def shm_volume(resources: Resources, weights_gib: float) -> dict[str, Any]:
    """Shared memory (the public sample gives 128 GiB), at most half of what the pod requests."""
    half = resources.memory_request_gib(weights_gib) // 2
    return {
        "name": "shm",
        "emptyDir": {"medium": "Memory", "sizeLimit": f"{min(128, half)}Gi"},
    }


def serving(plan: Plan, arm: Arm, ctx: RenderContext) -> list[KubeObject]:
    """Deployment and Service of `arm`, both called `serving_name(arm, ctx)`."""
    name, own = serving_name(arm, ctx), labels(ctx, "serving", wave=arm.wave, variant=arm.variant)
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": meta(name, own),
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "progressDeadlineSeconds": plan.experiment.deadlines.serve * 60,
            "selector": {"matchLabels": own},
            "template": _template(plan, arm, ctx, own),
        },
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": meta(name, own),
        "spec": {
            "type": "ClusterIP",
            "selector": own,
            "ports": [{"name": "http", "port": names.SERVE_PORT, "targetPort": names.SERVE_PORT, "protocol": "TCP"}],
        },
    }
    return [deployment, service]


def _template(plan: Plan, arm: Arm, ctx: RenderContext, own: Mapping[str, str]) -> KubeObject:
    """The pod, with the labels `own`. Its server claims the arm's devices, and mounts weights and artifact."""
    experiment, engine = plan.served, plan.engine
    mounted = ("models", "compiled") if engine.artifact else ("models",)
    claimed, placement = claiming(_server(plan, arm, ctx, mounted), experiment, ctx)
    template = pod_template(
        labels=own,
        service_account=names.SERVICE_ACCOUNTS["serving"],
        main=claimed,
        without_credentials=(CONTAINER,),
        volumes=[
            shm_volume(engine.resources.serving, experiment.weights_gib(experiment.variant(arm.variant))),
            *(
                {"name": p, "persistentVolumeClaim": {"claimName": names.model_pv(p), "readOnly": True}}
                for p in mounted
            ),
        ],
        placement=placement,
        restart_policy="Always",
        grace_s=60,
    )
    return _monitored(template, plan, arm, ctx) if experiment.serving.neuron_metrics else template


def _monitored(template: KubeObject, plan: Plan, arm: Arm, ctx: RenderContext) -> KubeObject:
    """The serving pod's `template` with the monitor in it, and the account that may publish.

    It shares the server's claim, to see its devices, and nothing else: it has credentials, the engine has none. Its
    container always stays: a pod is only ready, and an arm only measured, with all its containers.
    """
    script = bundle_script("specdecode.pod.neuron_metrics", ["--variant", word(arm.label)])
    beside = container(
        name=MONITOR_CONTAINER,
        image=plan.engine.reference,
        script=f"sh -c {word(script)} || true\nexec sleep infinity",
        env=bundle_env(ctx),
        resources=MONITOR,
        scratch=MONITOR_SCRATCH,
        read_only_root=False,
    )
    beside["resources"]["claims"] = [{"name": "neuron"}]
    metadata, spec = template["metadata"], template["spec"]
    return {
        "metadata": {**metadata, "labels": {**metadata["labels"], names.MONITORED_LABEL: "true"}},
        "spec": {
            **spec,
            "serviceAccountName": names.SERVICE_ACCOUNTS["monitored"],
            "containers": [*spec["containers"], beside],
            "volumes": [
                *spec["volumes"],
                *({"name": f"{MONITOR_SCRATCH}{name}", "emptyDir": {}} for name in ("work", "tmp")),
            ],
        },
    }


def _server(plan: Plan, arm: Arm, ctx: RenderContext, mounted: Sequence[str]) -> KubeObject:
    """The container. Its startup probe lets the server load until the experiment's deadline."""
    experiment, engine = plan.served, plan.engine
    variant, probes = experiment.variant(arm.variant), engine.probes
    weights_gib, copied = experiment.weights_gib(variant), copied_folders(plan, arm, ctx)
    # For the copies; those of artifact and weights are not made together.
    resources, room = engine.resources.serving, COPY_MARGIN * weights_gib if copied else 0
    return container(
        image=engine.reference,
        script=_script(plan, arm, ctx, copied=copied),
        env=OFFLINE | (engine.artifact.serve_env if engine.artifact else {}),
        given=serving_env(experiment, variant, engine),
        references=server_env(arm, ctx),
        resources=resources.model_copy(update={"ephemeral_gib": resources.ephemeral_gib + room}),
        weights_gib=weights_gib,
        mounts=[
            SHM_MOUNT,
            *({"name": prefix, "mountPath": f"{names.WORKDIR}/{prefix}", "readOnly": True} for prefix in mounted),
        ],
        read_only_root=False,
        ports=[{"name": "http", "containerPort": names.SERVE_PORT, "protocol": "TCP"}],
        startupProbe=_probe(probes.startup, failures=-(-experiment.deadlines.serve * 60 // probes.startup.period_s)),
        readinessProbe=_probe(probes.readiness, failures=probes.readiness.failures),
        livenessProbe=_probe(probes.liveness, failures=probes.liveness.failures),
    )


def _script(plan: Plan, arm: Arm, ctx: RenderContext, *, copied: Sequence[str]) -> str:
    """Refuse to start unless all is as stored. Folders in `copied` go to local disk, and are loaded from there."""
    experiment, engine = plan.served, plan.engine
    variant, artifact = experiment.variant(arm.variant), engine.artifact
    models = [model.prefix.rstrip("/") for model in experiment.models_of(variant)]
    compiled = s3_keys.compiled_prefix(arm.fingerprint).rstrip("/")
    codes = {compiled: Exit.DAMAGED_ARTIFACT} if artifact else {}
    codes |= dict.fromkeys(models, Exit.DAMAGED_MODEL)
    given = {
        "folders": [
            {"name": name, "content": ctx.contents.get(f"{name}/", ""), "copied": name in copied, "code": code.value}
            for name, code in codes.items()
        ],
        "local": LOCAL,
        "streams": mount_streams(experiment, engine),
    }
    verify = _VERIFY.format(
        room=disk_check(engine, math.ceil(COPY_MARGIN * experiment.weights_gib(variant))) if copied else "",
        program=word(_PROGRAM),
        folders=word(json.dumps(given)),
        done=_WRITABLE if artifact and artifact.copied else _READ_ONLY,
    )
    where = f"{LOCAL}/" if compiled in copied else ""
    found = f'export {artifact.variable}="$PWD/{where}{compiled}"\n' if artifact else ""
    command = serve_words(experiment, variant, engine, compiled=True, local=models[0] in copied)
    checks = device_check(engine, experiment.serving.devices) + verify
    return f"{HOME}{checks}{found}{forgotten(engine)}exec {' '.join(command)}"


def copied_folders(plan: Plan, arm: Arm, ctx: RenderContext) -> list[str]:
    """Folders that the server loads from a copy on the node's disks: it is faster, or the server must write there."""
    experiment, engine = plan.served, plan.engine
    variant, artifact = experiment.variant(arm.variant), engine.artifact
    faster = is_copied(experiment, engine, ctx.node_storage)
    compiled = s3_keys.compiled_prefix(arm.fingerprint).rstrip("/")
    folders = [compiled] if artifact and (faster or artifact.copied) else []
    if faster and reads_weights(experiment, variant, engine):
        folders += [model.prefix.rstrip("/") for model in experiment.models_of(variant)]
    return folders


def _probe(probe: Probe, *, failures: int) -> dict[str, Any]:
    return {
        "httpGet": {"path": "/health", "port": "http"},
        "initialDelaySeconds": probe.initial_delay_s,
        "periodSeconds": probe.period_s,
        "timeoutSeconds": probe.timeout_s,
        "failureThreshold": failures,
    }


def production(plan: Plan, variant: str, *, name: str, replicas: int, ctx: RenderContext) -> list[KubeObject]:
    """Deployment and Service of `variant`, called `name`: the run's container, claim, mounts, probes and checks.

    They are the user's: with no label, owner or key of the run, and placed by instance type, since the pipeline's pool
    has no node while nothing runs.
    """
    arm = next(arm for wave in plan.waves for arm in wave.arms if arm.variant == variant)
    deployment, service = serving(plan, arm, ctx)
    own = {"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": plan.experiment.name}
    made = {"name": name, "namespace": names.NAMESPACE, "labels": own}
    template = deployment["spec"]["template"]
    pod: dict[str, Any] = {
        **template["spec"],
        "containers": [_with_key(each, name) for each in template["spec"]["containers"]],
        "nodeSelector": {"node.kubernetes.io/instance-type": plan.experiment.shape.name},
    }
    return [
        {
            **deployment,
            "metadata": made,
            "spec": {
                **deployment["spec"],
                "replicas": replicas,
                "selector": {"matchLabels": own},
                "template": {**template, "metadata": {**template["metadata"], "labels": own}, "spec": pod},
            },
        },
        {**service, "metadata": made, "spec": {**service["spec"], "selector": own}},
    ]


def _with_key(container: KubeObject, name: str) -> KubeObject:
    """The container with its API key from a Secret of the user's."""
    env = [
        {**each, "valueFrom": {"secretKeyRef": {**each["valueFrom"]["secretKeyRef"], "name": name}}}
        if "secretKeyRef" in each.get("valueFrom", {})
        else each
        for each in container.get("env", [])
    ]
    return {**container, "env": env}
