"""A run on a cluster that has nothing of this package: all its objects, and the order in which a person starts them.

When they are applied nothing runs: Jobs are suspended, servers have no replica. The bucket is the store, but nothing
mounts it: a first container brings weights and artifact to the node's disk (ADR 181).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from specdecode import names, s3_keys
from specdecode.experiment import to_yaml
from specdecode.experiment.capacity import COPY_MARGIN
from specdecode.experiment.claims import claim_template
from specdecode.experiment.prompt_lengths import longest_prompt
from specdecode.experiment.prompt_sets import bucket_sets, hub_sets
from specdecode.manifests.benchmarking import accuracy_job, benchmark, smoke
from specdecode.manifests.bundle import ENV, MOUNT, VOLUME, bundle_env, bundle_script
from specdecode.manifests.compiling import COMPILE, compile_job
from specdecode.manifests.naming import RenderContext, serving_name
from specdecode.manifests.pods import SKIP_CREDENTIALS, KubeObject, container, network_policies, run_root, word
from specdecode.manifests.serving import serving
from specdecode.manifests.staging import fetch_prompts_job, staging_job
from specdecode.planning import Arm, Plan, Wave, first_served

ACCOUNT = names.PLAIN_ACCOUNT
AWS_SECRET, KEY_SECRET, HUB_SECRET = "specdecode-aws", "specdecode-api-key", "specdecode-huggingface"
"""Secrets that the user makes: AWS credentials (unless the account has a role), the servers' key, the hub's token."""
HUB_ENTRY = "token"
EXPERIMENT = "experiment.yaml"
FETCH, SCRATCH = "fetch", "fetch-"
TOKENIZER = "tokenizer.json"


@dataclass(frozen=True, kw_only=True)
class UserStep:
    """One step of the user: Jobs before the servers, the servers, and Jobs that ask them."""

    title: str
    before: tuple[KubeObject, ...] = ()
    """Jobs, one after the other."""
    servers: tuple[KubeObject, ...] = ()
    """Deployments, which are ended with the step."""
    asking: tuple[KubeObject, ...] = ()
    others: tuple[KubeObject, ...] = ()
    """The objects that the servers and Jobs refer to."""

    @property
    def objects(self) -> tuple[KubeObject, ...]:
        return (*self.others, *self.before, *self.servers, *self.asking)


@dataclass(frozen=True, kw_only=True)
class Standalone:
    setup: tuple[KubeObject, ...]
    steps: tuple[UserStep, ...]
    experiment_map: str
    own_sets: tuple[str, ...]
    """Keys of sets of prompts that the run's folder in the bucket must hold too."""

    @property
    def objects(self) -> tuple[KubeObject, ...]:
        return (*self.setup, *(obj for step in self.steps for obj in step.objects))


def standalone(plan: Plan, ctx: RenderContext) -> Standalone:
    """Every object that a bare cluster with the Neuron DRA driver needs for the run."""
    ctx = ctx.model_copy(update={"node_storage": "ebs"})  # servers load from the node's disk already: no second copy
    experiment = plan.experiment
    adapt = _Adapting(plan, ctx)
    root = run_root(plan, ctx)
    root = {**root, "data": {**root["data"], EXPERIMENT: to_yaml(experiment)}}
    staged = [staging_job(plan, model, ctx).job for model in plan.models_to_stage]
    staged += [fetch_prompts_job(plan, given, hub, ctx).job for given, hub in hub_sets(experiment)]
    steps = [UserStep(title="bring weights and prompts to the bucket", before=tuple(map(adapt.job, staged)))]
    compiled: set[str] = set()
    for wave in plan.waves:
        steps.append(_of_wave(plan, wave, ctx, adapt, compiled))
    return Standalone(
        setup=(_namespace(), _account(), *_claims(plan), *network_policies(), root),
        steps=tuple(step for step in steps if step.objects),
        experiment_map=root["metadata"]["name"],
        own_sets=tuple(sorted(bucket_sets(experiment.workload))),
    )


def _of_wave(plan: Plan, wave: Wave, ctx: RenderContext, adapt: _Adapting, compiled: set[str]) -> UserStep:
    """The step of a wave. `compiled`: fingerprints that earlier steps compile; this step adds its own."""
    jobs, servers, others = [], [], []
    to_do = {arm.fingerprint for arm in plan.compiles_to_do} - compiled
    for arm in wave.arms:
        if arm.fingerprint in to_do - compiled:
            compiled.add(arm.fingerprint)
            jobs.append(adapt.job(compile_job(plan, arm, ctx).job))
    for arm in wave.served:
        deployment, service = serving(plan, arm, ctx)
        servers.append(adapt.server(deployment, arm))
        others.append(service)
    asking = [smoke(plan, wave, ctx, longest_prompt(plan.experiment, {})), benchmark(plan, wave, ctx)]
    if plan.experiment.accuracy and first_served(plan.waves, wave):
        asking.append(accuracy_job(plan, wave, ctx))
    arms = ", ".join(arm.variant for arm in wave.arms)
    return UserStep(
        title=f"wave {wave.index}: {arms}",
        before=tuple(jobs),
        servers=tuple(servers),
        asking=tuple(adapt.job(each.job) for each in asking),
        others=(*others, *(obj for each in asking for obj in each.config)),
    )


def _namespace() -> KubeObject:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": names.NAMESPACE, "labels": labels}}


def _account() -> KubeObject:
    metadata = {"name": ACCOUNT, "namespace": names.NAMESPACE}
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata, "automountServiceAccountToken": False}


def _claims(plan: Plan) -> Iterable[KubeObject]:
    if plan.experiment.devices:
        yield claim_template(plan.experiment.devices, shape=plan.experiment.shape)


