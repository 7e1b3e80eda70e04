"""The Helm charts that the double knows, by the name at the end of their address."""

from collections.abc import Callable

from rehearsal.kubernetes import errors
from rehearsal.kubernetes import resources as r
from rehearsal.kubernetes.machinery import Cluster
from rehearsal.kubernetes.objects import Json, dig, name_of, terminating
from rehearsal.kubernetes.software import workloads
from rehearsal.kubernetes.software.installed import Installed

_CONTROLLER_AFFINITY: Json = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "karpenter.sh/nodepool", "operator": "DoesNotExist"}]}]
        }
    },
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {
                "topologyKey": "kubernetes.io/hostname",
                "labelSelector": {"matchLabels": {"app.kubernetes.io/name": "karpenter"}},
            }
        ]
    },
}
_CRITICAL_ONLY = [{"key": "CriticalAddonsOnly", "operator": "Exists"}]
_NEURON_TOLERATIONS = [{"key": "aws.amazon.com/neuron", "operator": "Exists", "effect": "NoSchedule"}, *_CRITICAL_ONLY]
_NEURON_TYPES = ["trn2.3xlarge", "trn2.48xlarge"]
_NEURON_NODES: Json = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {
                    "matchExpressions": [
                        {
                            "key": "node.kubernetes.io/instance-type",
                            "operator": "In",
                            "values": _NEURON_TYPES,
                        }
                    ]
                }
            ]
        }
    }
}
DRA_DAEMON = "neuron-dra-driver-kubelet-plugin"
_HEALTH_NAMESPACE = "neuron-healthcheck-system"
_KARPENTER_VALUES = {
    "additionalAnnotations", "additionalLabels", "affinity", "controller", "dnsPolicy", "extraVolumes",
    "fullnameOverride", "hostNetwork", "imagePullPolicy", "imagePullSecrets",
    "logErrorOutputPaths", "logLevel", "logOutputPaths", "nameOverride", "nodeSelector", "podAnnotations",
    "podDisruptionBudget", "podLabels", "priorityClassName", "replicas", "revisionHistoryLimit",
    "schedulerName", "serviceAccount", "serviceMonitor", "settings", "strategy",
    "terminationGracePeriodSeconds", "tolerations", "topologySpreadConstraints",
}  # fmt: skip


