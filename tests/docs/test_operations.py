"""docs/operations.md: every command exists, with every option that it is given; every figure is the code's."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import botocore.session
import pytest
import typer
from specdecode.cli import app
from specdecode.experiment import prices
from specdecode.experiment.prices import HOURS_A_MONTH
from specdecode.experiment.standing import DESTROY_MINUTES
from specdecode.planning.offers import offers

from constructs_lib.settings.costs import resting_cost
from constructs_lib.settings.fields import Settings
from constructs_lib.settings.reading import read_settings
from tests.conftest import STACKS
from tests.templates import Templates

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "operations.md").read_text()
COMMANDS = [
    line.strip()
    for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    for line in block.splitlines()
    if line.strip()
]
CDK_VERBS = {"bootstrap", "deploy", "destroy", "diff"}
KUBECTL_KINDS = {"nodepools", "nodeclaims", "pods", "resourceslices", "resourceclaimtemplates"}
KUBECTL_OPTIONS = {
    "get": {"--namespace", "--output"},
    "delete": {"--namespace", "--all", "--selector"},
    "scale": {"--replicas"},
}
S3_COMMANDS = {"cp": {"--recursive"}}
"""`aws s3` is no API: its own commands and options."""
CUSTOMIZED = {("eks", "update-kubeconfig"): {"--name", "--region"}}
"""Commands of the AWS CLI that are no API either."""


def operation(service: str, name: str) -> set[str]:
    """The options that the API behind `aws SERVICE NAME` takes."""
    model = botocore.session.get_session().get_service_model(service)
    wanted = name.replace("-", "").lower()
    (found,) = [item for item in model.operation_names if item.lower() == wanted]
    members = model.operation_model(found).input_shape.members
    return {"--" + botocore.xform_name(member, "-") for member in members}


def options(words: list[str]) -> set[str]:
    return {word for word in words if word.startswith("--")}


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.startswith("aws ")])
def test_aws_commands_exist(command: str) -> None:
    _, service, name, *rest = shlex.split(command)
    if service == "s3":
        assert options(rest) <= S3_COMMANDS[name]
        return
    known = CUSTOMIZED.get((service, name)) or operation(service, name) | {"--region", "--query"}
    assert options(rest) <= known, options(rest) - known


@pytest.mark.parametrize("command", [c for c in COMMANDS if "specdecode " in c and c.startswith(".venv")])
def test_specdecode_commands_parse(command: str) -> None:
    _, name, *rest = shlex.split(command)
    command_of = typer.main.get_command(app).commands
    command_of[name].make_context(name, list(rest))


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.startswith("npx cdk ")])
def test_cdk_commands_name_stacks_and_settings_that_exist(command: str) -> None:
    _, _, verb, *rest = shlex.split(command)
    assert verb in CDK_VERBS
    context = {}
    words = iter(rest)
    for word in words:
        if word == "-c":
            key, _, value = next(words).partition("=")
            context[key] = value
        elif word.startswith("--"):
            assert word == "--all"
        else:
            assert word in STACKS
    read_settings(context)


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.startswith("kubectl ")])
def test_kubectl_commands_are_of_kinds_that_exist(command: str) -> None:
    _, verb, kinds, *rest = shlex.split(command)
    assert verb in KUBECTL_OPTIONS
    assert set(kinds.split(",")) <= KUBECTL_KINDS
    assert {option.partition("=")[0] for option in options(rest)} <= KUBECTL_OPTIONS[verb]


def test_every_command_is_of_a_kind_that_is_checked() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for command in COMMANDS:
        if command.startswith("make "):
            assert re.search(rf"^{command.split()[1]}:", makefile, re.MULTILINE), command
        else:
            assert command.startswith(("aws ", ".venv/bin/specdecode ", "npx cdk ", "kubectl ")), command
    assert len(COMMANDS) > 20


def test_figures_are_the_codes() -> None:
    settings = Settings()
    resting = resting_cost(settings)
    assert f"| nothing runs | {resting:.2f} an hour, {resting * HOURS_A_MONTH:.0f} a month |" in PAGE
    assert PAGE.count(f"| + {settings.node_price:.2f} an hour |") == 3
    assert f"two {settings.system_instance_type}" in PAGE
    low, high = prices.STAGING_NODE_LOW.usd, prices.STAGING_NODE_HIGH.usd
    assert f"| + {low:.2f} to {high:.2f} an hour |" in PAGE
    assert f"| + {prices.NAT_TRAFFIC.usd:g} a GB, once |" in PAGE
    assert f"| + {prices.STORAGE.usd:g} a GB and month |" in PAGE
    assert f"takes {DESTROY_MINUTES[0]} to {DESTROY_MINUTES[1]} minutes" in PAGE
    bills = {offer.name: offer.bill for offer in offers()}
    small, large = bills["qwen3-32b"], bills["llama-3.1-405b"]
    assert f"${small.staging.low:.0f} for Qwen3-32B, ${large.staging.low:.0f} for Llama-3.1-405B" in PAGE
    assert f"${small.storage_per_month:.0f} a month for Qwen3-32B" in PAGE
    assert f"${large.storage_per_month:.0f} for Llama-3.1-405B" in PAGE
    assert f"`accept_cost_above_usd` (${settings.accept_cost_above_usd:.0f})" in PAGE


@pytest.mark.synth
def test_what_is_named_is_deployed(templates: Templates) -> None:
    for retained in re.findall(r"--retain-resources (\w+)", PAGE):
        assert retained in templates.stacks["TrainiumClusterStack"]["Resources"]
    outputs = templates.stacks["SpecDecodeStack"]["Outputs"]
    for name in [*re.findall(r"`(\w+)` of the outputs", PAGE), "HourlyCost"]:
        assert name in outputs, name


@pytest.mark.synth
def test_every_alarm_has_a_line_that_says_what_to_do(templates: Templates) -> None:
    resources = templates.stacks["SpecDecodeStack"]["Resources"]
    alarms = [logical for logical, item in resources.items() if item["Type"] == "AWS::CloudWatch::Alarm"]
    named = re.findall(r"the alarm `(\w+)`", PAGE)
    assert len({re.sub("(NodeWithoutLease).*", r"\\1", alarm) for alarm in alarms}) == len(named) >= 5
    for alarm in alarms:
        assert any(name in alarm for name in named), alarm


def test_settings_that_it_names_exist() -> None:
    named = set(re.findall(r"`([a-z]+(?:_[a-z]+)+)(?:=\w+)?`", PAGE))
    assert len(named) > 5
    for name in named - {"nrt_init"}:
        assert name in Settings.model_fields, name
