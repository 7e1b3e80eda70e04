"""The kinds that the double serves: group, version, names, scope, subresources."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

VERBS = ("create", "delete", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, kw_only=True)
class Resource:
    """One REST resource. `definition` names its schema in the OpenAPI of Kubernetes 1.35, or "" for a CRD's kind."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    short_names: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    definition: str = ""

    @property
    def qualified(self) -> str:
        """The name in messages and RBAC: `jobs.batch`, or `pods` in the core group."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def is_custom(self) -> bool:
        return not self.definition


def _core(
    kind: str, plural: str, *, namespaced: bool = True, short: str = "", sub: str = "", all_: bool = False
) -> Resource:
    return _built_in("", "v1", "core.v1", kind, plural, namespaced=namespaced, short=short, sub=sub, all_=all_)


def _built_in(
    group: str,
    version: str,
    package: str,
    kind: str,
    plural: str,
    *,
    namespaced: bool = True,
    short: str = "",
    sub: str = "",
    all_: bool = False,
) -> Resource:
    return Resource(
        group=group,
        version=version,
        kind=kind,
        plural=plural,
        namespaced=namespaced,
        short_names=tuple(short.split()),
        subresources=tuple(sub.split()),
        categories=("all",) if all_ else (),
        definition=f"io.k8s.api.{package}.{kind}",
    )


def _custom(group: str, kind: str, plural: str, *, short: str = "", sub: str = "status") -> Resource:
    return Resource(
        group=group,
        version="v1alpha1" if kind == "NodeOverlay" else "v1",
        kind=kind,
        plural=plural,
        namespaced=False,
        short_names=tuple(short.split()),
        subresources=tuple(sub.split()),
        categories=("karpenter",),
    )


_RBAC = ("rbac.authorization.k8s.io", "v1", "rbac.v1")
_DRA = ("resource.k8s.io", "v1", "resource.v1")
_STORAGE = ("storage.k8s.io", "v1", "storage.v1")
_APPS = ("apps", "v1", "apps.v1")

NAMESPACES = _core("Namespace", "namespaces", namespaced=False, short="ns", sub="status finalize")
PODS = _core("Pod", "pods", short="po", sub="status log eviction binding", all_=True)
NODES = _core("Node", "nodes", namespaced=False, short="no", sub="status")
EVENTS = _core("Event", "events", short="ev")
SERVICES = _core("Service", "services", short="svc", sub="status", all_=True)
ENDPOINTS = _core("Endpoints", "endpoints", short="ep")
SERVICE_ACCOUNTS = _core("ServiceAccount", "serviceaccounts", short="sa")
CONFIG_MAPS = _core("ConfigMap", "configmaps", short="cm")
SECRETS = _core("Secret", "secrets")
QUOTAS = _core("ResourceQuota", "resourcequotas", short="quota", sub="status")
LIMIT_RANGES = _core("LimitRange", "limitranges", short="limits")
VOLUMES = _core("PersistentVolume", "persistentvolumes", namespaced=False, short="pv", sub="status")
VOLUME_CLAIMS = _core("PersistentVolumeClaim", "persistentvolumeclaims", short="pvc", sub="status")
JOBS = _built_in("batch", "v1", "batch.v1", "Job", "jobs", sub="status", all_=True)
DEPLOYMENTS = _built_in(*_APPS, "Deployment", "deployments", short="deploy", sub="status scale", all_=True)
REPLICA_SETS = _built_in(*_APPS, "ReplicaSet", "replicasets", short="rs", sub="status scale", all_=True)
DAEMON_SETS = _built_in(*_APPS, "DaemonSet", "daemonsets", short="ds", sub="status", all_=True)
ROLES = _built_in(*_RBAC, "Role", "roles")
ROLE_BINDINGS = _built_in(*_RBAC, "RoleBinding", "rolebindings")
CLUSTER_ROLES = _built_in(*_RBAC, "ClusterRole", "clusterroles", namespaced=False)
CLUSTER_ROLE_BINDINGS = _built_in(*_RBAC, "ClusterRoleBinding", "clusterrolebindings", namespaced=False)
CLAIMS = _built_in(*_DRA, "ResourceClaim", "resourceclaims", sub="status")
CLAIM_TEMPLATES = _built_in(*_DRA, "ResourceClaimTemplate", "resourceclaimtemplates")
DEVICE_CLASSES = _built_in(*_DRA, "DeviceClass", "deviceclasses", namespaced=False)
SLICES = _built_in(*_DRA, "ResourceSlice", "resourceslices", namespaced=False)
DISRUPTION_BUDGETS = _built_in(
    "policy", "v1", "policy.v1", "PodDisruptionBudget", "poddisruptionbudgets", short="pdb", sub="status"
)
NETWORK_POLICIES = _built_in(
    "networking.k8s.io", "v1", "networking.v1", "NetworkPolicy", "networkpolicies", short="netpol"
)
PRIORITY_CLASSES = _built_in(
    "scheduling.k8s.io", "v1", "scheduling.v1", "PriorityClass", "priorityclasses", namespaced=False
)
CRDS = Resource(
    group="apiextensions.k8s.io",
    version="v1",
    kind="CustomResourceDefinition",
    plural="customresourcedefinitions",
    namespaced=False,
    short_names=("crd", "crds"),
    subresources=("status",),
    definition="io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
)

NODE_POOLS = _custom("karpenter.sh", "NodePool", "nodepools", sub="status scale")
NODE_CLAIMS = _custom("karpenter.sh", "NodeClaim", "nodeclaims")
NODE_OVERLAYS = _custom("karpenter.sh", "NodeOverlay", "nodeoverlays", short="overlays")
NODE_CLASSES = _custom("karpenter.k8s.aws", "EC2NodeClass", "ec2nodeclasses", short="ec2nc ec2ncs")

BUILT_IN: tuple[Resource, ...] = (
    NAMESPACES, PODS, NODES, EVENTS, SERVICES, ENDPOINTS, SERVICE_ACCOUNTS, CONFIG_MAPS, SECRETS, QUOTAS,
    LIMIT_RANGES, VOLUMES, VOLUME_CLAIMS, JOBS, DEPLOYMENTS, REPLICA_SETS, DAEMON_SETS, ROLES, ROLE_BINDINGS,
    CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, CLAIMS, CLAIM_TEMPLATES, DEVICE_CLASSES, SLICES, DISRUPTION_BUDGETS, CRDS,
    NETWORK_POLICIES,
    _built_in("coordination.k8s.io", "v1", "coordination.v1", "Lease", "leases"),
    PRIORITY_CLASSES,
    _built_in(*_STORAGE, "StorageClass", "storageclasses", namespaced=False, short="sc"),
    _built_in(*_STORAGE, "CSIDriver", "csidrivers", namespaced=False),
)  # fmt: skip
KARPENTER: tuple[Resource, ...] = (NODE_POOLS, NODE_CLAIMS, NODE_OVERLAYS, NODE_CLASSES)


class Registry:
    """The resources that are served now. Those of Karpenter are added when its CRD chart is installed."""

    def __init__(self) -> None:
        self._by_path = {(r.group, r.version, r.plural): r for r in BUILT_IN}

    def __iter__(self) -> Iterator[Resource]:
        return iter(tuple(self._by_path.values()))

    def add(self, resources: Iterable[Resource]) -> None:
        self._by_path.update({(r.group, r.version, r.plural): r for r in resources})

    def remove(self, resources: Iterable[Resource]) -> None:
        for r in resources:
            self._by_path.pop((r.group, r.version, r.plural), None)

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        return self._by_path.get((group, version, plural))

    def of_kind(self, api_version: str, kind: str) -> Resource | None:
        return next((r for r in self if r.api_version == api_version and r.kind == kind), None)
