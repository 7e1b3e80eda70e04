"""Settings: what is read, what is refused, and that every problem is in the one message."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import pytest
from specdecode.experiment import kept
from specdecode.experiment.files import load_engine
from specdecode.experiment.shapes import ACCELERATED, SHAPES

from constructs_lib import logs
from constructs_lib.cluster.access import rights
from constructs_lib.settings.fields import Settings
from constructs_lib.settings.neuron_amis import (
    DRA_KUBELET,
    ENGINE_GENERATIONS,
    NEURON_AMIS,
    REFUSED_AMIS,
    STAGING_AMI,
    version,
)
from constructs_lib.settings.reading import SettingsError, read_settings, settings_of, texts
from constructs_lib.settings.rules import LOG_RETENTION_DAYS
from constructs_lib.settings.versions import ADDONS
from constructs_lib.settings.zones import EKS_REFUSES, REGION_ZONES
from tests.canaries import HUGGING_FACE, WORD
from tools.reference import settings as settings_page

ROOT = Path(__file__).resolve().parents[2]
NOW = datetime(2026, 11, 21, tzinfo=UTC)
RESERVED = {"capacity_reservation_id": "cr-0123456789abcdef0"}


def problems(**context: Any) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        read_settings(context, now=NOW)
    head, *lines, tail = str(caught.value).splitlines()
    assert head == "The settings cannot work:"
    assert tail == "See docs/settings.md."
    assert all(line.startswith("  - ") for line in lines)
    return [line.removeprefix("  - ") for line in lines]


def test_defaults_work() -> None:
    settings = read_settings({}, now=NOW)
    assert settings.region == "us-east-2"
    assert settings.zones == settings.node_zones == ("use2-az1", "use2-az2", "use2-az3")
    assert not settings.reserved
    assert settings.ami == "v20260714"


def test_context_of_the_cdk_is_left_alone() -> None:
    read_settings({"@aws-cdk/aws-iam:minimizePolicies": True, "aws:cdk:bundling-stacks": []}, now=NOW)


def test_text_of_the_command_line_is_read() -> None:
    given = {"availability_zones": "use2-az2, use2-az3", "nat_gateways": "2", "tags": "team=ml,stage=dev"}
    given |= {"price_per_node_hour": "12.5", "budget_usd": "100", "alert_email": ""}
    settings = read_settings(given, now=NOW)
    assert settings.zones == ("use2-az2", "use2-az3")
    assert settings.nat_gateways == 2
    assert settings.tags == {"team": "ml", "stage": "dev"}
    assert settings.alert_email is None


def test_a_small_node_has_its_zones_and_the_price_that_is_given() -> None:
    given = {"node_type": "trn2.3xlarge", "region": "ap-southeast-4", "price_per_node_hour": "3.5"}
    settings = read_settings(given, now=NOW)
    assert settings.node_zones == ("apse4-az1", "apse4-az2", "apse4-az3")
    assert settings.node_price == 3.5
    assert settings.shape.claims == (1,)


def test_a_reservation_makes_the_node_reserved() -> None:
    block = {"capacity_start": "2026-12-01T11:30:00+00:00", "capacity_end": "2026-12-03T11:30:00+00:00"}
    assert read_settings(RESERVED | block, now=NOW).reserved


VPC = {"vpc_id": "vpc-0123456789abcdef0"}
ONE, TWO = "subnet-0123456789abcdef0", "subnet-0123456789abcdef1"
YOURS = VPC | {"subnet_ids": f"{ONE},{TWO}", "availability_zones": "use2-az1,use2-az3"}
CLUSTER = {
    **YOURS,
    "existing_cluster": "Theirs_1",
    "cluster_endpoint": "https://0123.gr7.us-east-2.eks.amazonaws.com",
    "cluster_ca": "QUJD" * 30,
    "cluster_security_group": "sg-0123456789abcdef0",
    "cluster_oidc_issuer": "https://oidc.eks.us-east-2.amazonaws.com/id/0123",
}
SMALL = {"node_type": "trn2.3xlarge", "trn2_zones": "use2-az1"}
OTHER_ZONES = {"region": "us-east-1", "availability_zones": "use1-az1,use1-az3", "trn2_zones": "use1-az1"}
REFUSED: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"region": "mars-1", "price_per_node_hour": "30"}, ("region", "mars-1", "us-east-2")),
    ({"region": "us-west-2", "price_per_node_hour": "30"}, ("us-west-2", "trn2.48xlarge", "trn2_zones")),
    ({"region": "ap-southeast-4"}, ("price_per_node_hour", "publishes no price of a trn2.48xlarge in ap-sou")),
    ({"node_type": "trn2.3xlarge", "price_per_node_hour": "3"}, ("no zone of us-east-2", "trn2.3xlarge")),
    (SMALL, ("no price of a trn2.3xlarge in us-east-2",)),
    ({"node_type": "m7i.4xlarge"}, ("node_type", "trn2.48xlarge", "trn2.3xlarge")),
    (SMALL | {"price_per_node_hour": "3", "efa_interfaces": "true"}, ("efa_interfaces", "not of a trn2.3xlarge")),
    ({"availability_zones": "use2-az1"}, ("two zones",)),
    ({"availability_zones": "use2-az1,usw2-az2"}, ("usw2-az2", "not in us-east-2")),
    ({"availability_zones": "use2-az1,us-east-2b"}, ("us-east-2b", "name", "describe-availability-zones")),
    ({"availability_zones": "use2-az1,zone-b"}, ("zone-b", "not a zone id")),
    (OTHER_ZONES | {"price_per_node_hour": "30"}, ("use1-az3", "EKS")),
    ({"capacity_zones": "use2-az4"}, ("use2-az4", "network's zones")),
    ({"capacity_zones": "use2-az3", "trn2_zones": "use2-az1"},
     ("use2-az3", "describe-instance-type-offerings", "availability-zone-id", "trn2_zones")),
    ({"vpc_cidr": "10.0.0.0/33"}, ("vpc_cidr", "33")),
    ({"vpc_cidr": "10.0.0.0/24"}, ("vpc_cidr", "/16 and /20")),
    ({"vpc_cidr": "garbage"}, ("vpc_cidr", "garbage")),
    ({"endpoint_public_cidrs": "10.0.0.1/8"}, ("endpoint_public_cidrs", "host bits")),
    ({"kubernetes_version": "1.33"}, ("kubernetes_version", "1.33", "resource.k8s.io/v1")),
    ({"engine_generation": "sdk-9"}, ("engine_generation", "sdk-2.26")),
    ({"engine_generation": "sdk-2.26", "neuron_ami": "v20260714"},
     ("v20260714", "2.29.0", "below 2.29", "v20260224")),
    ({"engine_generation": "sdk-2.31", "neuron_ami": "v20260224"},
     ("v20260224", "2.25.4", "2.27 or newer", "v20260409, ")),
    ({"neuron_ami": "v20260707"}, ("v20260707", "no release that the project knows", "neuron_amis.py")),
    ({"engine_generation": "sdk-2.26", "neuron_ami": "v20260225"},
     ("v20260225", "no release that the project knows", "v20260224, v20260304")),
    ({"neuron_ami": "v20261003", "engine_generation": "sdk-2.33"}, ("v20261003", "panics", "v20260714")),
    ({"engine_generation": "sdk-2.26", "neuron_ami": "v20251209"},
     ("v20251209", "not released for Kubernetes 1.35")),
    ({"capacity_reservation_id": "reservation-1"}, ("capacity_reservation_id", "reservation-1")),
    ({"capacity_end": "2026-12-01T00:00:00Z"}, ("capacity_reservation_id",)),
    ({**RESERVED, "capacity_end": "2026-11-20T00:00:00Z"}, ("capacity_end", "is past")),
    ({**RESERVED, "capacity_end": "2026-12-20T00:00:00"}, ("capacity_end", "offset")),
    ({**RESERVED, "capacity_start": "2026-12-02T00:00:00Z", "capacity_end": "2026-12-01T00:00:00Z"}, ("not after",)),
    ({"log_retention_days": "31"}, ("log_retention_days", "30, 60")),
    ({"run_retention_days": "4"}, ("run_retention_days", "5")),
    ({"interface_endpoints": "sts,mars"}, ("mars", "sts, logs")),
    ({"account": "12"}, ("account",)),
    ({"alert_email": "me"}, ("alert_email",)),
    ({"tags": "team"}, ("tags", "key=value")),
    ({"permissions_boundary": "boundary"}, ("permissions_boundary",)),
    ({"regoin": "us-east-2"}, ("regoin", "did you mean region")),
    ({"bucket_encryption": "rot13"}, ("bucket_encryption",)),
    # a VPC of yours needs its subnets and their zones
    (VPC, ("subnet_ids", "describe-subnets --region us-east-2 --filters Name=vpc-id,Values=vpc-0", "Name=tag:")),
    ({"subnet_ids": f"{ONE},{TWO}"}, ("subnet_ids", "vpc_id")),
    (VPC | {"subnet_ids": f"{ONE},{TWO}"}, ("availability_zones", "name the zone of each of subnet_ids")),
    (YOURS | {"subnet_ids": f"{ONE},{ONE}"}, ("subnet_ids", "named once")),
    (YOURS | {"availability_zones": "use2-az1,use2-az2,use2-az3"}, ("zone", "2 subnet_ids and 3 zones")),
    (YOURS | {"subnet_ids": f"{ONE},subnet-x"}, ("subnet_ids", "subnet-x")),
    ({"vpc_id": "my-vpc", "vpc_cidr": "10.0.0.0/16"}, ("vpc_id", "my-vpc")),
    (YOURS | {"nat_gateways": "2"}, ("nat_gateways", "leave it out")),
    (YOURS | {"vpc_cidr": "10.0.0.0/30"}, ("vpc_cidr", "/28")),
    ({"interface_endpoints": "s3"}, ("interface_endpoints", "s3 is not one of")),
    # half a cluster of yours
    ({"existing_cluster": "theirs"}, ("vpc_id must be given too", "describe-cluster --region us-east-2")),
    ({key: value for key, value in CLUSTER.items() if key != "cluster_ca"}, ("existing_cluster: cluster_ca must",)),
    ({"cluster_ca": CLUSTER["cluster_ca"]}, ("cluster_ca", "existing_cluster")),
    (CLUSTER | {"admin_role_arns": "arn:aws:iam::111122223333:role/admin"}, ("admin_role_arns", "leave it out")),
    (CLUSTER | {"capacity_reservation_id": "cr-0123456789abcdef0"}, ("capacity_reservation_id", "leave it out")),
    (CLUSTER | {"node_security_groups": "sg-0123456789abcdef0"}, ("node_security_groups", "karpenter_node_role")),
    (CLUSTER | {"karpenter_node_role": "r", "node_security_groups": "web"}, ("web is no id",)),
    ({"karpenter_node_role": "r"}, ("karpenter_node_role", "existing_cluster")),
    ({"existing_node_group": "g"}, ("existing_node_group", "existing_cluster")),
    (CLUSTER | {"existing_node_group": "g", "karpenter_node_role": "r"}, ("leave one out",)),
    (CLUSTER | {"existing_node_group": "g", "nodes": "2"}, ("nodes", "one run at a time")),
    (CLUSTER | {"existing_node_group": "g", "neuron_ami": "v20260714"}, ("neuron_ami", "karpenter_node_role")),
    (CLUSTER | {"karpenter_node_role": "r", "availability_zones": "use2-az1,use2-az2", "trn2_zones": "use2-az3",
                "capacity_zones": "use2-az3"}, ("capacity_zones", "not among")),
]  # fmt: skip


@pytest.mark.parametrize(("context", "words"), REFUSED)
def test_refused_with_a_line_that_says_why(context: dict[str, Any], words: tuple[str, ...]) -> None:
    (line,) = problems(**context)
    assert all(word in line for word in words), line


@pytest.mark.parametrize(
    ("ranges", "words"),
    [
        ("0.0.0.0/0", "everyone"),
        ("0.0.0.0/1,128.0.0.0/1", "everyone"),
        ("0.0.0.0/1,128.0.0.0/2,192.0.0.0/3,224.0.0.0/4,240.0.0.0/5,248.0.0.0/6,252.0.0.0/7", "4,261,412,864 addr"),
        ("11.0.0.0/8,198.51.100.0/24", "more than a /8"),
        ("::/0", "IPv6"),
        ("::/1,8000::/1", "IPv6"),
    ],
)
def test_public_ranges_are_added_up(ranges: str, words: str) -> None:
    lines = problems(endpoint_public_cidrs=ranges)
    assert all(line.startswith("endpoint_public_cidrs: ") and words in line for line in lines), lines


def test_a_companys_own_ranges_pass_however_often_they_are_named() -> None:
    ranges = "11.0.0.0/8,11.0.0.0/9,11.128.0.0/9"
    assert len(read_settings({"endpoint_public_cidrs": ranges}, now=NOW).endpoint_public_cidrs) == 3


def test_one_subnet_is_too_few() -> None:
    lines = problems(**VPC, subnet_ids=ONE, availability_zones="use2-az3")
    assert [line.partition(":")[0] for line in lines] == ["availability_zones", "subnet_ids"]


def test_a_vpc_of_yours_may_have_any_range_and_four_zones() -> None:
    four = {"region": "us-west-2", "availability_zones": "usw2-az1,usw2-az2,usw2-az3,usw2-az4"}
    subnets = ",".join(f"subnet-0123456789abcdef{i}" for i in range(4))
    given = {"trn2_zones": "usw2-az4", "subnet_ids": subnets, "vpc_cidr": "10.1.2.0/24", "price_per_node_hour": "30"}
    assert read_settings(VPC | four | given, now=NOW).node_zones == ("usw2-az4",)


def test_a_cluster_of_yours_is_all_that_eks_says_of_it() -> None:
    settings = read_settings(CLUSTER, now=NOW)
    assert (settings.eks_cluster, settings.cluster_name) == ("Theirs_1", "specdecode")


def test_nodes_that_are_made_in_it_have_the_settings_of_nodes() -> None:
    given = {"karpenter_node_role": "KarpenterNodes", "nodes": "2", "capacity_reservation_id": "cr-0123456789abcdef0"}
    settings = read_settings(CLUSTER | given, now=NOW)
    assert settings.makes_nodes and settings.nodes == 2
    assert not read_settings(CLUSTER, now=NOW).makes_nodes
    assert Settings().makes_nodes


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("karpenter_node_role", "arn:aws:iam::111122223333:role/nodes"),
        ("existing_cluster", "a b"),
        ("cluster_endpoint", "http://x"),
        ("cluster_security_group", "default"),
        ("cluster_ca", "-----BEGIN"),
    ],
)
def test_a_malformed_part_of_it_is_named(key: str, value: str) -> None:
    lines = problems(**CLUSTER | {key: value})
    assert any(line.startswith(f"{key}: ") for line in lines), lines


def test_all_problems_come_at_once() -> None:
    wrong = {"regoin": "x", "vpc_cidr": "10.0.0.0/33", "kubernetes_version": "1.30", "neuron_ami": "v20260625"}
    assert len(problems(**wrong, capacity_reservation_id="nonsense", nat_gateways="9")) == 6


def test_every_setting_is_in_one_room_of_its_page() -> None:
    assert len(settings_page.OFTEN.split()) == 10
    rooms = " ".join([settings_page.OFTEN, *settings_page.ROOMS.values()]).split()
    assert sorted(rooms) == sorted(Settings.model_fields), "tools/reference/settings.py"


@pytest.mark.parametrize("path", sorted((ROOT / "assets" / "engines").glob("*-sdk*.yaml")), ids=lambda path: path.stem)
def test_every_engine_has_a_generation_whose_ami_it_accepts(path: Path) -> None:
    runtime = load_engine(path.stem).runtime.model_dump(exclude_none=True)
    sdk = path.stem.partition("-sdk")[2]
    generation = ENGINE_GENERATIONS["sdk-" + ".".join(sdk.split(".")[:2])]
    assert generation.runtime == runtime["version"]
    assert runtime["oldest_ami"] <= generation.ami <= runtime.get("newest_ami", "v99999999")
    assert generation.ami not in runtime.get("refused_amis", [])
    for release, ami in NEURON_AMIS.items():
        if runtime["oldest_ami"] <= release <= runtime.get("newest_ami", release):
            assert generation.takes(ami.driver), "the engine's span of AMIs takes in a driver that its runtime refuses"


def test_tables_fit_each_other() -> None:
    assert set(logs._BY_DAYS) == set(LOG_RETENTION_DAYS)
    for shape in SHAPES.values():
        for region, found in (shape.zones or {}).items():
            assert set(found) <= set(REGION_ZONES[region])
    assert set(ACCELERATED) == set(get_args(Settings.model_fields["node_type"].annotation))
    for region, zones in REGION_ZONES.items():
        assert len(set(zones)) == 3
        assert len({zone.partition("-")[0] for zone in zones}) == 1, region
        assert not {*zones} & {*EKS_REFUSES}
    for minor in ADDONS:
        for name in ENGINE_GENERATIONS:
            read_settings({"kubernetes_version": minor, "engine_generation": name}, now=NOW)


def test_every_ami_that_can_be_chosen_is_one_to_use() -> None:
    assert list(NEURON_AMIS) == sorted(NEURON_AMIS)
    assert not {*NEURON_AMIS} & {*REFUSED_AMIS}
    assert STAGING_AMI in NEURON_AMIS
    for ami in NEURON_AMIS.values():
        for minor, kubelet in ami.kubelet.items():
            assert kubelet.startswith(f"{minor}.") and minor in ADDONS
            assert version(kubelet) >= DRA_KUBELET, ami.release


@pytest.mark.parametrize("context", [{"tags": "owner=CANARY"}, {"alert_email": "CANARY"}, {"CANARY": "1"}])
def test_a_credential_in_a_setting_is_refused_and_not_repeated(context: dict[str, str]) -> None:
    """It would be in the template, in CloudFormation's events and on every resource."""
    (problem,) = problems(
        **{key.replace("CANARY", HUGGING_FACE): value.replace("CANARY", HUGGING_FACE) for key, value in context.items()}
    )
    assert "holds what looks like a Hugging Face token" in problem
    assert WORD not in problem


