"""Objects of Karpenter's kinds: one of each with every part that a rule looks at, and changes that break it."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
Path = tuple[str | int, ...]
GONE: Any = object()
"""As a value: the field is taken away."""

REQUIREMENT: Json = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["trn2.48xlarge"]}
GOOD: dict[str, Json] = {
    "NodePool": {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "pool"},
        "spec": {
            "replicas": 1,
            "limits": {"nodes": "1"},
            "disruption": {
                "consolidateAfter": "Never",
                "budgets": [{"nodes": "0"}, {"nodes": "1", "schedule": "@daily", "duration": "10m"}],
            },
            "template": {
                "metadata": {"labels": {"example.com/team": "a"}},
                "spec": {
                    "expireAfter": "Never",
                    "terminationGracePeriod": "10m",
                    "taints": [{"key": "aws.amazon.com/neuron", "value": "true", "effect": "NoSchedule"}],
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "trn2"},
                    "requirements": [REQUIREMENT],
                },
            },
        },
    },
    "NodeOverlay": {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": "price"},
        "spec": {"requirements": [REQUIREMENT], "price": "36.2", "capacity": {"example.com/device": "1"}, "weight": 5},
    },
    "EC2NodeClass": {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "trn2"},
        "spec": {
            "amiFamily": "AL2023",
            "amiSelectorTerms": [{"alias": "al2023@v20260625"}],
            "role": "node",
            "subnetSelectorTerms": [{"id": "subnet-1"}],
            "securityGroupSelectorTerms": [{"id": "sg-1"}],
            "capacityReservationSelectorTerms": [{"id": "cr-1"}],
            "metadataOptions": {
                "httpEndpoint": "enabled",
                "httpProtocolIPv6": "disabled",
                "httpPutResponseHopLimit": 1,
                "httpTokens": "required",
            },
            "blockDeviceMappings": [
                {
                    "deviceName": "/dev/xvda",
                    "rootVolume": True,
                    "ebs": {
                        "volumeSize": "100Gi",
                        "volumeType": "gp3",
                        "encrypted": True,
                        "deleteOnTermination": True,
                        "iops": 3000,
                        "throughput": 125,
                        "snapshotID": "snap-1",
                        "volumeInitializationRate": 100,
                    },
                }
            ],
            "associatePublicIPAddress": False,
            "connectionTracking": {"tcpEstablishedTimeout": 60, "udpStreamTimeout": 60, "udpTimeout": 30},
            "context": "a",
            "cpuOptions": {"nestedVirtualization": "disabled"},
            "detailedMonitoring": True,
            "instanceStorePolicy": "RAID0",
            "ipPrefixCount": 1,
            "placementGroupSelector": {"name": "a"},
            "userData": "a",
            "tags": {"Name": "trn2"},
        },
    },
}


@dataclass(frozen=True)
class Bad:
    """A change of the good object of a kind; on an update, of an object that was good."""

    kind: str
    path: Path
    value: Any
    update: bool = False

    @property
    def id(self) -> str:
        """For pytest."""
        shown = "gone" if self.value is GONE else repr(self.value)[:60]
        return f"{self.kind}:{'.'.join(map(str, self.path))}={shown}"

    def made(self) -> Json:
        """The object with its change."""
        return changed(GOOD[self.kind], self.path, self.value)


def changed(obj: Json, path: Path, value: Any) -> Json:
    """A copy with one value set (maps on the way are made) or taken away."""
    new = copy.deepcopy(obj)
    at: Any = new
    for step in path[:-1]:
        at = at[step] if isinstance(at, list) else at.setdefault(step, {})
    if value is GONE:
        del at[path[-1]]
    else:
        at[path[-1]] = copy.deepcopy(value)
    return new


def _requirement(**change: Any) -> list[Json]:
    return [{key: value for key, value in {**REQUIREMENT, **change}.items() if value is not GONE}]


def _requirements(kind: str, path: Path) -> Iterator[Bad]:
    for key in ("kubernetes.io/hostname", "karpenter.sh/other", "x.karpenter.sh/a", "karpenter.k8s.aws/unknown"):
        yield Bad(kind, path, _requirement(key=key))
    yield Bad(kind, path, _requirement(values=[]))
    yield Bad(kind, path, _requirement(values=GONE))
    yield Bad(kind, path, _requirement(operator="Like"))
    for operator in ("Gt", "Lt", "Gte", "Lte"):
        for values in (["1", "2"], [], ["-1"], ["many"], GONE):
            yield Bad(kind, path, _requirement(key="karpenter.k8s.aws/instance-cpu", operator=operator, values=values))


def broken_rules() -> list[Bad]:
    """Changes that break rules across fields: CEL's, of which each must be broken by one."""
    pool, spec = ("spec", "template", "spec"), ("spec",)
    found = [
        Bad("NodePool", (*spec, "replicas"), GONE, update=True),
        Bad("NodePool", (*spec, "limits"), {"nodes": "1", "cpu": "10"}),
        Bad("NodePool", (*spec, "limits"), {"cpu": "10"}),
        Bad("NodePool", (*spec, "weight"), 5),
        Bad("NodePool", (*spec, "disruption", "budgets"), [{"nodes": "1", "schedule": "@daily"}]),
        Bad("NodePool", (*spec, "disruption", "budgets"), [{"nodes": "1", "duration": "10m"}]),
        *(
            Bad("NodePool", (*spec, "template", "metadata", "labels"), {key: "a"})
            for key in ("karpenter.sh/other", "karpenter.sh/nodepool", "kubernetes.io/hostname", "karpenter.k8s.aws/a")
        ),
        *(Bad("NodePool", (*pool, "nodeClassRef", part), "") for part in ("group", "kind", "name")),
        Bad("NodePool", (*pool, "nodeClassRef", "group"), "example.com", update=True),
        Bad("NodePool", (*pool, "nodeClassRef", "kind"), "Other", update=True),
        *_requirements("NodePool", (*pool, "requirements")),
        Bad("NodePool", (*pool, "requirements"), _requirement(key="karpenter.sh/nodepool")),
        Bad("NodePool", (*pool, "requirements"), _requirement(minValues=2)),
        Bad("NodeOverlay", (*spec, "priceAdjustment"), "+10%"),
        *(
            Bad("NodeOverlay", (*spec, "capacity"), {key: "1"})
            for key in ("cpu", "memory", "ephemeral-storage", "pods")
        ),
        *_requirements("NodeOverlay", (*spec, "requirements")),
        Bad("NodeOverlay", (*spec, "requirements"), _requirement(operator="NotIn", values=[])),
        Bad("NodeOverlay", (*spec, "requirements"), _requirement(operator="NotIn", values=GONE)),
    ]
    changes: list[tuple[Path, Any]] = [
        (("role",), GONE),
        (("role",), ""),
        (("instanceProfile",), "profile"),
        (("instanceProfile",), ""),
        *((("amiSelectorTerms",), [{"alias": f"{alias}@latest"}]) for alias in _OTHER_FAMILIES),
        (("amiFamily",), "Bottlerocket"),
        (("amiSelectorTerms",), [{"owner": "self"}]),
        (("amiSelectorTerms",), [{}]),
        *((("amiSelectorTerms",), [{"id": "ami-1", key: value}]) for key, value in _BESIDE_ID),
        *(
            (("amiSelectorTerms",), [{"alias": "al2023@v1", key: value}])
            for key, value in (("id", "ami-1"), *_BESIDE_ID)
        ),
        (("amiSelectorTerms",), [{"alias": "al2023@v1"}, {"id": "ami-1"}]),
        *((("amiSelectorTerms",), [{"alias": alias}]) for alias in ("al2023", "@v1", "al2023@", "al2022@v1", "")),
        *((("amiSelectorTerms",), [{"tags": tags}]) for tags in ({"": "a"}, {"a": ""})),
        (("blockDeviceMappings",), [{"rootVolume": True}, {"rootVolume": True}]),
        (("blockDeviceMappings", 0, "ebs"), {"volumeType": "gp3"}),
        (("blockDeviceMappings", 0, "ebs"), {"volumeSize": "100Gi", "volumeInitializationRate": 100}),
        (("blockDeviceMappings", 0, "ebs"), {"volumeSize": "1Gi", "snapshotID": "", "volumeInitializationRate": 100}),
        (("capacityReservationSelectorTerms",), [{"ownerID": "111122223333"}]),
        *((("capacityReservationSelectorTerms",), [{"id": "cr-1", key: value}]) for key, value in _BESIDE_RESERVATION),
        (("capacityReservationSelectorTerms",), [{"tags": {"": "a"}}]),
        (("capacityReservationSelectorTerms",), [{"tags": {"a": ""}}]),
        (("connectionTracking",), {}),
        (("securityGroupSelectorTerms",), []),
        (("securityGroupSelectorTerms",), [{}]),
        (("securityGroupSelectorTerms",), [{"id": "sg-1", "name": "a"}]),
        (("securityGroupSelectorTerms",), [{"id": "sg-1", "tags": {"a": "b"}}]),
        (("securityGroupSelectorTerms",), [{"name": "a", "tags": {"a": "b"}}]),
        (("securityGroupSelectorTerms",), [{"tags": {"a": ""}}]),
        (("subnetSelectorTerms",), []),
        (("subnetSelectorTerms",), [{}]),
        (("subnetSelectorTerms",), [{"id": "subnet-1", "tags": {"a": "b"}}]),
        (("subnetSelectorTerms",), [{"tags": {"a": ""}}]),
        *((("tags",), {key: "a"}) for key in _TAGS),
        (("networkInterfaces",), [{"deviceIndex": 1, "networkCardIndex": 0, "interfaceType": "interface"}]),
        (("networkInterfaces",), [_CARD, _CARD]),
        (("networkInterfaces",), [_CARD, *({**_EFA, "deviceIndex": n} for n in (1, 2))]),
        (("placementGroupSelector",), {}),
        (("placementGroupSelector",), {"name": "a", "id": "pg-1"}),
        (("kubelet",), {"imageGCHighThresholdPercent": 50, "imageGCLowThresholdPercent": 60}),
        (("kubelet",), {"evictionSoft": {"memory.available": "5%"}}),
        (("kubelet",), {"evictionSoftGracePeriod": {"memory.available": "1m"}}),
        *((("kubelet",), {field: {"disk": "5%"}}) for field in ("evictionHard", "evictionSoft")),
        (("kubelet",), {"evictionSoftGracePeriod": {"disk": "1m"}}),
        *((("kubelet",), {f"{who}Reserved": {"gpu": "1"}}) for who in ("kube", "system")),
        *((("kubelet",), {f"{who}Reserved": {"cpu": "-1"}}) for who in ("kube", "system")),
    ]
    without_family = {key: value for key, value in GOOD["EC2NodeClass"]["spec"].items() if key != "amiFamily"}
    for term in ({"id": "ami-1"}, {"alias": "windows2019@v1"}, {"alias": "al2022@v1"}, {"alias": ""}):
        found.append(Bad("EC2NodeClass", spec, {**without_family, "amiSelectorTerms": [term]}))
    return found + [Bad("EC2NodeClass", (*spec, *path), value) for path, value in changes]


