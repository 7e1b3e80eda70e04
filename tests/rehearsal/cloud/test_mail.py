"""Friday's deployment, Monday's mail: nobody opened the link within 48 hours. It is told in one sentence, and mended by
one command. The commands are the real ones, as a user types them.
"""

import json

import pytest

from constructs_lib.settings.facts import document
from constructs_lib.settings.reading import read_settings
from tests.rehearsal.cloud.conftest import LATER, MAILS
from tests.rehearsal.cloud.test_patches import SLOW
from tests.rehearsal.cloud.test_readme import typed

ADDRESS = "you@example.com"
COMMAND = ".venv/bin/specdecode"


@pytest.fixture
def deployed(cloud):
    settings = {"alert_email": ADDRESS, "region": "us-east-2"}
    guard = {"ServiceToken": cloud.function("keeps", SLOW), "Settings": settings}
    resources = {
        "Topic": {"Type": "AWS::SNS::Topic"},
        "Mail": {
            "Type": "AWS::SNS::Subscription",
            "Properties": {"TopicArn": {"Ref": "Topic"}, "Protocol": "email", "Endpoint": ADDRESS},
        },
        "Guard": {"Type": "Custom::SpecDecodeSettingsGuard", "Properties": guard},
    }
    outputs = {"AlertsTopicArn": {"Ref": "Topic"}, "Capacity": "{}", "StateMachineArn": "none", "BucketName": "none"}
    made = cloud.deploy("SpecDecodeStack", resources, DeploymentFacts=document(read_settings(settings)), **outputs)
    yield made["AlertsTopicArn"]
    (cloud.folder / LATER).unlink(missing_ok=True)
    cloud.delete("SpecDecodeStack")


def test_fridays_deployment_mondays_mail(deployed, cloud):
    sns = cloud.client("sns")

    def listed():
        found = sns.list_subscriptions_by_topic(TopicArn=deployed)["Subscriptions"]
        return [item["SubscriptionArn"] for item in found]

    def alerts():
        ended = typed([COMMAND, "preflight", "qwen3-32b", "--json"], cloud)
        (check,) = [check for check in json.loads(ended.stdout) if check["name"] == "alerts"]
        return check["verdict"], f"{check['detail']}; {check['fix']}"

    def mails():
        lines = (cloud.folder / MAILS).read_text().splitlines()
        return [mail for mail in map(json.loads, lines) if mail["topic"] == deployed]

    assert listed() == ["PendingConfirmation"] and len(mails()) == 1
    assert alerts()[0] == "fail" and "is not confirmed: nobody is told yet; open the link" in alerts()[1]

    (cloud.folder / LATER).write_text("47")
    assert listed() == ["PendingConfirmation"]
    (cloud.folder / LATER).write_text("65")
    assert listed() == [], "SNS has deleted it"
    assert alerts() == (
        "fail",
        "nobody is told: the link that AWS mailed was not opened within 48 hours, so SNS deleted the subscription (or "
        f"somebody ended it); `{COMMAND} subscribe`, then open the link in the new mail",
    )

    said = typed([COMMAND, "subscribe"], cloud)
    assert said.returncode == 0 and f"AWS mails {ADDRESS} a link" in said.stdout, said.stderr
    assert listed() == ["PendingConfirmation"] and len(mails()) == 2
    sns.confirm_subscription(TopicArn=deployed, Token=mails()[-1]["token"])
    (cloud.folder / LATER).write_text("900")
    assert alerts()[0] == "ok"
    again = typed([COMMAND, "subscribe"], cloud)
    assert again.stdout == f"{ADDRESS} is confirmed and gets the alerts\n" and len(mails()) == 2


def test_a_mail_that_was_lost_is_mailed_again(cloud):
    sns = cloud.client("sns")
    topic = sns.create_topic(Name="lost")["TopicArn"]
    for _ in range(2):
        sns.subscribe(TopicArn=topic, Protocol="email", Endpoint=ADDRESS)
    assert len(sns.list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"]) == 1
    mails = [json.loads(line) for line in (cloud.folder / MAILS).read_text().splitlines()]
    assert len({mail["token"] for mail in mails if mail["topic"] == topic}) == 2
    sns.delete_topic(TopicArn=topic)
