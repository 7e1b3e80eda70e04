"""Names that the stacks, the manifests, the Lambdas and the dashboard must agree on (ADR 52)."""

import re
from collections.abc import Mapping
from hashlib import sha256

STACK, CLUSTER_STACK = "SpecDecodeStack", "TrainiumClusterStack"
"""The stacks, by name. On a cluster that exists there is only the first."""

NAMESPACE = "specdecode"

SAMPLE_PRESET = "qwen3-32b"
"""The public sample's experiment: the dashboard shows its cases."""

METRIC_NAMESPACE = "Qwen/LLMPerf"
"""CloudWatch namespace of the figures, the same as in the public sample."""
OPERATIONS_NAMESPACE = "SpecDecode/Operations"
"""CloudWatch namespace of the watchdog and the backstop."""

NODEPOOL = "trn2"
"""Kind of the nodes with Neuron devices, and name of their first NodePool (static, 0 replicas at rest)."""

CPU_NODEPOOL = "cpu"
"""Kind of the node without devices, for checks of the account. Also the name of its only NodePool."""
LARGE_NODEPOOL = "cpu-large"
"""The same of the large node without devices, for forecasts."""
ORDINARY_NODEPOOLS = (CPU_NODEPOOL, LARGE_NODEPOOL)
"""Kinds of nodes without devices that runs hold. A deployment has one node of each."""

MOST_NODES = 16


def held_pools(nodes: int) -> tuple[str, ...]:
    """NodePools of one node each, whose replicas follow the lease: `trn2`, `trn2-2` to `trn2-<nodes>`, and ordinary
    ones.
    """
    return (NODEPOOL, *(f"{NODEPOOL}-{number}" for number in range(2, nodes + 1)), *ORDINARY_NODEPOOLS)


def kind_of(pool: str) -> str:
    """Kind of the node of a held NodePool: `trn2` for `trn2-3`."""
    return NODEPOOL if is_held(pool) and pool not in ORDINARY_NODEPOOLS else pool


def is_held(pool: str) -> bool:
    """Whether runs hold the NodePool's node, in a deployment of any size."""
    return pool in held_pools(MOST_NODES)


FOREIGN_PREFIX = "specdecode-"
"""Prefix of our objects in somebody else's Karpenter, which may have a pool `cpu` of its own."""


def node_pool(slot: str, *, foreign: bool = False) -> str:
    return f"{FOREIGN_PREFIX}{slot}" if foreign else slot


STAGING_NODEPOOL = "staging"
"""Karpenter NodePool (dynamic, CPU) whose nodes bring models to S3, and load servers that already run."""

COMPILE_NODEPOOL = "compile"
"""Karpenter NodePool (dynamic, large CPU nodes) whose nodes compile artifacts if `compile.on` is `cpu`."""

DYNAMIC_NODEPOOLS = (STAGING_NODEPOOL, COMPILE_NODEPOOL)
"""Pools whose nodes come and go with pods."""

FIELD_MANAGER = "specdecode"

RUN_LABEL = "specdecode/run"
VARIANT_LABEL = "specdecode/variant"
WAVE_LABEL = "specdecode/wave"
ARTIFACT_LABEL = "specdecode/artifact"
"""Label of compile Jobs: fingerprint of their artifact. Another run sees by it that the artifact is being made."""
COMPONENT_LABEL = "app.kubernetes.io/component"
"""Label with one of: run (ROOT_COMPONENT), staging, compile, serving, benchmark, smoke, accuracy, hold."""
ROOT_COMPONENT = "run"
"""Component of the ConfigMap that owns all other objects of a run."""
BENCHMARKABLE_LABEL = "specdecode/benchmarkable"
"""Label of namespaces of others: the benchmark's pods may call their servers over plain http (value `true`)."""
MONITORED_LABEL = "specdecode/neuron-metrics"
"""Label of serving pods that publish neuron-monitor's figures. Only these servers may call AWS."""

POD_ROLES = {
    "staging": ("StageModels",),
    "compile": ("Compile",),
    "results": ("Smoke", "Benchmark", "Accuracy"),
}
"""IAM role of pods -> the pipeline's functions that may assume it, to give their pods a part of its rights."""

SERVICE_ACCOUNTS = {
    "serving": "specdecode-serving",
    "monitored": "specdecode-monitored",
    "benchmark": "specdecode-benchmark",
}
"""Pods that mount the bucket -> their ServiceAccount, whose IRSA role reads the mounted prefixes. `monitored` is for
serving pods with `serving.neuron_metrics`, which also publish metrics.
"""
PLAIN_ACCOUNT = "specdecode-plain"
"""ServiceAccount of all other pods. It has no role: they call AWS with a session (specdecode.manifests.bundle)."""

