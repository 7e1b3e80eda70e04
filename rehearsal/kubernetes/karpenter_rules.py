"""The cross-field (CEL) rules of Karpenter v1.14.1's CRDs, in Python."""

from collections.abc import Iterable, Iterator

from rehearsal.kubernetes import errors
from rehearsal.kubernetes.objects import Json, dig

_OPEN_KARPENTER_LABELS = ("karpenter.sh/capacity-type", "karpenter.sh/nodepool")
_AWS_LABELS = [
    "instance-tenancy",
    "capacity-reservation-type",
    "capacity-reservation-id",
    "capacity-reservation-interruptible",
    "ec2nodeclass",
    "instance-encryption-in-transit-supported",
    "nitro-sandbox",
    "instance-category",
    "instance-hypervisor",
    "instance-family",
    "instance-generation",
    "instance-local-nvme",
    "instance-size",
    "instance-cpu",
    "instance-cpu-manufacturer",
    "instance-cpu-sustained-clock-speed-mhz",
    "instance-memory",
    "instance-ebs-bandwidth",
    "instance-network-bandwidth",
    "instance-gpu-name",
    "instance-gpu-manufacturer",
    "instance-gpu-count",
    "instance-gpu-memory",
    "instance-accelerator-name",
    "instance-accelerator-manufacturer",
    "instance-accelerator-count",
    "instance-capability-flex",
    "placement-group-id",
    "placement-group-partition",
]
_RESTRICTED_TAGS = (
    "eks:eks-cluster-name",
    "karpenter.sh/nodepool",
    "karpenter.sh/nodeclaim",
    "karpenter.k8s.aws/ec2nodeclass",
)
_AMI_FAMILY = {
    name.lower(): name for name in ("AL2", "AL2023", "Bottlerocket", "Windows2019", "Windows2022", "Windows2025")
}


def node_pool(obj: Json, old: Json | None) -> Iterator[Json]:
    spec = obj["spec"]
    static = "replicas" in spec
    if old is not None and static != ("replicas" in old["spec"]):
        message = (
            "Cannot transition NodePool between static (replicas set) and dynamic (replicas unset) provisioning modes"
        )
        yield _rule("spec", message)
    if static and set(spec.get("limits") or {}) - {"nodes"}:
        yield _rule("spec", "only 'limits.nodes' is supported on static NodePools")
    if static and "weight" in spec:
        yield _rule("spec", "'weight' is not supported on static NodePools")
    for index, budget in enumerate(dig(spec, "disruption", "budgets", default=())):
        if ("schedule" in budget) != ("duration" in budget):
            yield _rule(f"spec.disruption.budgets[{index}]", "'schedule' must be set with 'duration'")
    template = spec["template"]
    for key in dig(template, "metadata", "labels", default={}):
        yield from _label("spec.template.metadata.labels", key)
    for part in ("group", "kind", "name"):
        if not dig(template, "spec", "nodeClassRef", part):
            yield _rule("spec.template.spec.nodeClassRef", f"{part} may not be empty")
    before = dig(old, "spec", "template", "spec", "nodeClassRef") if old else None
    for part in ("group", "kind"):
        if before and before[part] != template["spec"]["nodeClassRef"][part]:
            yield _rule("spec.template.spec.nodeClassRef", f"nodeClassRef.{part} is immutable")
    yield from _requirements(template["spec"]["requirements"], "spec.template.spec.requirements")


def node_overlay(obj: Json, old: Json | None) -> Iterator[Json]:
    spec = obj["spec"]
    if "price" in spec and "priceAdjustment" in spec:
        yield _rule("spec", "cannot set both 'price' and 'priceAdjustment'")
    if set(spec.get("capacity") or {}) & {"cpu", "memory", "ephemeral-storage", "pods"}:
        yield _rule("spec.capacity", "invalid resource restricted")
    for index, requirement in enumerate(spec["requirements"]):
        if requirement["operator"] == "NotIn" and not requirement.get("values"):
            message = "requirements with operator 'NotIn' must have a value defined"
            yield _rule(f"spec.requirements[{index}]", message)
    yield from _requirements(spec["requirements"], "spec.requirements")


def _requirements(requirements: Iterable[Json], path: str) -> Iterator[Json]:
    for index, requirement in enumerate(requirements):
        here = f"{path}[{index}]"
        values, operator = requirement.get("values") or [], requirement["operator"]
        yield from _label(here, requirement["key"])
        if operator == "In" and not values:
            yield _rule(here, "requirements with operator 'In' must have a value defined")
        if operator in ("Gt", "Lt", "Gte", "Lte") and not (len(values) == 1 and values[0].isdigit()):
            yield _rule(
                here, "requirements operator 'Gt', 'Lt', 'Gte', or 'Lte' must have a single positive integer value"
            )
        if operator == "In" and len(values) < requirement.get("minValues", 0):
            yield _rule(
                here,
                "requirements with 'minValues' must have at least that many values specified in the 'values' field",
            )


