"""What Karpenter's controllers do that the pipeline relies on, read in their source."""

import re

from specdecode.kubernetes.pools import NOT_PART_OF_READY

from rehearsal.kubernetes.karpenter import pools
from tests.upstream.conftest import Upstream


def test_a_static_pool_that_is_not_ready_is_silent(upstream: Upstream) -> None:
    """Static provisioning returns at once, with no event and no error, while the NodePool is not Ready."""
    source = upstream.text("karpenter-core", "pkg/controllers/static/provisioning/controller.go")
    body = source.partition(") Reconcile(")[2].partition("\nfunc ")[0]
    first = re.search(r"\n\tif (.*?) \{\n(.*?)\n\t\}", body, re.DOTALL)
    assert first
    assert "!np.StatusConditions().Root().IsTrue()" in first[1]
    assert first[2].strip() == "return reconcile.Result{}, nil"
    assert "Publish(" not in source, "it tells of something now: read what, and use it"


def parts_of_ready(source: str) -> set[str]:
    """The conditions of which a kind's `Ready` is made."""
    names = dict(re.findall(r'^\t(ConditionType\w+)\s+= "(\w+)"$', source, re.MULTILINE))
    body = source.partition(") StatusConditions(")[2].partition("\n}\n")[0]
    return {names[name] for name in re.findall(r"\b(ConditionType\w+)[,)]", body)}


def test_the_conditions_of_ready(upstream: Upstream) -> None:
    """The conditions that make up Ready of an EC2NodeClass and a NodePool are those of the double and of the wait."""
    node_class = upstream.text("karpenter", "pkg/apis/v1/ec2nodeclass_status.go")
    assert parts_of_ready(node_class) == set(pools._CLASS_PARTS)
    node_pool = upstream.text("karpenter-core", "pkg/apis/v1/nodepool_status.go")
    assert parts_of_ready(node_pool) == {"ValidationSucceeded", "NodeClassReady"}
    for name in NOT_PART_OF_READY - {"Ready"}:
        assert f'= "{name}"' in node_pool


def test_what_a_node_class_without_ami_says(upstream: Upstream) -> None:
    """The reason and the message of AMIsReady=False, by which a run that waits for a node says why it ends."""
    source = upstream.text("karpenter", "pkg/controllers/nodeclass/ami.go")
    _, reason, message = pools._NO_AMI
    assert f'SetFalse(v1.ConditionTypeAMIsReady, "{reason}", "{message}")' in source
