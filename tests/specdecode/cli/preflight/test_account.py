"""The account: whose it is, who is told, what EKS offers, what a refused look comes to, and what was left."""

import json
import re
from datetime import date
from pathlib import Path

import pytest
from botocore.exceptions import EndpointConnectionError
from specdecode.cli.preflight import account, capacity, cluster, network, pulled
from specdecode.cli.preflight.account import leftovers
from specdecode.cli.preflight.check import tried
from specdecode.experiment.deployment_facts import ExistingCluster
from specdecode.experiment.shapes import SHAPES

from tests.specdecode.cli.preflight.aws import ACCOUNT, FACTS, IDENTITY, TRN2, Aws, error, hours, verdicts

GIVEN = ExistingCluster(endpoint="https://e", security_group="sg-1", issuer="https://i")
ROOT = Path(__file__).resolve().parents[4]


@pytest.mark.parametrize(
    "look",
    [
        lambda ask: account.credentials(ask.client, []),
        lambda ask: capacity.vcpus(ask, SHAPES[TRN2]),
        capacity.network_quotas,
        capacity.functions,
        lambda ask: capacity.zones(ask, SHAPES[TRN2]),
        lambda ask: capacity.reservation(ask, None),
        account.addons,
        account.amis,
        lambda ask: account.alerts(ask, "arn:aws:sns:us-east-2:1:topic"),
        lambda ask: [pulled.token(ask)],
        cluster.of_eks,
        lambda ask: network.own(ask, SHAPES[TRN2]),
    ],
)
def test_what_may_not_be_looked_at_is_a_warning_and_nothing_else_is(look):
    aws = Aws()
    aws.denied = True
    ask = aws.ask(reservation="cr-0123456789abcdef0", existing=GIVEN, vpc="vpc-0123456789abcdef0")
    (check,) = tried("it", lambda: look(ask))
    assert (check.verdict, "you may not look" in check.detail) == ("warn", True)
    assert aws.asked[-1][0] in check.fix


@pytest.mark.parametrize("code", ["ExpiredToken", "RequestExpired", "InvalidClientTokenId", "AuthFailure"])
def test_expired_credentials_are_a_failure(code):
    aws = Aws(GetCallerIdentity=error(code, "it is over"))
    (check,) = tried("credentials", lambda: account.credentials(aws.client, []))
    assert (check.verdict, "aws sso login" in check.fix) == ("fail", True)


@pytest.mark.parametrize("raised", [error("InternalError"), EndpointConnectionError(endpoint_url="https://sts")])
def test_what_cannot_be_looked_at_is_a_failure(raised):
    (check,) = tried("credentials", lambda: account.credentials(Aws(GetCallerIdentity=raised).client, []))
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
    assert "configure region=us-east-2`" in found["region"].fix


def test_an_answer_that_nobody_foresaw_is_a_failure_of_its_check_only():
    (check,) = tried("quota", lambda: [{}["SubnetId"]])
    assert (check.verdict, check.detail) == ("fail", "could not look at quota: KeyError: 'SubnetId'")


def addon(*versions):
    found = [
        {"addonVersion": version, "compatibilities": [{"defaultVersion": "default" in version}]} for version in versions
    ]
    return Aws(DescribeAddonVersions={"addons": [{"addonName": "vpc-cni", "addonVersions": found}]})


def test_a_build_that_eks_has_withdrawn_names_the_one_to_take():
    (there,) = account.addons(addon("v1.22.4-eksbuild.3").ask())
    (gone,) = account.addons(addon("v1.23.0-eksbuild.1", "v1.22.9-default").ask())
    (none,) = account.addons(Aws(DescribeAddonVersions={"addons": []}).ask())
    assert (there.verdict, gone.verdict, none.verdict) == ("ok", "fail", "fail")
    assert '"vpc-cni": "v1.22.9-default" in constructs_lib/settings/versions.py' in gone.fix


def test_an_ami_that_the_region_has_not():
    def parameters(given):
        (neuron, standard) = given["Names"]
        assert "1.35/amazon-linux-2023/x86_64/neuron/amazon-eks-node-al2023-x86_64-neuron-1.35-v20260224" in neuron
        return {"Parameters": [{"Name": standard, "Value": "ami-1"}], "InvalidParameters": [neuron]}

    found = verdicts(account.amis(Aws(GetParameters=parameters).ask()))
    assert found == {"AMI of the trn2 node": "fail", "AMI of staging": "ok"}


