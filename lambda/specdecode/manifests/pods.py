"""The parts that all objects of a run share: owner; security, working directory and placement of pods."""

import base64
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from specdecode import names
from specdecode.assets import kubernetes_objects
from specdecode.experiment import claims
from specdecode.experiment.engine_parts import Resources
from specdecode.experiment.model import Experiment, ServedExperiment
from specdecode.manifests.naming import RenderContext, labels, root_name
from specdecode.planning import Plan
from specdecode.planning.events import JOB_GRACE_MINUTES

KubeObject = dict[str, Any]
USER = 1000
"""No pod runs as root; the group owns the volumes."""
CONTAINER = "main"

SKIP_CREDENTIALS = "eks.amazonaws.com/skip-containers"
"""Pod annotation: containers that get neither role nor token from EKS (amazon-eks-pod-identity-webhook, README)."""


def word(text: str) -> str:
    return shlex.quote(text)


def literal(text: str) -> str:
    """`text` for a command or a variable of a container as it is.

    Kubernetes replaces `$(NAME)` in both, whatever quotes stand around it, and `$$` by `$`, before any shell sees them:
    a user's text could take in a secret, or end the quotes that it stands in.
    """
    return re.sub(r"\$(?=[$(])", "$$", text)


def meta(name: str, labels: Mapping[str, str]) -> dict[str, Any]:
    return {"name": name, "namespace": names.NAMESPACE, "labels": dict(labels)}


def config_map(name: str, labels: Mapping[str, str], data: Mapping[str, str]) -> KubeObject:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta(name, labels), "data": dict(data)}


