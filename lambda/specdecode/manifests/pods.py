"""What every pod of a run has in common: security, the working directory, placement, the bundle."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from specdecode import names
from specdecode.exits import Exit
from specdecode.experiment.engine import Resources
from specdecode.manifests.context import RenderContext
from specdecode.planning.events import JOB_GRACE_MINUTES

KubeObject = dict[str, Any]
USER = 1000
"""No pod runs as root; the group owns the volumes."""
CONTAINER = "main"

HOME = """\
set -eu
export HOME="$PWD" XDG_CACHE_HOME="$PWD/.cache" XDG_CONFIG_HOME="$PWD/.config"
export NEURON_COMPILE_CACHE_URL="$PWD/.cache/neuron"
"""
"""First lines of every script: what libraries keep beside their files lies on the pod's own volume.

Neuron's compile cache is in /var/tmp by default, where the image's own file system would grow. What is scratch (NxD
Inference's /tmp/nxd_model, vLLM's sockets, PyTorch's inductor) goes to /tmp, a volume too.
"""
_RUN_BUNDLE = """\
export PYTHONPATH="$PWD/bundle"
exec python3 -m """
_FETCH_BUNDLE = f"""\
{HOME}aws s3 cp --only-show-errors "$BUNDLE_URI" bundle.zip
if ! echo "$BUNDLE_SHA256  bundle.zip" | sha256sum --check --status -; then
  echo "specdecode: error {Exit.CORRUPT.value}: $BUNDLE_URI is not the bundle of this run ($BUNDLE_SHA256)" >&2
  exit {Exit.CORRUPT.value}
fi
python3 -I -m zipfile -e bundle.zip bundle
{_RUN_BUNDLE}"""
SKIP_CREDENTIALS = "eks.amazonaws.com/skip-containers"
"""Pod annotation: containers that get neither role nor token from EKS (amazon-eks-pod-identity-webhook, README)."""


def bundle_script(module: str, arguments: Sequence[str]) -> str:
    """Shell script that fetches the bundle, verifies it and becomes `python3 -m module`.

    `arguments` are words of shell source: quote literals with `word`.
    """
    return _FETCH_BUNDLE + " ".join([module, *arguments])


def fetched_bundle_script(module: str, arguments: Sequence[str]) -> str:
    """The same in a container of a pod whose first container has fetched and verified the bundle."""
    return HOME + _RUN_BUNDLE + " ".join([module, *arguments])


def word(text: str) -> str:
    """`text` as one literal word of shell source."""
    return shlex.quote(text)


def literal(text: str) -> str:
    """`text` for a command or a variable of a container as it is.

    Kubernetes replaces `$(NAME)` in both by the container's variable NAME before any shell sees them, whatever quotes
    stand around it, and `$$` by `$`: a text of a user's could take in a secret, or end the quotes that it stands in.
    """
    return re.sub(r"\$(?=[$(])", "$$", text)


def bundle_env(ctx: RenderContext) -> dict[str, str]:
    """What a pod that runs the bundle needs to know.

    The region stands under both names: EKS's webhook adds neither where a pod has one (amazon-eks-pod-identity-webhook
    v0.6.9, pkg/handler/handler.go), and the `aws` command and libraries of an engine's image read the second alone.
    """
    return {
        "BUCKET": ctx.bucket,
        "BUNDLE_URI": ctx.bundle_uri,
        "BUNDLE_SHA256": ctx.bundle_sha256,
        "AWS_REGION": ctx.region,
        "AWS_DEFAULT_REGION": ctx.region,
        "AWS_RETRY_MODE": "standard",
        "AWS_MAX_ATTEMPTS": "10",
        "PYTHONUNBUFFERED": "1",
    }


def meta(name: str, labels: Mapping[str, str]) -> dict[str, Any]:
    return {"name": name, "namespace": names.NAMESPACE, "labels": dict(labels)}


def container(
    *,
    image: str,
    script: str,
    env: Mapping[str, str],
    given: Mapping[str, str] | None = None,
    secret_env: Sequence[KubeObject] = (),
    resources: Resources,
    weights_gib: float = 0.0,
    scratch: str = "",
    mounts: Sequence[Mapping[str, Any]] = (),
    read_only_root: bool,
    **more: Any,
) -> KubeObject:
    """A container of a pod, the main one but for a `name` in `more`.

    `given`: variables from the experiment and its engine; `env` and `secret_env` (whose values come from Secrets) are
    ours, come last, and take the place of given ones of their names. `scratch`: what the names of the volumes for the
    working directory and /tmp begin with. `more`: probes, ports and the like.
    """
    own: list[KubeObject] = [
        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        *({"name": key, "value": literal(value)} for key, value in env.items()),
        *secret_env,
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

    `first`: containers that run one after the other before `main`. `without_credentials`: names of the containers that
    get neither the service account's role nor its token: the role is for the pod's mounts alone.
    `finds_services`: it gets the variables that name the addresses of the namespace's Services. Others do not: what
    runs in the namespace is not their business, and `VLLM_…` variables of a Service would be options to vLLM.
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


def on_trainium() -> dict[str, Any]:
    """Placement on the trn2 node, without its devices."""
    return {
        "nodeSelector": {names.ACCELERATOR_LABEL: "trn2"},
        "tolerations": [{"key": names.NEURON_TAINT, "operator": "Exists", "effect": "NoSchedule"}],
    }


def on_cpu_nodes() -> dict[str, Any]:
    """Placement on the dynamic CPU NodePool."""
    return {"nodeSelector": {"karpenter.sh/nodepool": names.STAGING_NODEPOOL}}


def claiming(main: KubeObject, *, devices: int, logical_neuron_core: int) -> tuple[KubeObject, dict[str, Any]]:
    """The container and the pod's placement with a claim of `devices` Neuron devices."""
    template = names.claim_template(devices, logical_neuron_core)
    claimed = {**main, "resources": {**main["resources"], "claims": [{"name": "neuron"}]}}
    return claimed, {
        **on_trainium(),
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
) -> KubeObject:
    """A Job of a step that waits `deadline_minutes` for it. It runs its pod once, again after a failure up to `retries`
    times, and never after `permanent_exits`.
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
            "completions": 1,
            "parallelism": 1,
            "ttlSecondsAfterFinished": 86400,
            **(stop if permanent_exits else {}),
            "template": template,
        },
    }


def _number(value: float) -> str:
    return f"{value:g}" if value == int(value) else f"{round(value * 1000)}m"
