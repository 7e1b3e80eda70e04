"""Where nodes come from: zones, node type, a reservation and its window; quotas of vCPUs, network, functions."""

from datetime import timedelta

import pytest
from specdecode.cli.preflight import capacity
from specdecode.cli.preflight.check import tried
from specdecode.experiment.deployment_facts import ExistingCluster
from specdecode.experiment.kept import deploy_with
from specdecode.experiment.shapes import CPU, SHAPES, TRN2_SMALL
from specdecode.names import held_pools
from specdecode.runs.lease import Claim, Lease

from tests.specdecode.cli.preflight.aws import (
    FACTS,
    NOW,
    TRN2,
    Aws,
    error,
    hours,
    instance,
    network,
    reservation,
    vcpus,
    verdicts,
    zones,
)


@pytest.mark.parametrize(
    ("aws", "network", "node"),
    [
        (zones(), "ok", "ok"),
        (zones(offered=()), "ok", "fail"),
        (zones(offered=("use2-az3",)), "ok", "fail"),
        (zones(offered=("use2-az2",)), "ok", "warn"),
        (zones(ids=("use2-az1", "use2-az2", "use2-az4")), "fail", "ok"),
    ],
    ids=["all", "nowhere", "elsewhere", "in one", "no such zone"],
)
def test_zones_are_those_that_there_are_and_that_trn2_takes(aws, network, node):
    assert list(verdicts(capacity.zones(aws.ask(), SHAPES[TRN2])).values()) == [network, node]


@pytest.mark.parametrize(
    ("offered", "verdict", "fix"),
    [
        (("use2-az1", "use2-az2", "use2-az3"), "ok", ""),
        (("use2-az2",), "warn", "it starts in use2-az2"),
        (("use2-az4",), "fail", deploy_with({"availability_zones": "use2-az4"})),
    ],
)
def test_the_node_of_a_check_may_start_in_any_zone_of_the_network(offered, verdict, fix):
    aws = zones(offered=offered)
    (_, found) = capacity.zones(aws.ask(node_zones=()), CPU)
    assert (found.name, found.verdict, found.fix) == ("zones of m7i.4xlarge", verdict, fix)
    (asked,) = [given for method, given in aws.asked if method == "DescribeInstanceTypeOfferings"]
    assert asked["Filters"] == [{"Name": "instance-type", "Values": ["m7i.4xlarge"]}]


def test_a_deployment_of_another_node_type_is_a_failure_but_for_the_check_of_the_account():
    (check,) = capacity.shape(FACTS, TRN2_SMALL)
    assert check.verdict == "fail" and check.fix == deploy_with({"node_type": "trn2.3xlarge"})
    assert list(capacity.shape(FACTS, CPU)) == list(capacity.shape(FACTS, SHAPES[TRN2])) == []


@pytest.mark.parametrize(
    ("given", "verdict", "words"),
    [
        ({}, "ok", "1 of 1"),
        ({"State": "scheduled"}, "warn", "wait"),
        ({"State": "expired"}, "fail", "active reservation"),
        ({"State": "payment-failed"}, "fail", "active reservation"),
        ({"InstanceType": "p5.48xlarge"}, "fail", TRN2),
        ({"AvailabilityZoneId": "use2-az3"}, "fail", "configure capacity_zones=use2-az3`"),
        ({"AvailableInstanceCount": 0}, "fail", "end what uses it"),
    ],
)
def test_a_reservation(given, verdict, words):
    (check,) = capacity.reservation(reservation(**given).ask(reservation="cr-1"), None)
    assert (check.verdict, words in check.detail + check.fix) == (verdict, True)


@pytest.mark.parametrize(
    ("total", "free", "held", "verdict", "words"),
    [
        (4, 4, 0, "ok", "4 of 4"),
        (4, 4, 0, "ok", "runs use 2 of them at most"),
        (2, 2, 0, "ok", "2 of 2"),
        (1, 1, 0, "fail", deploy_with({"nodes": "1"})),
        (2, 0, 2, "warn", "a new run waits"),
        (2, 0, 1, "fail", "end what uses it"),
    ],
)
def test_a_reservation_of_several_nodes(total, free, held, verdict, words):
    given = {"TotalInstanceCount": total, "AvailableInstanceCount": free}
    claims = [Claim(run_id=f"r-{n}", execution_arn="a", pool=p, queued_at=NOW) for n, p in enumerate(held_pools(held))]
    lease = Lease(holders=tuple(claims[:held]))
    (check,) = capacity.reservation(reservation(**given).ask(reservation="cr-1", nodes=2), lease)
    assert (check.verdict, words in check.detail + check.fix) == (verdict, True)


@pytest.mark.parametrize(
    "answer",
    [
        {"CapacityReservations": []},
        error("InvalidCapacityReservationId.NotFound"),
        error("InvalidCapacityReservationId.Malformed"),
    ],
)
def test_a_reservation_that_does_not_exist(answer):
    (check,) = capacity.reservation(Aws(DescribeCapacityReservations=answer).ask(reservation="cr-1"), None)
    assert (check.verdict, "there is no cr-1" in check.detail) == ("fail", True)


@pytest.mark.parametrize(
    ("start", "end", "told", "verdict"),
    [(-1, 5, 5, "ok"), (1, 5, 5, "fail"), (-5, 0.5, 0.5, "fail"), (-1, 5, None, "fail"), (-1, 5, 9, "fail")],
    ids=["in it", "before it", "when it drains", "not in the settings", "another one in the settings"],
)
def test_the_window_of_a_capacity_block_is_ec2_s(start, end, told, verdict):
    aws = reservation(ReservationType="capacity-block", StartDate=hours(start), EndDate=hours(end))
    known = {"block_start": hours(start), "block_end": None if told is None else hours(told)}
    found = verdicts(capacity.reservation(aws.ask(reservation="cr-1", **known), None))
    assert found == {"reservation": "ok", "window": verdict}


def test_a_held_node_is_named_with_who_waits():
    at = NOW - timedelta(minutes=90)
    claim = Claim(run_id="r-1", execution_arn="arn", queued_at=at, held_since=at)
    lease = Lease(holders=(claim,), queue=(claim.model_copy(update={"run_id": "r-2"}),))
    found = capacity.queue(lease, SHAPES[FACTS.node], FACTS, NOW)
    words = "r-1 has held the node for 1:30:00, 1 more wait: a new run stands behind"
    assert (found.verdict, found.detail) == ("warn", words)
    assert (capacity.endpoints(lease).verdict, capacity.endpoints(Lease()).verdict) == ("warn", "ok")


def test_a_run_waits_only_when_all_nodes_of_its_kind_are_held():
    facts = FACTS.model_copy(update={"nodes": 2})
    first = Claim(run_id="r-1", execution_arn="arn", queued_at=NOW, held_since=NOW)
    one = Lease(holders=(first,))
    found = capacity.queue(one, SHAPES[FACTS.node], facts, NOW)
    assert (found.verdict, found.detail) == ("ok", "1 of 2 are free")
    two = Lease(holders=(first, first.model_copy(update={"run_id": "r-2", "pool": "trn2-2"})))
    found = capacity.queue(two, SHAPES[FACTS.node], facts, NOW)
    words = "r-1 has held the node for 0:00, and 1 other runs hold the rest: a new run stands behind"
    assert (found.verdict, found.detail) == ("warn", words)
    assert capacity.queue(two, CPU, facts, NOW).verdict == "ok", "a check of the account has a node of its own"


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
    (check,) = tried("q", lambda: [capacity.limit(Aws(GetServiceQuota=error("Throttled")).client, capacity.VPCS)])
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