@dataclass(frozen=True)
class _Adapting:
    """The pipeline's objects, changed for a cluster without the pipeline's own."""

    plan: Plan
    ctx: RenderContext

    def job(self, obj: KubeObject) -> KubeObject:
        """A suspended Job. The tokenizer that a benchmark needs is fetched before it."""
        folders = [self.plan.experiment.target.prefix] if _mounted(obj) else []
        template = self._template(obj, folders, only=[TOKENIZER], ephemeral_gib=1)
        return {**obj, "spec": {**obj["spec"], "suspend": True, "template": template}}

    def server(self, obj: KubeObject, arm: Arm) -> KubeObject:
        """A Deployment without replicas, whose weights and artifact are fetched before its server."""
        plan = self.plan
        variant = plan.served.variant(arm.variant)
        folders = [model.prefix for model in plan.served.models_of(variant)]
        if plan.engine.artifact:
            folders.append(s3_keys.compiled_prefix(arm.fingerprint))
        (main, *_) = obj["spec"]["template"]["spec"]["containers"]
        own = int(main["resources"]["requests"]["ephemeral-storage"].removesuffix("Gi"))
        copies = (2 if plan.engine.artifact else 1) * COPY_MARGIN * plan.served.weights_gib(variant)
        template = self._template(obj, folders, ephemeral_gib=own + math.ceil(copies))
        metadata = template["metadata"]
        labels = {**metadata["labels"], names.MONITORED_LABEL: "true"}  # that alone lets a serving pod reach AWS
        template = {**template, "metadata": {**metadata, "labels": labels}}
        limit = obj["spec"]["progressDeadlineSeconds"] + plan.experiment.deadlines.staging * 60
        return {**obj, "spec": {**obj["spec"], "replicas": 0, "progressDeadlineSeconds": limit, "template": template}}

    def _template(
        self, obj: KubeObject, folders: Sequence[str], *, ephemeral_gib: int, only: Sequence[str] = ()
    ) -> KubeObject:
        template = obj["spec"]["template"]
        spec, metadata = template["spec"], template["metadata"]
        pod: dict[str, Any] = {
            **spec,
            "serviceAccountName": ACCOUNT,
            "nodeSelector": self._nodes(spec["nodeSelector"]),
            "containers": [self._container(each) for each in spec["containers"]],
            "volumes": [_volume(each) for each in spec["volumes"]],
        }
        first = [self._container(each) for each in spec.get("initContainers", ())]
        if folders:
            first.insert(0, self._fetch(folders, _mounted(obj), ephemeral_gib=ephemeral_gib, only=only))
            kept = {volume["name"] for volume in pod["volumes"]}
            extra = [{"name": f"{SCRATCH}{name}", "emptyDir": {}} for name in ("work", "tmp")]
            pod["volumes"] += extra + ([] if VOLUME in kept else [_session()])
        annotations = dict(metadata["annotations"])
        if any(each["name"] == COMPILE for each in first):
            annotations[SKIP_CREDENTIALS] = COMPILE  # the account's role, if it has one, is not the engine's
        elif obj["kind"] == "Job":
            annotations.pop(SKIP_CREDENTIALS, None)
        more = {"initContainers": first} if first else {}
        return {"metadata": {**metadata, "annotations": annotations}, "spec": {**pod, **more}}

    def _fetch(
        self, folders: Sequence[str], volumes: Sequence[str], *, ephemeral_gib: int, only: Sequence[str]
    ) -> KubeObject:
        words = ["--bucket", '"$BUCKET"', *(part for folder in folders for part in ("--folder", word(folder)))]
        words += [part for file in only for part in ("--only", word(file))]
        engine = self.plan.engine
        return container(
            name=FETCH,
            image=engine.tools_reference,
            script=bundle_script("specdecode.pod.fetch", words),
            env=bundle_env(self.ctx) | ENV,
            resources=engine.resources.benchmark.model_copy(update={"ephemeral_gib": ephemeral_gib}),
            scratch=SCRATCH,
            mounts=[MOUNT, *({"name": name, "mountPath": f"{names.WORKDIR}/{name}"} for name in volumes)],
            read_only_root=True,
        )

    def _nodes(self, selector: dict[str, str]) -> dict[str, str]:
        """Pods of the held node by instance type, all others on any node of the images' kind."""
        if names.ACCELERATOR_LABEL in selector:
            return {"node.kubernetes.io/instance-type": self.plan.experiment.shape.name}
        return {"kubernetes.io/arch": "amd64"}

    def _container(self, given: KubeObject) -> KubeObject:
        """With the user's Secrets in place of those that the pipeline makes."""
        own = {serving_name(arm, self.ctx) for wave in self.plan.waves for arm in wave.arms}
        env = []
        for each in given["env"]:
            key = each.get("valueFrom", {}).get("secretKeyRef")
            if each["name"] == "HF_TOKEN_SECRET":
                reference = {"name": HUB_SECRET, "key": HUB_ENTRY}
                env.append({"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": reference}})
            elif key and key["name"] in own:
                env.append({**each, "valueFrom": {"secretKeyRef": {**key, "name": KEY_SECRET}}})
            else:
                env.append(each)
        return {**given, "env": env}


def _mounted(obj: KubeObject) -> list[str]:
    volumes = obj["spec"]["template"]["spec"]["volumes"]
    return [volume["name"] for volume in volumes if "persistentVolumeClaim" in volume]


def _volume(given: dict[str, Any]) -> dict[str, Any]:
    if "persistentVolumeClaim" in given:
        return {"name": given["name"], "emptyDir": {}}
    return _session() if given["name"] == VOLUME else given


def _session() -> dict[str, Any]:
    return {"name": VOLUME, "secret": {"secretName": AWS_SECRET, "defaultMode": 0o440, "optional": True}}
