"""docs/operations.md: every figure is the code's, and what is named is there."""

import re
from pathlib import Path

import pytest
from specdecode.experiment import prices
from specdecode.experiment.prices import HOURS_A_MONTH
from specdecode.experiment.standing import DESTROY_MINUTES
from specdecode.planning.offers import offers

from constructs_lib.settings.costs import resting_cost
from constructs_lib.settings.fields import Settings
from tests.printed import PROGRAMS
from tests.templates import Templates

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "operations.md").read_text()
COMMANDS = [
    line.strip()
    for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    for line in block.splitlines()
    if line.strip()
]


def test_every_command_is_of_a_kind_that_is_checked() -> None:
    """By tests/docs/test_printed.py."""
    assert len(COMMANDS) > 20 and {command.split()[0] for command in COMMANDS} <= set(PROGRAMS)


def test_figures_are_the_codes() -> None:
    settings = Settings()
    resting = resting_cost(settings)
    assert f"| nothing runs | {resting:.2f} an hour, {resting * HOURS_A_MONTH:.0f} a month |" in PAGE
    assert PAGE.count(f"| + {settings.node_price:.2f} an hour |") == 3
    assert prices.extended_support(settings.kubernetes_version) in PAGE
    assert prices.extended_support(settings.kubernetes_version) in (ROOT / "README.md").read_text()
    assert f"two {settings.system_instance_type}" in PAGE
    low, high = prices.STAGING_NODE_LOW.usd, prices.STAGING_MOST.usd
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
