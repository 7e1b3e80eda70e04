"""Quotas: of vCPUs for the nodes beside what others run, of the network, and of functions."""

import pytest
from specdecode.cli.preflight import capacity
from specdecode.cli.preflight.check import looked
from specdecode.experiment.deployment_facts import ExistingCluster
from specdecode.experiment.shapes import CPU, SHAPES, TRN2_SMALL

from tests.specdecode.cli.preflight.aws import FACTS, TRN2, Aws, error, instance, network, vcpus, verdicts


@pytest.mark.parametrize(
    ("aws", "trn", "standard"),
    [
        (vcpus(), "ok", "ok"),
        (vcpus(trn=128.0), "fail", "ok"),
        (vcpus(standard=5.0), "ok", "fail"),
        (vcpus(instance(TRN2)), "fail", "ok"),
        (vcpus(instance(TRN2, tags=[("eks:eks-cluster-name", "specdecode")])), "ok", "ok"),
        (vcpus(instance(TRN2, InstanceLifecycle="capacity-block")), "ok", "ok"),
        (vcpus(instance("m5.8xlarge", cores=16), standard=40.0), "ok", "fail"),
        (vcpus(instance("p5.48xlarge"), instance("dl1.24xlarge"), instance("inf2.xlarge")), "ok", "ok"),
    ],
    ids=["free", "trn quota", "standard quota", "another trn2", "our own trn2", "a block", "others", "other kinds"],
)
def test_vcpus_under_the_quotas_beside_what_others_run(aws, trn, standard):
    found = verdicts(capacity.vcpus(aws.ask(), SHAPES[TRN2]))
    assert found == {f"vCPUs for {TRN2}": trn, "vCPUs for system and staging": standard}


TRN, ACCOUNT = f"vCPUs for {TRN2}", "vCPUs for system and staging and m7i.4xlarge"


@pytest.mark.parametrize(
    ("given", "shape", "asked", "name", "verdict"),
    [
        ({"trn": 384.0}, SHAPES[TRN2], {"nodes": 2}, f"vCPUs for 2 x {TRN2}", "ok"),
        ({"trn": 383.0}, SHAPES[TRN2], {"nodes": 2}, f"vCPUs for 2 x {TRN2}", "fail"),
        ({"trn": 12.0}, TRN2_SMALL, {}, "vCPUs for trn2.3xlarge", "ok"),
        ({"trn": 12.0}, SHAPES[TRN2], {}, TRN, "fail"),
        ({"trn": 0.0}, SHAPES[TRN2], {"reservation": "cr-1"}, TRN, None),
        ({"trn": 0.0, "standard": 28.0}, CPU, {}, ACCOUNT, "ok"),
        ({"trn": 0.0, "standard": 27.0}, CPU, {}, ACCOUNT, "fail"),
        ({"trn": 0.0}, CPU, {}, TRN, None),
    ],
    ids=["two", "one too few", "small", "large", "reserved", "2 x 4 + 4 + 16", "less", "no trn"],
)
def test_the_quota_is_for_all_nodes_that_runs_may_hold_at_once(given, shape, asked, name, verdict):
    assert verdicts(capacity.vcpus(vcpus(**given).ask(**asked), shape)).get(name) == verdict


def test_what_all_nodes_cost_together_is_said():
    (check,) = capacity.shape(FACTS.model_copy(update={"nodes": 2, "node_price": 35.76}), SHAPES[TRN2])
    assert (check.verdict, "2 x trn2.48xlarge" in check.detail, "71.52 USD" in check.detail) == ("ok", True, True)


def test_in_a_cluster_of_yours_the_quota_is_for_the_nodes_that_runs_hold_beside_its_own():
    existing = ExistingCluster(endpoint="https://e", security_group="sg-1", issuer="https://i", node_role="r")
    asked = {"existing": existing, "cluster": "theirs"}
    assert verdicts(capacity.vcpus(vcpus(trn=192.0).ask(**asked), SHAPES[TRN2])) == {f"vCPUs for {TRN2}": "ok"}
    assert verdicts(capacity.vcpus(vcpus(standard=15.0).ask(**asked), CPU)) == {"vCPUs for m7i.4xlarge": "fail"}
    tags = [{"Key": "eks:eks-cluster-name", "Value": "theirs"}]
    cpus = {"CoreCount": 96, "ThreadsPerCore": 2}
    node = {"InstanceType": TRN2, "CpuOptions": cpus, "Tags": tags}
    ours = node | {"Tags": [*tags, {"Key": "karpenter.sh/nodepool", "Value": "specdecode-trn2"}]}
    used = capacity.vcpus_in_use([node, ours], cluster="theirs", foreign=True)
    assert used["trn"] == 192, "their node counts, ours does not"


@pytest.mark.parametrize(
    ("compiles", "standard", "verdict"), [(2, 200.0, "ok"), (2, 199.0, "fail"), (9, 392.0, "ok"), (9, 391.0, "fail")]
)
def test_nodes_that_compile_need_their_quota_four_at_most(compiles, standard, verdict):
    """Two system nodes of 4 vCPUs; 96 each once staging's 4 are free again."""
    found = verdicts(capacity.vcpus(vcpus(standard=standard).ask(), SHAPES[TRN2], compiles=compiles))
    assert found["vCPUs for system and staging and compiling"] == verdict


def test_a_quota_without_a_value_of_the_account_has_the_default():
    aws = Aws(GetServiceQuota=error("NoSuchResourceException"), GetAWSDefaultServiceQuota={"Quota": {"Value": 5.0}})
    assert capacity.limit(aws.client, capacity.VPCS) == 5
    (check,) = looked("q", lambda: [capacity.limit(Aws(GetServiceQuota=error("Throttled")).client, capacity.VPCS)])
    assert check.verdict == "fail"


@pytest.mark.parametrize(
    ("given", "failing"),
    [({}, []), ({"vpcs": 5}, ["VPCs"]), ({"addresses": 5}, ["Elastic IPs"]), ({"gateways": 5}, ["NAT gateways"])],
)
def test_quotas_of_the_network(given, failing):
    found = {check.name: check for check in capacity.network_quotas(network(**given).ask())}
    assert [name for name, check in found.items() if check.verdict == "fail"] == failing
    assert all("Service Quotas" in found[name].fix for name in failing)


def test_a_regional_nat_gateway_is_in_no_subnet_and_counts_in_no_zone():
    aws = network(gateways=1)
    aws.answers["DescribeNatGateways"]["NatGateways"].append({"NatGatewayId": "nat-1", "AvailabilityMode": "regional"})
    found = {check.name: check for check in capacity.network_quotas(aws.ask())}
    assert "1 in use by others" in found["NAT gateways"].detail


@pytest.mark.parametrize(("unreserved", "verdict"), [(1000, "ok"), (10, "warn"), (9, "fail")])
def test_concurrent_functions(unreserved, verdict):
    limits = {"ConcurrentExecutions": 1000, "UnreservedConcurrentExecutions": unreserved}
    (check,) = capacity.functions(Aws(GetAccountSettings={"AccountLimit": limits}).ask())
    assert (check.verdict, "L-B99A9384" in check.fix) == (verdict, verdict != "ok")