def secret(name: str, labels: Mapping[str, str], data: Mapping[str, str]) -> KubeObject:
    encoded = {key: base64.b64encode(text.encode()).decode() for key, text in data.items()}
    return {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": meta(name, labels), "data": encoded}


def container(
    *,
    image: str,
    script: str,
    env: Mapping[str, str],
    given: Mapping[str, str] | None = None,
    references: Sequence[KubeObject] = (),
    resources: Resources,
    weights_gib: float = 0.0,
    scratch: str = "",
    mounts: Sequence[Mapping[str, Any]] = (),
    read_only_root: bool,
    **more: Any,
) -> KubeObject:
    """A container of a pod: the main one unless `more` (probes, ports and the like) has a `name`.

    `given`: variables of the experiment and its engine. Ours (`env`, and `references` to Secrets or the pod itself)
    come last, and in place of those of their names. `scratch`: beginning of the volumes' names for working directory
    and /tmp.
    """
    own: list[KubeObject] = [
        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        *({"name": key, "value": literal(value)} for key, value in env.items()),
        *references,
    ]
    taken = {variable["name"] for variable in own}
    requests = {
        "cpu": _number(resources.cpu),
        "memory": f"{resources.memory_request_gib(weights_gib)}Gi",
        "ephemeral-storage": f"{resources.ephemeral_request_gib(weights_gib)}Gi",
    }
    limits = {} if resources.cpu_limit is None else {"limits": {"cpu": _number(resources.cpu_limit)}}
    return {
        "name": CONTAINER,
        "image": image,
        "command": ["/bin/sh", "-c", literal(script)],
        "workingDir": names.WORKDIR,
        "env": [
            *({"name": key, "value": literal(value)} for key, value in (given or {}).items() if key not in taken),
            *own,
        ],
        "resources": {"requests": requests, **limits},
        "volumeMounts": [
            {"name": f"{scratch}work", "mountPath": names.WORKDIR},
            {"name": f"{scratch}tmp", "mountPath": "/tmp"},  # noqa: S108
            *map(dict, mounts),
        ],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": read_only_root,
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
        **more,
    }


def pod_template(
    *,
    labels: Mapping[str, str],
    service_account: str,
    first: Sequence[KubeObject] = (),
    main: KubeObject,
    without_credentials: Sequence[str] = (),
    volumes: Sequence[Mapping[str, Any]] = (),
    placement: Mapping[str, Any],
    restart_policy: str,
    grace_s: int = 30,
    finds_services: bool = False,
) -> KubeObject:
    """Pod template under the `restricted` Pod Security Standard.

    `first`: containers that run one after the other before `main`. `without_credentials`: containers that get neither
    role nor token of the account: the role is for the pod's mounts alone. `finds_services`: variables with the
    addresses of the namespace's Services; to vLLM, `VLLM_…` ones would be options.
    """
    annotations = {"karpenter.sh/do-not-disrupt": "true"}
    if without_credentials:
        annotations[SKIP_CREDENTIALS] = ",".join(without_credentials)
    return {
        "metadata": {"labels": dict(labels), "annotations": annotations},
        "spec": {
            "serviceAccountName": service_account,
            "automountServiceAccountToken": False,
            "enableServiceLinks": finds_services,
            "restartPolicy": restart_policy,
            "terminationGracePeriodSeconds": grace_s,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": USER,
                "runAsGroup": USER,
                "fsGroup": USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            **placement,
            **({"initContainers": list(first)} if first else {}),
            "containers": [main],
            "volumes": [{"name": "work", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}, *map(dict, volumes)],
        },
    }


def on_held_node(experiment: Experiment, pool: str | None) -> dict[str, Any]:
    """Placement on the node of `pool`, which the run alone holds, without devices. None: the first of its kind."""
    kind = experiment.shape.pool
    return {
        "nodeSelector": {names.ACCELERATOR_LABEL: pool or kind},
        "tolerations": [_tolerate(names.TAINTS[kind])],
    }


def on_cpu_nodes(pool: str = names.STAGING_NODEPOOL, *, makes_nodes: bool) -> dict[str, Any]:
    """Placement on a dynamic CPU NodePool. On any node if the cluster has no NodePools of ours."""
    if not makes_nodes:
        return {}
    return {"nodeSelector": {"karpenter.sh/nodepool": pool}, "tolerations": [_tolerate(names.DYNAMIC_TAINT)]}


def _tolerate(taint: str) -> dict[str, str]:
    return {"key": taint, "operator": "Exists", "effect": "NoSchedule"}


def claiming(main: KubeObject, experiment: ServedExperiment, ctx: RenderContext) -> tuple[KubeObject, dict[str, Any]]:
    """The container, and the pod's placement on the run's node, with a claim of an arm's devices if it takes any."""
    serving, placement = experiment.serving, on_held_node(experiment, ctx.pool)
    if not serving.devices:
        return main, placement
    template = claims.name_of(serving.devices, experiment.shape, ctx.claims)
    claimed = {**main, "resources": {**main["resources"], "claims": [{"name": "neuron"}]}}
    return claimed, {
        **placement,
        "resourceClaims": [{"name": "neuron", "resourceClaimTemplateName": template}],
    }


def job(
    *,
    name: str,
    labels: Mapping[str, str],
    template: KubeObject,
    retries: int,
    deadline_minutes: int,
    permanent_exits: Sequence[int] = (),
    indexes: int = 1,
) -> KubeObject:
    """A Job of a step that waits `deadline_minutes` for it. A pod for each of `indexes` runs at once; together they
    fail up to `retries` times, and never again after `permanent_exits`.
    """
    stop = {
        "podFailurePolicy": {
            "rules": [
                {
                    "action": "FailJob",
                    "onExitCodes": {  # of any container, those that run first too
                        "operator": "In",
                        "values": sorted(map(int, permanent_exits)),
                    },
                }
            ]
        }
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": meta(name, labels),
        "spec": {
            "backoffLimit": retries,
            "activeDeadlineSeconds": (deadline_minutes + JOB_GRACE_MINUTES) * 60,
            "completions": indexes,
            "parallelism": indexes,
            **({"completionMode": "Indexed"} if indexes > 1 else {}),
            "ttlSecondsAfterFinished": 86400,
            **(stop if permanent_exits else {}),
            "template": template,
        },
    }


def _number(value: float) -> str:
    return f"{value:g}" if value == int(value) else f"{round(value * 1000)}m"


def network_policies() -> list[KubeObject]:
    """The policies that the stack applies too, by component: one set for the namespace. Inert without
    `enableNetworkPolicy` of vpc-cni.
    """
    return kubernetes_objects("network-policies.yaml")


def run_root(plan: Plan, ctx: RenderContext) -> KubeObject:
    """The first object that a run creates. It only says to which run the objects belong."""
    about = {"run": ctx.run_id, "experiment": plan.experiment.name}
    return config_map(root_name(ctx), labels(ctx, names.ROOT_COMPONENT), about)


def owned(obj: KubeObject, root: KubeObject) -> KubeObject:
    """`obj` with `root`, as the API server returned it, for its owner, with which the garbage collector deletes it.

    It blocks a foreground deletion: a root that is gone means that all it owned is gone.
    """
    reference = {
        "apiVersion": root["apiVersion"],
        "kind": root["kind"],
        "name": root["metadata"]["name"],
        "uid": root["metadata"]["uid"],
        "blockOwnerDeletion": True,
    }
    return {**obj, "metadata": {**obj["metadata"], "ownerReferences": [reference]}}