RIGHTS_VARIABLE = "CLUSTER_RIGHTS"
"""Variable of the functions on a cluster of somebody else. Without it the cluster is ours."""
NAMESPACE_RIGHTS = "namespace"
"""Its value if they do nothing outside NAMESPACE: somebody else brings, sees and ends the nodes."""
GROUP_RIGHTS = "node-group"
"""Its value if they scale a managed node group of the cluster, and see its node."""
GROUP_VARIABLE = "NODE_GROUP"
GROUP_TAGS = ("eks:cluster-name", "eks:nodegroup-name")
"""Tags that EKS puts on its instances: the names of cluster and group."""
POOL_RIGHTS = "pools"
"""Its value if they may also scale our NodePools in somebody else's Karpenter, and see their nodes."""

SESSIONS_GROUP = "specdecode:sessions"
"""Kubernetes group of the functions in POD_ROLES. They may put a new session into a Secret, and read none."""

PIPELINE_GROUP = "specdecode:pipeline"
"""Kubernetes group in the EKS access entry of the pipeline's Lambdas. Roles are bound to it."""

WORKDIR = "/specdecode"
"""workingDir of every container. Every volume is mounted below it, and commands use relative paths."""

JOB_UID = "JOB_UID"
"""Variable with the uid of the Job that a pod belongs to."""
API_KEY_VARIABLE = "OPENAI_API_KEY"
"""Environment variable with the API key for every arm that has none of its own."""


def api_key_variable(variant: str) -> str:
    """Variable with the API key of one arm's server: `OPENAI_API_KEY_SD_K7` for `sd-k7`. No two arms share one (a dot
    becomes a small `p`): a key must not reach another arm's server.
    """
    return f"{API_KEY_VARIABLE}_{variant.upper().replace('-', '_').replace('.', 'p')}"


def api_key(variant: str, environ: Mapping[str, str]) -> str | None:
    """The API key for an arm's server: the arm's own, else the common one, else None."""
    return environ.get(api_key_variable(variant)) or environ.get(API_KEY_VARIABLE) or None


SERVE_PORT = 8000
NEURON_TAINT = "aws.amazon.com/neuron"
CPU_TAINT = "specdecode/held"
"""Taint that keeps other pods off the CPU node while a run holds it."""
DYNAMIC_TAINT = "specdecode/dynamic"
"""Taint of nodes that Karpenter launches for a pod: no other pending pod brings one up, or keeps it."""
TAINTS = {NODEPOOL: NEURON_TAINT, CPU_NODEPOOL: CPU_TAINT, LARGE_NODEPOOL: CPU_TAINT}
"""Kind of node -> key of its taint."""
ACCELERATOR_LABEL = "specdecode/accelerator"
"""Node label that the NodePools of runs set (value: the pool's name). A run's pods select its own node by it."""


def claim_template(devices: int | None, logical_neuron_core: int, *, variant: str = "") -> str:
    """Name of the ResourceClaimTemplate for `devices` Neuron devices (None: all) at LNC `logical_neuron_core`.

    Nobody can edit a template: what settings change has a name that ends in `variant`.
    """
    return f"trn2-{'all' if devices is None else f'{devices}dev'}-lnc{logical_neuron_core}{variant}"


def model_pv(prefix: str) -> str:
    """Name of the read-only PersistentVolume and its claim for the bucket prefix (`models`, `compiled`)."""
    return f"specdecode-{prefix}"


HF_TOKEN_SECRET = "specdecode/huggingface-token"  # noqa: S105
"""Secrets Manager secret (plain string) with the Hugging Face token. Only the staging role may read it."""


LONGEST_RUN_ID = 80
"""Most characters of a run's id (StartExecution, parameter `name`)."""
RUN_ID = rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{LONGEST_RUN_ID - 1}}}"
"""A run's id: the name of an execution, a folder in the bucket, and a part of shell source."""


def is_run_id(text: str) -> bool:
    return re.fullmatch(RUN_ID, text) is not None


def run_label(run_id: str) -> str:
    """Value of RUN_LABEL for a run. An execution's name may be longer (80) than a label's value (63)."""
    if re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", run_id):
        return run_id
    digest = sha256(run_id.encode()).hexdigest()[:8]
    return f"{re.sub(r'[^A-Za-z0-9]', '-', run_id)[:50].strip('-') or 'run'}-{digest}"
