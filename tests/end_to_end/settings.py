"""Every documented later deployment, one after the other, with the real CDK CLI on the embedded cloud.

None of them loses the alerts, the reservation, the schedule or the region of the first. A line that would is refused,
and the line that the refusal prints works.

Not part of `make test` (about four minutes). Run it with

    .venv/bin/pytest tests/end_to_end/settings.py
"""

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from specdecode import names
from specdecode.experiment import kept

from rehearsal import tools
from rehearsal.rehearse import Rehearsal
from tests.docs.markdown import PAGES, ROOT, blocks
from tests.end_to_end.cloud import quiet_rehearsal
from tests.patience import LONG_S

START = datetime.now(UTC) + timedelta(days=9)
FIRST = {
    "alert_email": "you@example.com",
    "capacity_reservation_id": "cr-00000000000000001",
    "capacity_start": START.isoformat(timespec="seconds"),
    "capacity_end": (START + timedelta(days=2)).isoformat(timespec="seconds"),
    "capacity_zones": "use2-az3",
    "schedule": "block",
    "schedule_experiment": "qwen3-32b-native",
}
SOURCES = ("app.py", "cdk.json", "assets", "constructs_lib", "lambda", "stacks", "requirements", "requirements.txt")
LINKS = (".venv", "node_modules", "build")


@dataclass
class Checkout:
    """A copy of the checkout, as a user has one, beside an embedded account."""

    folder: Path
    account: Rehearsal

    def types(self, line: str) -> subprocess.CompletedProcess[str]:
        """Run a line of the pages, as a shell would."""
        words = shlex.split(line)
        if words[0] == "specdecode":
            words[0] = ".venv/bin/specdecode"
        if words[:2] == ["npx", "cdk"]:
            words[:2] = ["node_modules/.bin/cdk"]
            words += ["--require-approval", "never", "--no-notices", "--no-color", "--progress", "events"]
        aws = tools.aws_environment(self.account.services.endpoint)
        here = {"PYTHONPATH": f"{self.folder}/lambda:{self.folder}", "CDK_VALIDATION": "false"}
        environ = tools.environment({**aws, **here, "CDK_DISABLE_CLI_TELEMETRY": "true", "NODE_NO_WARNINGS": "1"})
        return subprocess.run(
            words, cwd=self.folder, env=environ, capture_output=True, text=True, timeout=LONG_S, check=False
        )

    def does(self, line: str) -> str:
        ended = self.types(line)
        assert ended.returncode == 0, f"{line}\n{ended.stdout[-3000:]}\n{ended.stderr[-3000:]}"
        return ended.stdout

    def refuses(self, line: str) -> str:
        ended = self.types(line)
        assert ended.returncode, line
        return " ".join((ended.stdout + ended.stderr).split())

    def deployed(self) -> dict[str, str]:
        return kept.of_stack(self.account.services.client("cloudformation")) or {}

    def templates(self) -> list[str]:
        path = f"/apis/resource.k8s.io/v1/namespaces/{names.NAMESPACE}/resourceclaimtemplates"
        return [item["metadata"]["name"] for item in self.account.kubernetes.request("GET", path)["items"]]

    def alive(self) -> None:
        """The subscription, the reservation in the node class, and the start of the schedule are there."""
        services = self.account.services
        topic = self.account.deployment.outputs()["AlertsTopicArn"]
        told = services.client("sns").list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"]
        assert [item["Endpoint"] for item in told] == [FIRST["alert_email"]]
        template = services.client("cloudformation").get_template(StackName="TrainiumClusterStack")["TemplateBody"]
        assert FIRST["capacity_reservation_id"] in json.dumps(template)
        template = services.client("cloudformation").get_template(StackName="SpecDecodeStack")["TemplateBody"]
        assert "AWS::Scheduler::Schedule" in {item["Type"] for item in template["Resources"].values()}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    folder = tmp_path_factory.mktemp("checkout")
    for name in SOURCES:
        source = ROOT / name
        copy = shutil.copytree if source.is_dir() else shutil.copy
        ignored = {"ignore": shutil.ignore_patterns("__pycache__"), "symlinks": True} if source.is_dir() else {}
        copy(source, folder / name, **ignored)
    for name in LINKS:
        (folder / name).symlink_to(ROOT / name)
    with quiet_rehearsal() as account:
        account.prepare()
        yield Checkout(folder, account)


OTHERS = ("existing_node_group", "region=ap-southeast-4", "alert_email=", "engine_generation=", "schedule= ")
"""Lines for a cluster of yours, or for another region; the first deployment's own; a generation for which the
scheduled experiment is refused at synth; and the end of a schedule."""
DATES = {f"2026-12-0{day}T11:30:00+00:00": FIRST[key] for day, key in ((1, "capacity_start"), (2, "capacity_end"))}
"""Those of the pages, which pass."""


def later() -> list[str]:
    """The lines with settings of every page, each once."""
    found: list[str] = []
    for page in PAGES:
        for block in blocks(page):
            for line in map(str.strip, block.text.splitlines()):
                is_one = re.match(r"(\.venv/bin/)?specdecode configure ", line) and not any(
                    each in line for each in OTHERS
                )
                words = line.removeprefix(".venv/bin/")
                for shown, real in DATES.items():
                    words = words.replace(shown, real)
                if is_one and words not in found:
                    found.append(words)
    return found