def _label(path: str, key: str) -> Iterator[Json]:
    domain, _, name = key.rpartition("/")
    if key in ("karpenter.sh/nodepool", "kubernetes.io/hostname"):
        yield _rule(path, f'label "{key}" is restricted')
    elif domain.endswith("karpenter.sh") and key not in _OPEN_KARPENTER_LABELS:
        yield _rule(path, 'label domain "karpenter.sh" is restricted')
    elif domain.endswith("karpenter.k8s.aws") and name not in _AWS_LABELS:
        yield _rule(path, 'label domain "karpenter.k8s.aws" is restricted')


def node_class(obj: Json, old: Json | None) -> Iterator[Json]:
    spec = obj["spec"]
    if ("role" in spec) == ("instanceProfile" in spec):
        yield _rule("spec", "must specify exactly one of ['role', 'instanceProfile']")
    for field in ("role", "instanceProfile"):
        if spec.get(field) == "":
            yield _rule(f"spec.{field}", f"{field} cannot be empty")
    yield from _amis(spec)
    yield from _terms(spec, "securityGroupSelectorTerms", ("tags", "id", "name"), ("id", "name"), nonempty=True)
    yield from _terms(spec, "subnetSelectorTerms", ("tags", "id"), ("id",), nonempty=True)
    yield from _terms(spec, "capacityReservationSelectorTerms", ("tags", "id", "instanceMatchCriteria"), ("id",))
    for key in spec.get("tags") or {}:
        if key == "" or key in _RESTRICTED_TAGS or key.startswith("kubernetes.io/cluster"):
            yield _rule("spec.tags", f"tag contains a restricted tag matching {key}")
    mappings = spec.get("blockDeviceMappings") or []
    if sum(bool(mapping.get("rootVolume")) for mapping in mappings) > 1:
        yield _rule("spec.blockDeviceMappings", "must have only one blockDeviceMappings with rootVolume")
    for index, mapping in enumerate(mappings):
        ebs = mapping.get("ebs")
        if ebs is not None and "snapshotID" not in ebs and "volumeSize" not in ebs:
            yield _rule(f"spec.blockDeviceMappings[{index}].ebs", "snapshotID or volumeSize must be defined")
        if ebs is not None and "volumeInitializationRate" in ebs and not ebs.get("snapshotID"):
            message = "snapshotID must be set when volumeInitializationRate is set"
            yield _rule(f"spec.blockDeviceMappings[{index}].ebs", message)
    for field in ("kubelet", "networkInterfaces"):
        if field in spec:
            yield errors.unsupported(f"spec.{field}", f"an EC2NodeClass with {field}")


def _amis(spec: Json) -> Iterator[Json]:
    terms = spec["amiSelectorTerms"]
    yield from _terms(spec, "amiSelectorTerms", ("tags", "id", "name", "alias", "ssmParameter"), ("id", "alias"))
    aliases = [term["alias"] for term in terms if "alias" in term]
    for alias in aliases:
        family, at, version = alias.partition("@")
        if not (family and at and version):
            yield _rule(
                "spec.amiSelectorTerms", "'alias' is improperly formatted, must match the format 'family@version'"
            )
        elif family not in _AMI_FAMILY:
            supported = ", ".join(f"'{name}'" for name in _AMI_FAMILY)
            yield _rule("spec.amiSelectorTerms", f"family is not supported, must be one of the following: {supported}")
        elif family.startswith("windows") and version != "latest":
            yield _rule("spec.amiSelectorTerms", "windows families may only specify version 'latest'")
        elif spec.get("amiFamily") not in (None, "Custom", _AMI_FAMILY[family]):
            name = _AMI_FAMILY[family]
            yield _rule("spec", f"if set, amiFamily must be '{name}' or 'Custom' when using a {name} alias")
    if aliases and len(terms) > 1:
        message = "'alias' is mutually exclusive, cannot be set with a combination of other amiSelectorTerms"
        yield _rule("spec.amiSelectorTerms", message)
    if not aliases and "amiFamily" not in spec:
        yield _rule("spec", "must specify amiFamily if amiSelectorTerms does not contain an alias")


def _terms(
    spec: Json, field: str, choices: tuple[str, ...], alone: tuple[str, ...], *, nonempty: bool = False
) -> Iterator[Json]:
    path = f"spec.{field}"
    terms = spec.get(field)
    if nonempty and terms == []:
        yield _rule(path, f"{field} cannot be empty")
    for term in terms or ():
        if not any(choice in term for choice in choices):
            yield _rule(path, f"expected at least one, got none, {list(choices)}")
        for name in alone:
            if name in term and len(term) > 1:
                yield _rule(path, f"'{name}' is mutually exclusive, cannot be set with a combination of other fields")
        for key, value in (term.get("tags") or {}).items():
            if not key or not value:
                yield _rule(f"{path}.tags", "empty tag keys or values aren't supported")


def _rule(path: str, message: str) -> Json:
    return errors.invalid_value(path, "object", message)
