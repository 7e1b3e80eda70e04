"""docs/settings.md: every setting of a deployment, and the pinned versions."""

import types
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo
from specdecode.experiment.kept import NODES_FROM
from specdecode.experiment.shapes import SHAPES as NODE_SHAPES
from specdecode.experiment.shapes import NodeShape

from constructs_lib.settings import neuron_amis, versions, zones
from constructs_lib.settings.fields import Settings
from tools.reference import page, table

INTRODUCTION = """For whoever deploys. Every setting has a default, so `cdk deploy SpecDecodeStack` needs none. Give
one with `specdecode configure price_per_node_hour=31.5` (lists as `availability_zones=use2-az1,use2-az2`), which
keeps it in `deployment.json` for every later command ([how](operations.md#deploy)). The CDK's own `-c KEY=VALUE` and
`context` in `cdk.json` work too, but may not drop or change what the deployed stack has. What cannot work is refused
before anything is synthesized: every problem in one message, exit status 2."""
OFTEN = (
    "region alert_email budget_usd accept_cost_above_usd node_type nodes price_per_node_hour engine_generation "
    "capacity_reservation_id admin_role_arns"
)
ROOMS = {
    "Capacity, and the time of a run": "capacity_start capacity_end capacity_zones trn2_zones longest_run_hours",
    "The node": "neuron_ami driver_guard claim_constraint node_storage ebs_gib efa_interfaces",
    "A VPC of yours, and the network": "vpc_id subnet_ids vpc_cidr availability_zones nat_gateways interface_endpoints",
    "A cluster of yours": "existing_cluster cluster_endpoint cluster_ca cluster_security_group cluster_oidc_issuer "
    "karpenter_node_role existing_node_group node_security_groups",
    "The cluster that is made": "cluster_name kubernetes_version endpoint_public_cidrs system_instance_type",
    "Runs by a schedule": "schedule schedule_experiment schedule_time_zone schedule_accept_cost_usd",
    "Data, logs and rights": "account bucket_encryption removal_policy run_retention_days log_retention_days "
    "accept_no_alerts permissions_boundary tags",
}
"""The rest, folded. Every setting is in one room."""
FIXED = f"""Where nodes come from ({", ".join(f"`{key}`" for key in NODES_FROM)}) and `bucket_encryption=kms` stay:
nothing would look at the old place again, and objects would lose their key. [Destroy](operations.md#destroy), then
deploy. Copy models and artifacts to the new bucket, but no `state/`: that lease is closed. With
`removal_policy=destroy` copy before, to a bucket of yours.

```sh
aws s3 sync s3://OLD-BUCKET s3://NEW-BUCKET --exclude 'state/*'
```"""

PINS = """Not settings, but data in `constructs_lib/settings/versions.py` and
`constructs_lib/settings/neuron_amis.py`, each with its source."""
GENERATIONS = """The kernel driver comes with the node's AMI, and the runtime with the engine's image. A driver that is
too new for the runtime fails at start-up (`nrt_init`), so such a pair of settings is refused."""
AMIS = """A node runs only one of these releases (CHANGELOG.md of awslabs/amazon-eks-ami). With a release that does not
exist the node class has no AMI, and no node ever comes."""
SHAPES = """What `node_type` can be, and the node of a [check of the account](how-to/check-your-account.md), which every
deployment has. Sizes are what pods can have (`lambda/specdecode/experiment/shapes.py`, each with its source)."""
ZONES = """A zone is given by its id, since `us-east-2a` is another zone in another account. Other regions need
`availability_zones` and `trn2_zones`."""


def _type(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type(arguments[0])
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in arguments)
    if origin in (Union, types.UnionType):
        return " or ".join(_type(part) for part in arguments if part is not type(None))
    if origin is tuple:
        return "list"
    if origin is dict:
        return "key=value list"
    return {"str": "text", "int": "integer", "float": "number", "datetime": "date and time", "bool": "true or false"}[
        annotation.__name__
    ]


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    return "" if value is None or value in ((), {}) else f"`{value}`"


def _shape(shape: NodeShape) -> tuple[str, ...]:
    priced = ", ".join(f"{price.usd:g} ({region})" for region, price in shape.prices.items())
    claims = " or ".join(map(str, shape.claims)) or "none"
    sizes = (f"{shape.cpu:g}", f"{shape.memory_gib:.0f}", f"{shape.disk_gib:g}")
    return shape.name, str(shape.devices), claims, *sizes, priced or "unknown: say it with `price_per_node_hour`"


def _settings(names: str) -> str:
    fields = {name: Settings.model_fields[name] for name in names.split()}
    rows = [(f"`{name}`", _type(of.annotation), _default(of), of.description or "") for name, of in fields.items()]
    return table(("setting", "type", "default", "what it decides"), rows)


def render() -> str:
    rooms = [f"<details><summary>{room}</summary>\n\n{_settings(names)}\n\n</details>" for room, names in ROOMS.items()]
    pins = [("Karpenter charts", versions.KARPENTER_CHART), ("neuron-helm-chart", versions.NEURON_CHART)]
    for kubernetes, builds in versions.ADDONS.items():
        pins += [(f"{name} (Kubernetes {kubernetes})", build) for name, build in builds.items()]
    generations = [
        (
            f"`{name}`",
            of.runtime,
            of.driver_from + (f" to below {of.driver_below}" if of.driver_below else " or newer"),
            of.ami,
        )
        for name, of in neuron_amis.ENGINE_GENERATIONS.items()
    ]
    amis = [
        (
            ami.release,
            ami.driver,
            ami.kernel,
            ", ".join(ami.kubelet.values()),
        )
        for ami in neuron_amis.NEURON_AMIS.values()
    ]
    accelerated = [shape for shape in NODE_SHAPES.values() if shape.has_devices]
    regions = [
        (region, ", ".join(ids), *("yes" if region in (shape.zones or ()) else "no" for shape in accelerated))
        for region, ids in zones.REGION_ZONES.items()
    ]
    sizes = ("type", "Neuron devices", "claims of", "CPUs", "memory, GiB", "local disk, GiB", "USD an hour")
    return page(
        "Settings",
        INTRODUCTION,
        "## What people set",
        _settings(OFTEN),
        "## The rest",
        *rooms,
        "## Settings that cannot change",
        FIXED,
        "## Pinned versions",
        PINS,
        table(("what", "version"), [(name, f"`{version}`") for name, version in pins]),
        "## Engine generations and their node images",
        GENERATIONS,
        table(("`engine_generation`", "Neuron runtime", "drivers", "default AMI"), generations),
        AMIS,
        table(("EKS AL2023 Neuron AMI", "Neuron driver", "kernel", "kubelet"), amis),
        table(("refused", "because"), list(neuron_amis.REFUSED_AMIS.items())),
        "## Node types",
        SHAPES,
        table(sizes, [_shape(shape) for shape in NODE_SHAPES.values()]),
        "## Regions and zones",
        ZONES,
        table(("region", "zones of the network", *(f"{shape.name} seen" for shape in accelerated)), regions),
    )