def test_the_file_that_names_the_staging_nodes_ami_is_the_one_that_has_it():
    (_, staging) = account.amis(Aws(GetParameters={"Parameters": []}).ask())
    (file,) = re.findall(r"STAGING_AMI in (\S+\.py)", staging.fix)
    assert "\nSTAGING_AMI = " in (ROOT / file).read_text()


def subscriptions(*arns, address="you@example.com"):
    items = [{"SubscriptionArn": arn, "Protocol": "email", "Endpoint": "you@example.com"} for arn in arns]
    guard = {"Type": "Custom::SpecDecodeSettingsGuard", "Properties": {"Settings": {"alert_email": address}}}
    template = json.dumps({"Resources": {"Guard": guard}})
    return Aws(ListSubscriptionsByTopic={"Subscriptions": items}, GetTemplate={"TemplateBody": template})


@pytest.mark.parametrize(
    ("arns", "verdict", "words"),
    [
        (["arn:aws:sns:us-east-2:1:t:s"], "ok", "1 confirmed"),
        (["PendingConfirmation"], "fail", "you@example.com is not confirmed"),
        (["Deleted"], "fail", "not opened within 48 hours"),
        ([], "fail", "not opened within 48 hours, so SNS deleted the subscription"),
        (["PendingConfirmation", "arn:aws:sns:us-east-2:1:t:s"], "ok", ""),
    ],
)
def test_somebody_must_be_told(arns, verdict, words):
    (check,) = account.alerts(subscriptions(*arns).ask(deployed=True, alert_email=True), "arn:aws:sns:us-east-2:1:t")
    assert (check.verdict, words in check.detail) == (verdict, True)


def test_a_former_address_that_is_still_confirmed_is_not_told():
    asked = subscriptions("arn:aws:sns:us-east-2:1:t:s", address="new@example.com").ask(deployed=True, alert_email=True)
    (check,) = account.alerts(asked, "arn:aws:sns:us-east-2:1:t")
    assert (check.verdict, "nobody is told" in check.detail) == ("fail", True)


def test_without_an_address_the_fix_is_to_give_one():
    (check,) = account.alerts(subscriptions().ask(deployed=True), "arn:aws:sns:us-east-2:1:t")
    assert "configure alert_email=" in check.fix


def test_that_nobody_is_told_can_be_accepted():
    (check,) = account.alerts(Aws().ask(accept_no_alerts=True), "arn:aws:sns:us-east-2:1:t")
    assert check.verdict == "ok"


@pytest.mark.parametrize(("given", "verdict"), [(True, "ok"), (False, "fail")])
def test_before_a_deployment_the_settings_must_name_somebody(given, verdict):
    (check,) = account.alerts(Aws().ask(alert_email=given), None)
    assert check.verdict == verdict


@pytest.mark.parametrize(
    ("version", "day", "says"),
    [
        ("1.34", date(2026, 11, 1), None),
        ("1.34", date(2026, 11, 23), "EKS bills 1.34 $0.50 an hour more from 2026-12-02 on ($365 a month)"),
        ("1.34", date(2027, 1, 1), "$0.50 an hour more"),
        ("1.35", date(2026, 12, 2), None),
    ],
)
def test_extended_support_is_told_before_it_is_billed(version, day, says):
    facts = FACTS.model_copy(update={"kubernetes": version, "supported": ("1.34", "1.35")})
    found = list(account.support(facts, day))
    assert [says in check.detail for check in found] == ([] if says is None else [True])
    assert all("configure kubernetes_version=1.35`" in check.fix for check in found)


NO_STACK = error("ValidationError", "Stack with id X does not exist")
NOTHING = {
    "DescribeStacks": NO_STACK,
    "DescribeCluster": error("ResourceNotFoundException"),
    "ListQueues": {},
    "DescribeInstances": {"Reservations": []},
    "DescribeNetworkInterfaces": {"NetworkInterfaces": []},
    "DescribeLaunchTemplates": {"LaunchTemplates": []},
    "DescribeLogGroups": {"logGroups": []},
    "GetResources": {"ResourceTagMappingList": []},
}