class Charts:
    """Installs, upgrades and uninstalls releases."""

    def __init__(self, cluster: Cluster, installed: Installed) -> None:
        self._cluster = cluster
        self._installed = installed
        self._known: dict[str, tuple[Callable[[str, str, Json], None], Callable[[str], None]]] = {
            "karpenter-crd": (self._put_crds, self._remove_crds),
            "karpenter": (self._put_karpenter, self._remove_karpenter),
            "neuron-helm-chart": (self._put_neuron, self._remove_neuron),
        }
        cluster.store.subscribe(lambda change: self._drop_crds() if change.type == "DELETED" else None)
        self._crds_going = False

    def handle(self, body: Json) -> Json:
        """A control request `{request, release, namespace, chart, repository, version, values}`."""
        address = body.get("repository") or body.get("chart") or ""
        chart = next(
            (n for n in (str(body.get("chart")), address.rstrip("/").rsplit("/", 1)[-1]) if n in self._known), ""
        )
        if not chart:
            raise errors.ApiError(
                422,
                "Invalid",
                f"the rehearsal does not know the Helm chart {address!r}; known: {', '.join(self._known)}",
            )
        put, remove = self._known[chart]
        if body["request"] == "Delete":
            remove(body["release"])
        else:
            if not body.get("version"):
                raise errors.ApiError(
                    422,
                    "Invalid",
                    f"chart {chart}: a version is needed; without one each deployment installs the newest",
                )
            self._require_namespace(body)
            put(body["release"], body["namespace"], body.get("values") or {})
        self._installed.changed()
        return {"chart": chart, "release": body["release"], "status": "deployed"}

    def _require_namespace(self, body: Json) -> None:
        if body.get("create_namespace"):
            workloads.ensure_namespace(self._cluster, body["namespace"])
        if self._cluster.store.get(r.NAMESPACES, "", body["namespace"]) is None:
            raise errors.ApiError(
                422, "Invalid", f'create: failed to create: namespaces "{body["namespace"]}" not found'
            )

    def _put_crds(self, release: str, namespace: str, values: Json) -> None:
        self._crds_going = False
        self._cluster.registry.add(r.KARPENTER)
        for resource in r.KARPENTER:
            workloads.put(self._cluster, _definition(resource))

    def _remove_crds(self, release: str) -> None:
        """Delete the CRDs with all their objects. Objects with finalizers stay until a controller removes these, and so
        do their CRDs.
        """
        self._crds_going = True
        for resource in r.KARPENTER:
            for obj in self._cluster.store.list(resource):
                if not terminating(obj):
                    self._cluster.delete(resource, "", name_of(obj), {"propagationPolicy": "Background"})
        self._drop_crds()

    def _drop_crds(self) -> None:
        if not self._crds_going or any(self._cluster.store.list(resource) for resource in r.KARPENTER):
            return
        self._crds_going = False
        self._cluster.registry.remove(r.KARPENTER)
        for resource in r.KARPENTER:
            if self._cluster.store.get(r.CRDS, "", resource.qualified):
                self._cluster.delete(r.CRDS, "", resource.qualified)

    def _put_karpenter(self, release: str, namespace: str, values: Json) -> None:
        unknown = sorted(set(values) - _KARPENTER_VALUES)
        if unknown:
            raise errors.ApiError(
                422, "Invalid", f"chart karpenter: unknown values {', '.join(unknown)} (Helm would ignore them)"
            )
        if not dig(values, "settings", "clusterName"):
            raise errors.ApiError(422, "Invalid", "chart karpenter: settings.clusterName is required")
        if str(dig(values, "settings", "ignoreDRARequests", default="true")).lower() == "false":
            raise errors.ApiError(
                422,
                "Invalid",
                "chart karpenter: without ignored DRA requests Karpenter 1.14 crash-loops because of missing RBAC",
            )
        account = dig(values, "serviceAccount", "name", default=release)
        annotations = dig(values, "serviceAccount", "annotations", default={})
        workloads.service_account(
            self._cluster, owner=release, namespace=namespace, name=account, annotations=annotations
        )
        deployment = workloads.workload(
            "Deployment",
            owner=release,
            namespace=namespace,
            name="karpenter",
            replicas=values.get("replicas", 2),
            requests=dig(values, "controller", "resources", "requests", default={}),
            tolerations=values.get("tolerations", _CRITICAL_ONLY),
            affinity=values.get("affinity", _CONTROLLER_AFFINITY),
            account=account,
        )
        if values.get("nodeSelector"):
            deployment["spec"]["template"]["spec"]["nodeSelector"] = values["nodeSelector"]
        workloads.put(self._cluster, deployment)
        self._installed.karpenter, self._installed.karpenter_namespace = values, namespace

    def _remove_karpenter(self, release: str) -> None:
        self._installed.karpenter = None
        workloads.remove_all(self._cluster, release)

    def _put_neuron(self, release: str, namespace: str, values: Json) -> None:
        if self._cluster.store.get(r.NAMESPACES, "", _HEALTH_NAMESPACE) is None:
            raise errors.ApiError(
                422, "Invalid", f'create: failed to create: namespaces "{_HEALTH_NAMESPACE}" not found'
            )
        enabled = {
            part: dig(values, part, "enabled", default=default)
            for part, default in (("draDriver", False), ("devicePlugin", True), ("npd", True))
        }
        if enabled["draDriver"] and enabled["devicePlugin"]:
            raise errors.ApiError(
                422,
                "Invalid",
                "neuron-helm-chart: the device plugin (on by default) beside the DRA driver oversubscribes the node",
            )
        self._installed.dra_driver, self._installed.device_plugin = enabled["draDriver"], enabled["devicePlugin"]
        if not enabled["draDriver"]:
            return
        workloads.service_account(
            self._cluster, owner=release, namespace=namespace, name="neuron-dra-driver-sa", annotations={}
        )
        daemon = workloads.workload(
            "DaemonSet",
            owner=release,
            namespace=namespace,
            name=DRA_DAEMON,
            requests={"cpu": "10m", "memory": "128Mi"},
            tolerations=_NEURON_TOLERATIONS,
            affinity=_NEURON_NODES,
            account="neuron-dra-driver-sa",
        )
        workloads.put(self._cluster, daemon)
        selector = {"cel": {"expression": "device.driver == 'neuron.aws.com'"}}
        metadata = {"name": "neuron.aws.com", "annotations": {workloads.OWNER: release}}
        device_class = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": metadata,
            "spec": {"selectors": [selector]},
        }
        workloads.put(self._cluster, device_class)

    def _remove_neuron(self, release: str) -> None:
        self._installed.dra_driver = self._installed.device_plugin = False
        workloads.remove_all(self._cluster, release)


def _definition(resource: r.Resource) -> Json:
    """The CustomResourceDefinition object of one of Karpenter's kinds, without its schema."""
    preserve = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    names = {
        "kind": resource.kind,
        "plural": resource.plural,
        "singular": resource.kind.lower(),
        "listKind": f"{resource.kind}List",
    }
    version: Json = {"name": resource.version, "served": True, "storage": True, "schema": preserve}
    version["subresources"] = {"status": {}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.qualified},
        "spec": {"group": resource.group, "names": names, "scope": "Cluster", "versions": [version]},
    }