_OTHER_FAMILIES = ("al2", "bottlerocket", "windows2019", "windows2022", "windows2025")
_BESIDE_ID = (("tags", {"a": "b"}), ("name", "a"), ("owner", "self"))
_BESIDE_RESERVATION = (("tags", {"a": "b"}), ("ownerID", "111122223333"), ("instanceMatchCriteria", "open"))
_TAGS = (
    "",
    "eks:eks-cluster-name",
    "kubernetes.io/cluster/a",
    "karpenter.sh/nodepool",
    "karpenter.sh/nodeclaim",
    "karpenter.k8s.aws/ec2nodeclass",
)
_CARD: Json = {"deviceIndex": 0, "networkCardIndex": 0, "interfaceType": "interface"}
_EFA: Json = {"networkCardIndex": 0, "interfaceType": "efa-only"}


def one_change_each(obj: Json) -> Iterator[tuple[Path, Any]]:
    """Every value of `spec` taken away, of another type, empty or out of bounds, and a field beside it that is none."""
    for path, value in _values(obj["spec"], ("spec",)):
        if isinstance(value, dict):
            yield (*path, "noSuchField"), "a"
        if len(path) > 1 and isinstance(path[-1], str):
            yield path, GONE
        for other in (7, -1, 10**9, "?", "", "x" * 400, True, [], {}, ["a"], {"a": "b"}):
            if type(other) is not type(value) or isinstance(value, str | int):
                yield path, other


def _values(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    yield path, value
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, item in steps:
        yield from _values(item, (*path, step))