@pytest.mark.parametrize(
    ("kept_settings", "context", "region", "says"),
    [
        ({"nodes": "2"}, {"nodes": "2"}, None, None),
        ({"tags": "a=b"}, {"tags": {"a": "b"}}, None, None),
        ({"price_per_node_hour": "36.0"}, {"price_per_node_hour": 36}, None, None),
        ({"region": "us-east-2"}, {"region": "us-west-2"}, None, "region: us-west-2 is given .*, and deployment.json"),
        ({"nodes": "2"}, {"nodes": 3}, None, "nodes: 3 is given .*cdk.json.*, and deployment.json keeps 2; leave"),
        ({"alert_email": "me@example.com"}, {"alert_email": ""}, None, "alert_email: nothing is given .*, and"),
        ({"region": "us-east-2"}, {}, "ap-southeast-4", None),
        ({}, {}, "us-west-2", "region: the deployment would go to us-east-2, and the environment says us-west-2"),
        ({}, {"region": "us-east-2"}, "us-east-2", None),
    ],
)
def test_what_is_kept_may_not_be_contradicted(
    kept_settings: dict[str, str], context: dict[str, Any], region: str | None, says: str | None, tmp_path: Path
) -> None:
    kept.write(tmp_path, kept.KeptSettings(settings=kept_settings, replaces={"nodes": "1"}))
    environ = {"AWS_REGION": region} if region else {}
    if says is None:
        settings, replaces = settings_of(context, root=tmp_path, environ=environ)
        assert texts(settings).items() >= kept_settings.items() and replaces == {"nodes": "1"}
    else:
        with pytest.raises(SettingsError, match=says):
            settings_of(context, root=tmp_path, environ=environ)