def found(**answers):
    return {check.name: check for check in leftovers(Aws(**NOTHING | answers).ask())}


def test_nothing_is_left():
    assert {name: check.verdict for name, check in found().items()} == {"leftovers": "ok"}


def only(name):
    """The stack of that name is there in a state, the other is not."""
    return lambda status: (
        lambda given: (
            {"Stacks": [{"StackName": name, "CreationTime": hours(0), "StackStatus": status}]}
            if given["StackName"] == name
            else NO_STACK
        )
    )


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("ROLLBACK_FAILED", "delete-stack --stack-name SpecDecodeStack --region us-east-2"),
        ("DELETE_FAILED", "delete-stack"),
        ("DELETE_IN_PROGRESS", "wait until it ends"),
        ("CREATE_COMPLETE", None),
        ("REVIEW_IN_PROGRESS", None),
    ],
)
def test_a_stack_that_cannot_be_deployed_again(status, words):
    checks = found(DescribeStacks=only("SpecDecodeStack")(status))
    if words is None:
        assert "stack SpecDecodeStack" not in checks
    else:
        assert (checks["stack SpecDecodeStack"].verdict, words in checks["stack SpecDecodeStack"].fix) == ("fail", True)


def test_a_stack_that_was_rolled_back_is_deleted_by_the_next_deployment():
    check = found(DescribeStacks=only("SpecDecodeStack")("ROLLBACK_COMPLETE"))["stack SpecDecodeStack"]
    assert (check.verdict, "the next cdk deploy deletes it" in check.fix) == ("warn", True)


def test_a_stack_that_was_rolled_back_owns_nothing():
    gone = only("TrainiumClusterStack")("ROLLBACK_COMPLETE")
    assert found(DescribeStacks=gone, DescribeCluster={"cluster": {}})["leftover cluster"].verdict == "fail"


QUEUE = {"QueueUrls": ["https://sqs/1/specdecode-other", "https://sqs/1/specdecode"]}
INSTANCE = {"Instances": [{"InstanceId": "i-1", "InstanceType": "trn2.48xlarge"}]}
INTERFACE = {"NetworkInterfaces": [{"NetworkInterfaceId": "eni-1"}]}
TEMPLATE = {"LaunchTemplates": [{"LaunchTemplateId": "lt-1"}]}
GROUP = {"logGroups": [{"logGroupName": "/aws/eks/specdecode/cluster"}]}
BUCKET = {"ResourceTagMappingList": [{"ResourceARN": "arn:aws:s3:::specdecodestack-artifacts"}]}


@pytest.mark.parametrize(
    ("answers", "name", "verdict", "words"),
    [
        ({"DescribeCluster": {"cluster": {}}}, "leftover cluster", "fail", "cluster_name"),
        ({"ListQueues": QUEUE}, "leftover queue", "fail", "cluster_name"),
        ({"DescribeInstances": {"Reservations": [INSTANCE]}}, "leftover instances", "fail", "terminate-instances"),
        ({"DescribeNetworkInterfaces": INTERFACE}, "leftover network interfaces", "warn", "eni-1"),
        ({"DescribeLaunchTemplates": TEMPLATE}, "leftover launch templates", "warn", "lt-1"),
        ({"DescribeLogGroups": GROUP}, "leftover log groups", "warn", "/aws/eks/specdecode/cluster"),
        ({"GetResources": BUCKET}, "leftover buckets", "warn", "s3://specdecodestack-artifacts"),
    ],
)
def test_each_kind_is_named_with_what_to_do(answers, name, verdict, words):
    check = found(**answers)[name]
    assert (check.verdict, words in check.fix) == (verdict, True)


def test_what_the_cluster_s_own_stack_has_is_no_leftover():
    """The first stack is there, the second was never deployed."""
    there = only("TrainiumClusterStack")("CREATE_COMPLETE")
    checks = found(DescribeStacks=there, DescribeCluster={"cluster": {}}, DescribeLogGroups=GROUP)
    assert {check.verdict for check in checks.values()} == {"ok"}


def test_what_may_not_be_seen_hides_nothing_else():
    checks = found(DescribeInstances={"Reservations": [INSTANCE]}, DescribeCluster=error("AccessDeniedException"))
    assert checks["leftover cluster"].verdict == "warn"
    assert checks["leftover instances"].verdict == "fail"
