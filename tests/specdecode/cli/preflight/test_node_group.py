"""The node group of a cluster of yours: what keeps it from being scaled for a run, each with what to do."""

from __future__ import annotations

from typing import Any

import pytest
from specdecode.cli.preflight import cluster
from specdecode.cli.preflight.check import Check
from specdecode.experiment.shapes import CPU

from tests.specdecode.cli.preflight.aws import error, verdicts
from tests.specdecode.cli.preflight.test_cluster import GIVEN, TRN2, Shell, world

THEIRS = GIVEN.model_copy(update={"node_group": "trainium"})
TAINT = {"key": "aws.amazon.com/neuron", "value": "true", "effect": "NO_SCHEDULE"}


def group(*, size: tuple[int, int, int] = (0, 1, 0), **changes: Any) -> dict[str, Any]:
    known = {
        "nodegroupName": "trainium",
        "status": "ACTIVE",
        "capacityType": "ON_DEMAND",
        "scalingConfig": dict(zip(("minSize", "maxSize", "desiredSize"), size, strict=True)),
        "instanceTypes": ["trn2.48xlarge"],
        "labels": {"specdecode/accelerator": "trn2", "team": "ml"},
        "taints": [TAINT],
        "health": {"issues": []},
    }
    return {"nodegroup": known | changes}


def of_group(answer: Any, *, deployed: bool = False) -> list[Check]:
    ask = world(DescribeNodegroup=answer).ask(cluster="theirs", existing=THEIRS, vpc="vpc-1", deployed=deployed)
    return [check for check in cluster.of_eks(ask) if check.name == "node group"]


def test_a_group_that_will_do():
    (check,) = of_group(group())
    assert check.verdict == "ok"
    assert [c.verdict for c in of_group(group(size=(0, 1, 1)), deployed=True)] == ["ok"], "a run holds it"
    assert [c.verdict for c in of_group(group(instanceTypes=[]))] == ["ok"], "its launch template has the type"


@pytest.mark.parametrize(
    ("answer", "verdict", "words"),
    [
        (error("ResourceNotFoundException"), "fail", "list-nodegroups --cluster-name theirs"),
        (group(status="DEGRADED"), "fail", "health"),
        (group(size=(1, 1, 1)), "fail", "minSize=0,maxSize=1,desiredSize=0"),
        (group(size=(0, 3, 0)), "fail", "minSize=0,maxSize=1"),
        (group(size=(0, 1, 1)), "warn", "desiredSize=0"),
        (group(capacityType="SPOT"), "fail", "ON_DEMAND"),
        (group(instanceTypes=["m7i.large"]), "fail", "trn2.48xlarge"),
        (group(labels={}), "fail", "addOrUpdateLabels={specdecode/accelerator=trn2}"),
        (group(taints=[]), "fail", "addOrUpdateTaints"),
        (group(taints=[TAINT | {"effect": "PREFER_NO_SCHEDULE"}]), "fail", "addOrUpdateTaints"),
        (group(taints=[TAINT, TAINT | {"key": "team"}]), "fail", "aws.amazon.com/neuron alone"),
        (group(health={"issues": [{"code": "AsgInstanceLaunchFailures", "message": "x"}]}), "warn", "keep the node"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_group(answer, verdict, words):
    (check,) = of_group(answer)
    assert (check.verdict, words in check.fix) == (verdict, True), check


def test_a_label_is_asked_of_the_group_and_for_a_check_of_the_account_of_a_node():
    ask = world().ask(cluster="theirs", existing=THEIRS)
    assert "node" not in verdicts(cluster.inside(ask, TRN2, ask_kubectl=Shell()))
    assert verdicts(cluster.inside(ask, CPU, ask_kubectl=Shell()))["node"] == "warn"
