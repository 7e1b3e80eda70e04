"""Pods of a run in a cluster of yours: whether nodes have room, whether they are admitted, and find names."""

import base64
import json
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from specdecode.cli.preflight import pods
from specdecode.cli.preflight.check import Check
from specdecode.experiment import load_engine, load_preset
from specdecode.experiment.shapes import SHAPES
from specdecode.experiment.sizing import room_of, unfit
from specdecode.kubernetes.node_room import amount, room_of_node

from tests.docs.markdown import ROOT
from tests.specdecode.cli.preflight.test_cluster import Shell, world
from tests.specdecode.cli.preflight.test_cluster_nodes import THEIRS, group

QWEN = load_preset("qwen3-32b")
CONFIG = """--//
Content-Type: application/node.eks.aws

apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec: {instance: {localStorage: {strategy: RAID0}}}
--//--"""
TEMPLATE = {"id": "lt-0123456789abcdef0", "version": "1"}
GOOD = {"amiType": "AL2023_x86_64_NEURON", "releaseVersion": "1.35.0-20260224"}
QUOTA = {"Quota": {"Value": 192.0}}


def found(
    answer: dict[str, Any], *, data: dict[str, Any] | None = None, preset: str = "qwen3-32b", **answers: Any
) -> list[tuple[str, str, str]]:
    data = {} if data is None else data
    more = {
        "DescribeNodegroup": answer,
        "DescribeLaunchTemplateVersions": {"LaunchTemplateVersions": [{"LaunchTemplateData": data}]},
        "DescribeInstances": {"Reservations": []},
        "GetServiceQuota": QUOTA,
    }
    ask = world(**more | answers).ask(cluster="theirs", existing=THEIRS)
    return [(check.name, check.verdict, check.detail) for check in pods.of_group(ask, load_preset(preset), "trainium")]


def nvme() -> dict[str, Any]:
    return {"UserData": base64.b64encode(CONFIG.encode()).decode()}