def test_the_pages_have_later_deployments_and_none_with_c() -> None:
    assert len(later()) >= 5
    for page in PAGES:
        for block in blocks(page):
            assert not re.search(r"cdk deploy.* -c ", block.text), f"{block.id}: it would be forgotten"


def test_the_first_deployment_may_be_a_bare_line(checkout: Checkout) -> None:
    given = " ".join(f"-c {shlex.quote(f'{key}={value}')}" for key, value in FIRST.items())
    checkout.does(f"{kept.DEPLOY} {given}")
    assert checkout.deployed().items() >= FIRST.items()
    checkout.alive()


@pytest.mark.parametrize(
    ("line", "lost"),
    [
        (kept.DEPLOY, FIRST),
        (f"{kept.DEPLOY} -c alert_email=you@example.com -c nodes=2", set(FIRST) - {"alert_email"}),
        (f"{kept.DEPLOY} -c admin_role_arns=arn:aws:iam::111122223333:role/Admin", FIRST),
    ],
)
def test_a_line_that_would_drop_a_setting_is_refused_with_both_values(
    line: str, lost: set[str], checkout: Checkout
) -> None:
    before = checkout.deployed()
    said = checkout.refuses(line)
    assert "would drop or change settings that the deployed one has" in said, said[-3000:]
    for key in lost:
        assert f"{key}: {FIRST[key]} -> none" in said
    assert checkout.deployed() == before
    checkout.alive()


def test_the_line_that_the_refusal_prints_works(checkout: Checkout) -> None:
    said = checkout.refuses(f"{kept.DEPLOY} -c nodes=2")
    found = re.search(r"To keep them: `([^`]+)`, then `([^`]+)`", said)
    assert found, said[-3000:]
    for line in found.groups():
        checkout.does(line)
    assert checkout.deployed().items() >= {**FIRST, "nodes": "2"}.items()
    checkout.alive()


@pytest.mark.parametrize("line", later())
def test_a_documented_line_keeps_what_was_there(line: str, checkout: Checkout) -> None:
    """What a line names it changes on purpose: a schedule of another kind, or another block. All else stays."""
    before = checkout.deployed()
    checkout.does(line)
    named = {word.partition("=")[0] for word in shlex.split(line)[2:]}
    checkout.does(kept.DEPLOY)
    after = checkout.deployed()
    assert {key: value for key, value in before.items() if key not in named}.items() <= after.items()
    assert {key: value for key, value in after.items() if key not in named}.items() <= before.items()


def test_a_setting_of_the_claims_makes_new_templates_since_nobody_can_edit_one(checkout: Checkout) -> None:
    assert {name.partition("lnc2")[2] for name in checkout.templates()} == {""}
    checkout.does("specdecode configure driver_guard=true claim_constraint=topology")
    checkout.does(kept.DEPLOY)
    after = checkout.templates()
    assert len(after) == 4 and all(re.search(r"lnc2-driver-\d\.\d+-topology$", name) for name in after), after
    assert json.loads(checkout.account.deployment.outputs()["Capacity"])["claims"] == after[0].partition("lnc2")[2]


def test_another_region_is_refused_at_once(checkout: Checkout) -> None:
    assert "the deployment stands in us-east-2" in checkout.refuses("specdecode configure region=ap-southeast-4")
    said = checkout.refuses("npx cdk synth --quiet -c region=us-west-2")
    assert "region: us-west-2 is given (-c, cdk.json or ~/.cdk.json), and deployment.json keeps us-east-2" in said
    (checkout.folder / kept.FILE).unlink()
    said = checkout.refuses("npx cdk synth --quiet -c region=us-west-2 -c trn2_zones=usw2-az1 -c price_per_node_hour=1")
    assert "the deployment would go to us-west-2, and the environment says us-east-2" in said


def test_another_checkout_takes_over_what_is_deployed(checkout: Checkout) -> None:
    assert not (checkout.folder / kept.FILE).exists()
    before = checkout.deployed()
    said = checkout.does("specdecode configure")
    assert "the next deployment changes" not in said
    assert kept.read(checkout.folder) == kept.KeptSettings(settings=before)


@pytest.mark.parametrize(
    "line",
    [
        "npx cdk synth --quiet",
        "specdecode configure longest_run_hours=60",
        "specdecode preflight qwen3-32b-native",
        "specdecode run qwen3-32b-native --accept-cost 9000",
    ],
)
def test_a_setting_that_cdk_json_contradicts_is_refused_by_every_command_alike(line: str, checkout: Checkout) -> None:
    file, before = checkout.folder / "cdk.json", (checkout.folder / "cdk.json").read_text()
    document = json.loads(before)
    document["context"]["alert_email"] = "other@example.com"
    file.write_text(json.dumps(document))
    try:
        said = checkout.refuses(line)
    finally:
        file.write_text(before)
    assert (
        "alert_email: other@example.com is given (-c, cdk.json or ~/.cdk.json), and deployment.json keeps "
        "you@example.com; leave it out, or change what is kept: `.venv/bin/specdecode configure "
        "alert_email=other@example.com`"
    ) in said, said[-3000:]
    assert checkout.deployed()["alert_email"] == kept.read(checkout.folder).settings["alert_email"] == "you@example.com"
