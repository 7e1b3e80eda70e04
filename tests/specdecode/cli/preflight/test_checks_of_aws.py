"""Each check: what is there, what is missing, and what these credentials may not look at."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from botocore.exceptions import EndpointConnectionError
from specdecode.cli.preflight import account, alerts, builds, capacity, models, quotas
from specdecode.cli.preflight.check import looked
from specdecode.experiment.shapes import CPU, SHAPES, TRN2_SMALL
from specdecode.names import held_pools
from specdecode.runs.lease import Claim, Lease

from tests.specdecode.cli.preflight.aws import (
    ACCOUNT,
    FACTS,
    IDENTITY,
    NOW,
    TRN2,
    Aws,
    error,
    hours,
    reservation,
    verdicts,
    zones,
)

ROOT = Path(__file__).resolve().parents[4]


@pytest.mark.parametrize(
    "look",
    [
        lambda ask: account.credentials(ask.client, []),
        lambda ask: quotas.vcpus(ask, SHAPES[TRN2]),
        quotas.network,
        quotas.functions,
        lambda ask: capacity.zones(ask, SHAPES[TRN2]),
        lambda ask: capacity.reservation(ask, None),
        builds.addons,
        builds.amis,
        lambda ask: alerts.alerts(ask, "arn:aws:sns:us-east-2:1:topic"),
        models.token,
    ],
)
def test_what_may_not_be_looked_at_is_a_warning_and_nothing_else_is(look):
    aws = Aws()
    aws.denied = True
    ask = aws.ask(reservation="cr-0123456789abcdef0")
    (check,) = looked("it", lambda: look(ask))
    assert (check.verdict, "you may not look" in check.detail) == ("warn", True)
    assert aws.asked[-1][0] in check.fix


@pytest.mark.parametrize("code", ["ExpiredToken", "RequestExpired", "InvalidClientTokenId", "AuthFailure"])
def test_expired_credentials_are_a_failure(code):
    aws = Aws(GetCallerIdentity=error(code, "it is over"))
    (check,) = looked("credentials", lambda: account.credentials(aws.client, []))
    assert (check.verdict, "aws sso login" in check.fix) == ("fail", True)


@pytest.mark.parametrize("raised", [error("InternalError"), EndpointConnectionError(endpoint_url="https://sts")])
def test_what_cannot_be_looked_at_is_a_failure(raised):
    (check,) = looked("credentials", lambda: account.credentials(Aws(GetCallerIdentity=raised).client, []))
    assert check.verdict == "fail"


def test_credentials_of_the_account_and_the_region():
    accounts = []
    assert verdicts(account.credentials(Aws(GetCallerIdentity=IDENTITY).client, accounts)) == {"credentials": "ok"}
    assert accounts == [ACCOUNT]
    facts = FACTS.model_copy(update={"account": ACCOUNT})
    assert verdicts(account.place(facts, account=ACCOUNT, region="us-east-2")) == {"region": "ok"}
    assert verdicts(account.place(facts, account=None, region="us-east-2")) == {"region": "ok"}
    found = {check.name: check for check in account.place(facts, account="4" * 12, region="us-west-2")}
    assert found["account"].verdict == found["region"].verdict == "fail"
    assert "export AWS_REGION=us-east-2" in found["region"].fix


def test_an_answer_that_nobody_foresaw_is_a_failure_of_its_check_only():
    (check,) = looked("quota", lambda: [{}["SubnetId"]])
    assert (check.verdict, check.detail) == ("fail", "could not look at quota: KeyError: 'SubnetId'")


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


def test_the_node_of_a_check_may_start_in_any_zone_of_the_network():
    aws = zones(offered=("use2-az1", "use2-az2", "use2-az3"))
    found = list(capacity.zones(aws.ask(node_zones=()), CPU))
    assert [(check.verdict, check.name) for check in found][1] == ("ok", "zones of m7i.4xlarge")
    (asked,) = [given for method, given in aws.asked if method == "DescribeInstanceTypeOfferings"]
    assert asked["Filters"] == [{"Name": "instance-type", "Values": ["m7i.4xlarge"]}]


@pytest.mark.parametrize(
    ("offered", "verdict", "fix"),
    [
        (("use2-az2",), "warn", "it starts in use2-az2"),
        (("use2-az4",), "fail", "deploy with -c availability_zones=use2-az4"),
    ],
)
def test_what_to_do_where_the_node_of_a_check_is_not_in_every_zone(offered, verdict, fix):
    found = list(capacity.zones(zones(offered=offered).ask(), CPU))
    assert (found[1].verdict, found[1].fix) == (verdict, fix)


def test_a_deployment_of_another_node_type_is_a_failure_but_for_the_check_of_the_account():
    (check,) = capacity.shape(FACTS, TRN2_SMALL)
    assert check.verdict == "fail" and check.fix == "deploy with -c node_type=trn2.3xlarge"
    assert list(capacity.shape(FACTS, CPU)) == list(capacity.shape(FACTS, SHAPES[TRN2])) == []


@pytest.mark.parametrize(
    ("given", "verdict", "words"),
    [
        ({}, "ok", "1 of 1"),
        ({"State": "scheduled"}, "warn", "wait"),
        ({"State": "expired"}, "fail", "active reservation"),
        ({"State": "payment-failed"}, "fail", "active reservation"),
        ({"InstanceType": "p5.48xlarge"}, "fail", TRN2),
        ({"AvailabilityZoneId": "use2-az3"}, "fail", "-c capacity_zones=use2-az3"),
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
        (1, 1, 0, "fail", "deploy with -c nodes=1"),
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


def addon(*versions):
    found = [
        {"addonVersion": version, "compatibilities": [{"defaultVersion": "default" in version}]} for version in versions
    ]
    return Aws(DescribeAddonVersions={"addons": [{"addonName": "vpc-cni", "addonVersions": found}]})


def test_a_build_that_eks_has_withdrawn_names_the_one_to_take():
    (there,) = builds.addons(addon("v1.22.4-eksbuild.3").ask())
    (gone,) = builds.addons(addon("v1.23.0-eksbuild.1", "v1.22.9-default").ask())
    (none,) = builds.addons(Aws(DescribeAddonVersions={"addons": []}).ask())
    assert (there.verdict, gone.verdict, none.verdict) == ("ok", "fail", "fail")
    assert '"vpc-cni": "v1.22.9-default" in constructs_lib/settings/versions.py' in gone.fix


def test_an_ami_that_the_region_has_not():
    def parameters(given):
        (neuron, standard) = given["Names"]
        assert "1.35/amazon-linux-2023/x86_64/neuron/amazon-eks-node-al2023-x86_64-neuron-1.35-v20260224" in neuron
        return {"Parameters": [{"Name": standard, "Value": "ami-1"}], "InvalidParameters": [neuron]}

    found = verdicts(builds.amis(Aws(GetParameters=parameters).ask()))
    assert found == {"AMI of the trn2 node": "fail", "AMI of staging": "ok"}


def test_the_file_that_names_the_staging_nodes_ami_is_the_one_that_has_it():
    (_, staging) = builds.amis(Aws(GetParameters={"Parameters": []}).ask())
    (file,) = re.findall(r"STAGING_AMI in (\S+\.py)", staging.fix)
    assert "\nSTAGING_AMI = " in (ROOT / file).read_text()


def subscriptions(*arns):
    items = [{"SubscriptionArn": arn, "Protocol": "email", "Endpoint": "you@example.com"} for arn in arns]
    return Aws(ListSubscriptionsByTopic={"Subscriptions": items})


@pytest.mark.parametrize(
    ("arns", "verdict", "words"),
    [
        (["arn:aws:sns:us-east-2:1:t:s"], "ok", "1 confirmed"),
        (["PendingConfirmation"], "fail", "you@example.com is not confirmed"),
        (["Deleted"], "fail", "not confirmed"),
        ([], "fail", "nobody is told"),
        (["PendingConfirmation", "arn:aws:sns:us-east-2:1:t:s"], "ok", ""),
    ],
)
def test_somebody_must_be_told(arns, verdict, words):
    (check,) = alerts.alerts(subscriptions(*arns).ask(deployed=True), "arn:aws:sns:us-east-2:1:t")
    assert (check.verdict, words in check.detail) == (verdict, True)


def test_that_nobody_is_told_can_be_accepted():
    (check,) = alerts.alerts(Aws().ask(accept_no_alerts=True), "arn:aws:sns:us-east-2:1:t")
    assert check.verdict == "ok"


@pytest.mark.parametrize(("given", "verdict"), [(True, "ok"), (False, "fail")])
def test_before_a_deployment_the_settings_must_name_somebody(given, verdict):
    (check,) = alerts.alerts(Aws().ask(alert_email=given), None)
    assert check.verdict == verdict


@pytest.mark.parametrize(
    ("answer", "verdict", "words"),
    [
        ({"Name": "specdecode/huggingface-token"}, "ok", ""),
        (error("ResourceNotFoundException"), "fail", "create-secret"),
        ({"Name": "specdecode/huggingface-token", "DeletedDate": hours(-1)}, "fail", "restore-secret"),
    ],
)
def test_the_secret_of_gated_models(answer, verdict, words):
    (check,) = models.token(Aws(DescribeSecret=answer).ask())
    assert (check.verdict, words in check.fix) == (verdict, True)
    assert ("its value is tried at staging" in check.detail) is (verdict == "ok")