@pytest.mark.parametrize(
    ("changes", "data", "verdict", "said"),
    [
        (GOOD, None, "fail", "compiling needs 630 GiB of local disk, and a node of trainium has 0 to give"),
        (GOOD | {"diskSize": 3000}, None, "ok", "holds the largest pods of qwen3-32b"),
        (GOOD | {"launchTemplate": TEMPLATE}, {}, "fail", "has 0 to give"),
        (GOOD | {"launchTemplate": TEMPLATE}, nvme(), "ok", "holds"),
        (GOOD | {"launchTemplate": {"id": "lt-1"}}, {"UserData": "AAAA"}, "fail", "has 0 to give"),
        (
            GOOD | {"launchTemplate": TEMPLATE},
            {
                "BlockDeviceMappings": [
                    {"DeviceName": "/dev/xvdb", "Ebs": {"VolumeSize": 4000}},
                    {"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 500}},
                ]
            },
            "fail",
            "has 422 to give",
        ),
        (
            GOOD | {"diskSize": 3000, "releaseVersion": "1.35.6-20260714"},
            None,
            "fail",
            "has AMI v20260714, and 0.9.1-sdk2.26.1 needs v20260114 to v20260625",
        ),
        ({"diskSize": 3000, "releaseVersion": "ami-0123456789abcdef0"}, None, "warn", "not known: AMI"),
    ],
)
def test_the_next_node_of_a_group(changes, data, verdict, said):
    (name, came, detail), *_ = found(group(**changes), data=data)
    assert (name, came) == ("room", verdict) and said in detail, detail


def test_the_recipe_of_the_page_makes_a_node_on_which_the_page_s_preset_fits():
    page = (ROOT / "docs" / "how-to" / "own-cluster.md").read_text("utf-8")
    script, ami, release, preset = (
        re.search(pattern, page, re.DOTALL)
        for pattern in (
            r"cat > node\.txt <<'EOF'\n(.*?) +EOF",
            r"--ami-type (\S+)",
            r"--release-version (\S+)",
            r"existing_node_group=trainium\s+specdecode preflight (\S+)",
        )
    )
    assert script and ami and release and preset
    user_data = base64.b64encode(textwrap.dedent(script[1]).encode()).decode()
    made = group(amiType=ami[1], releaseVersion=release[1], launchTemplate=TEMPLATE)
    (_, came, detail), *_ = found(made, data={"UserData": user_data}, preset=preset[1])
    assert came == "ok", detail


def test_the_quota_counts_for_a_group_on_demand_without_its_own_node():
    own = {"Key": "eks:nodegroup-name", "Value": "trainium"}, {"Key": "eks:cluster-name", "Value": "theirs"}
    node = {"InstanceType": "trn2.48xlarge", "CpuOptions": {"CoreCount": 96, "ThreadsPerCore": 2}}
    for tags, verdict in ((own, "ok"), (own[1:], "fail")):
        running = {"Reservations": [{"Instances": [node | {"Tags": list(tags)}]}]}
        assert found(group(**GOOD), DescribeInstances=running)[1][:2] == ("vCPUs for trn2.48xlarge", verdict)
    assert len(found(group(**GOOD, capacityType="CAPACITY_BLOCK"))) == 1, "a block has its own"


def node(**allocatable: str) -> dict[str, Any]:
    has = {"cpu": "191450m", "memory": "1938410Mi", "ephemeral-storage": "2600Gi"} | allocatable
    conditions = [{"type": "Ready", "status": "True"}]
    return {"metadata": {"name": "n"}, "status": {"allocatable": has, "conditions": conditions}}


def slices(count: int = 16, driver: str = "2.25.4.0") -> list[dict[str, Any]]:
    device = {"attributes": {"neuronDriverVersion": {"string": driver}}}
    return [{"spec": {"driver": "neuron.aws.com", "nodeName": "n", "devices": [device] * count}}]


@pytest.mark.parametrize(
    ("there", "published", "said"),
    [
        (node(), slices(), []),
        (node(cpu="96"), slices(), ["serving 2 arms needs", "compiling needs 182 CPUs, and node n has 96"]),
        (node(memory="535Gi"), slices(), ["serving 2 arms needs 541 GiB of memory"]),
        (node(**{"ephemeral-storage": "18242267924"}), slices(), ["serving 2 arms needs", "compiling needs 630 GiB"]),
        (node(), slices(4), ["an arm claims 8 devices, and node n has 4"]),
        (node(), slices(driver="2.29.0.0"), ["has Neuron driver 2.29.0.0, and 0.9.1-sdk2.26.1 takes"]),
        ({"metadata": {"name": "n"}}, None, []),
    ],
)
def test_a_node_that_is_there(there, published, said):
    engine = load_engine(QWEN.images_of).on_node(QWEN.node, QWEN.devices)
    why = list(unfit(QWEN, engine, room_of_node(there, published)))
    assert len(why) == len(said) and all(words in line for words, line in zip(said, why, strict=True)), why
    if published is not None:
        (check,) = of_nodes(there, published)
        assert check.verdict == ("fail" if said else "ok")


def of_nodes(there: Any, published: Any, *claims: Any) -> list[Check]:
    answers = {"nodes": [there], "resourceslices": published, "resourceclaims": claims}
    shell = Shell(**{kind: json.dumps({"items": items}) for kind, items in answers.items()})
    return list(pods.of_nodes(world().ask(cluster="theirs", existing=THEIRS), QWEN, ask_kubectl=shell))


@pytest.mark.parametrize(
    ("namespace", "held", "verdict"), [("theirs", 4, "warn"), ("theirs", 9, "fail"), ("specdecode", 9, None)]
)
def test_devices_that_others_hold(namespace, held, verdict):
    results = [{"driver": "neuron.aws.com", "pool": "n", "device": f"neuron-{number}"} for number in range(held)]
    claim = {"metadata": {"name": "c", "namespace": namespace}}
    claim |= {"status": {"allocation": {"devices": {"results": results}}}}
    found = {check.name: check for check in of_nodes(node(), slices(), claim)}
    assert (found["devices"].verdict if "devices" in found else None) == verdict
    assert verdict is None or f"{16 - held} of 16 devices of n are free: theirs/c" in found["devices"].detail


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_shape_is_judged_by_the_same_function(shape):
    engine = load_engine(QWEN.images_of).on_node(QWEN.node, QWEN.devices)
    assert bool(list(unfit(QWEN, engine, room_of(shape)))) == (shape.name != "trn2.48xlarge")


@pytest.mark.parametrize(
    ("text", "number"), [("191450m", 191.45), ("12", 12), ("4Ki", 4096), ("1e3", None), ("", None), (None, None)]
)
def test_quantities(text, number):
    assert amount(text) == (None if number is None else pytest.approx(number))


DENIED = 'Error from server: admission webhook "policy.example" denied the request: no pods of strangers'


class Api:
    """kubectl create --dry-run=server: refuses the pods of some components."""

    def __init__(self, **refused: str) -> None:
        self.refused, self.pods = refused, dict[str, Any]()

    def __call__(self, arguments: Sequence[str]) -> str:
        assert arguments[:2] == ["create", "--dry-run=server"]
        pod = json.loads(Path(arguments[-1]).read_text("utf-8"))
        component = pod["metadata"]["labels"]["app.kubernetes.io/component"]
        self.pods[component] = pod
        if component in self.refused:
            raise LookupError(self.refused[component])
        return f"pod/{pod['metadata']['name']}"


def test_a_pod_of_each_kind_as_its_controller_would_make_it():
    api = Api()
    (check,) = pods.of_pods(world().ask(), QWEN, ask_kubectl=api)
    assert check.verdict == "ok" and set(api.pods) >= {"staging", "compile", "serving", "smoke", "benchmark"}
    assert {pod["metadata"]["ownerReferences"][0]["kind"] for pod in api.pods.values()} == {"Job", "ReplicaSet"}
    assert api.pods["serving"]["spec"]["resourceClaims"]


@pytest.mark.parametrize(
    ("words", "verdict", "fix"),
    [
        (DENIED, "fail", "The cluster's administrator excepts the namespace specdecode"),
        ('pods "x" is forbidden: failed quota: q: must specify limits.cpu for: main', "fail", "takes limits.cpu"),
        (
            'Error from server (Forbidden): error when creating "/x.json": pods "x" is forbidden: violates PodSecurity '
            '"restricted:latest": allowPrivilegeEscalation != false',
            "fail",
            "those of this version",
        ),
        ("Unable to connect to the server: dial tcp 10.0.0.1:443: i/o timeout", "warn", "reaches the cluster"),
        ('pods "x" is forbidden: error looking up service account specdecode/compile: not found', "warn", "after it"),
        ('pods is forbidden: User "me" cannot create resource "pods" in API group ""', "warn", "administrator"),
    ],
)
def test_what_a_cluster_refuses_is_said_with_who_must_do_what(words, verdict, fix):
    refused, others = pods.of_pods(world().ask(), QWEN, ask_kubectl=Api(compile=words))
    assert (refused.name, refused.verdict, others.verdict) == ("pod of compile", verdict, "ok")
    assert fix in refused.fix


def dns(selector: dict[str, str] | None = None, *local: str) -> str:
    args = ["-localip", ",".join(local)] if local else []
    service = {"spec": {"selector": {"k8s-app": "kube-dns"} if selector is None else selector}}
    caches = [{"spec": {"template": {"spec": {"containers": [{"args": args}]}}}}]

    def answer(arguments: Sequence[str]) -> str:
        return json.dumps(service if arguments[1] == "service" else {"items": caches})

    return pods.of_dns(answer).verdict


def test_the_cluster_s_dns_is_one_that_network_policies_open():
    assert dns() == "ok" == dns(None, "169.254.20.10")
    assert dns(None, "169.254.20.10", "172.20.0.10") == "warn"
    assert dns(None, "169.254.20.25") == "fail"
    assert dns({"app": "dns"}) == "warn" == pods.of_dns(lambda arguments: "").verdict