def test_each_setting_that_says_where_nodes_come_from_stays() -> None:
    """As the functions have it: the cluster, the pools, and what they may do there. `nodes` is UpdateGuard's."""

    def source(settings: Settings) -> tuple[Any, ...]:
        return settings.eks_cluster, settings.node_pools, rights(settings)

    moving = set()
    for given in ({}, CLUSTER, CLUSTER | {"karpenter_node_role": "r"}, CLUSTER | {"existing_node_group": "g"}):
        before = read_settings(given, now=NOW)
        for key, value in before:
            other = before.model_copy(update={key: value + 1 if isinstance(value, int) else "other"})
            moving |= {key} if source(other) != source(before) else set()
    assert moving == {*kept.NODES_FROM, "nodes"}


def test_the_text_of_every_setting_is_read_as_that_setting() -> None:
    """So that what is written into the file means what was given."""
    given = RESERVED | {
        "capacity_start": "2099-01-01T11:30:00+00:00", "capacity_end": "2099-01-03T11:30:00+00:00",
        "price_per_node_hour": "31.5", "driver_guard": "true", "nodes": "3",
        "admin_role_arns": "arn:aws:iam::111122223333:role/a,arn:aws:iam::111122223333:role/b",
        "tags": "stage=dev,team=ml", "schedule": "cron(0 1 ? * SAT *)", "schedule_experiment": "qwen3-32b",
    }  # fmt: skip
    settings = read_settings(given, now=NOW)
    assert texts(settings) == {**given, "region": "us-east-2"} and read_settings(texts(settings), now=NOW) == settings
