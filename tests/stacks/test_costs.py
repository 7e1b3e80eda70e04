"""What the costs are computed from is what the templates create."""

import json
from datetime import date
from pathlib import Path

import pytest
from specdecode.experiment import Capacity, kept, prices
from specdecode.experiment.capacity import OF_SETTINGS, kept_capacity
from specdecode.experiment.standing import ALARMS, DASHBOARDS, SYSTEM_NODES, SYSTEM_VOLUME_GIB

from constructs_lib.settings.costs import capacity, hourly_cost, resting_cost
from constructs_lib.settings.fields import Settings
from constructs_lib.settings.reading import texts
from tests.templates import Templates

BLOCK = {
    "capacity_reservation_id": "cr-0123456789abcdef0",
    "capacity_zones": ("us-east-2c",),
    "capacity_start": "2026-12-01T11:30:00+00:00",
    "capacity_end": "2026-12-02T11:30:00+00:00",
}
OTHER_TERMS = BLOCK | {
    "node_type": "trn2.3xlarge",
    "nodes": "2",
    "region": "ap-southeast-4",
    "price_per_node_hour": "2.57",
    "node_storage": "ebs",
    "efa_interfaces": "true",
    "accept_cost_above_usd": "7",
    "longest_run_hours": "9",
}
ODCR = {key: BLOCK[key] for key in ("capacity_reservation_id", "capacity_zones")}


@pytest.mark.synth
def test_what_is_billed_at_rest_is_what_is_created(templates: Templates) -> None:
    def count(kind: str) -> int:
        return len(list(templates.resources(kind)))

    assert count("AWS::EC2::NatGateway") == count("AWS::EC2::EIP") == 1
    assert count("AWS::KMS::Key") == 1
    assert count("AWS::EC2::VPCEndpoint") == 1, "the gateway endpoint, which is free"
    assert count("AWS::CloudWatch::Dashboard") == DASHBOARDS
    assert count("AWS::CloudWatch::Alarm") <= ALARMS
    ((_, _, group),) = templates.resources("AWS::EKS::Nodegroup")
    assert group["Properties"]["ScalingConfig"]["DesiredSize"] == SYSTEM_NODES
    assert group["Properties"]["InstanceTypes"] == [Settings().system_instance_type]
    ((_, _, template),) = templates.resources("AWS::EC2::LaunchTemplate")
    (disk,) = template["Properties"]["LaunchTemplateData"]["BlockDeviceMappings"]
    assert disk["Ebs"]["VolumeSize"] == SYSTEM_VOLUME_GIB


@pytest.mark.synth
def test_the_stack_says_what_it_costs_and_tells_the_command_line(templates: Templates) -> None:
    outputs = templates.stacks["SpecDecodeStack"]["Outputs"]
    assert outputs["HourlyCost"]["Value"] == hourly_cost(Settings())
    known = Capacity.model_validate_json(outputs["Capacity"]["Value"])
    assert known == capacity(Settings())
    assert known.resting_price_per_hour == pytest.approx(resting_cost(Settings()), abs=1e-4)
    assert json.loads(outputs["Capacity"]["Value"])["accept_cost_above"] == Settings().accept_cost_above_usd


@pytest.mark.parametrize(
    ("given", "kind", "says"),
    [
        ({}, "on-demand", "0.62 USD at rest, 36.38 USD with a trn2.48xlarge on demand"),
        (ODCR, "odcr", "36.38 USD, whether a run goes on or not: 0.62 at rest and 35.76 for the On-Demand Capacity "
         "Reservation cr-0123456789abcdef0"),
        (BLOCK, "capacity-block", "0.62 USD at rest; the Capacity Block is paid for in advance, 35.76 an hour"),
    ],
)  # fmt: skip
def test_the_output_says_on_what_terms_the_node_comes(given: dict[str, str], kind: str, says: str) -> None:
    settings = Settings(**given)
    assert capacity(settings).type == kind
    later = "; EKS bills 1.35 $0.50 an hour more from 2027-03-27 on"
    assert hourly_cost(settings, today=date(2027, 3, 26)) == says + later


def test_settings_and_specdecode_agree_on_the_node_s_price() -> None:
    assert Settings().node_price == Capacity().of("trn2.48xlarge").price_per_node_hour == prices.TRN2_48XLARGE.usd
    yours = Settings(price_per_node_hour=30.5)
    assert yours.node_price == capacity(yours).of("trn2.48xlarge").price_per_node_hour == 30.5
    assert "31.12 USD with a trn2.48xlarge" in hourly_cost(yours, today=date(2026, 12, 1))


def test_a_plan_before_the_deployment_has_its_terms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "checkout", lambda: tmp_path)
    for given in ({"nodes": "2"}, OTHER_TERMS):
        settings = Settings(**given)
        kept.write(tmp_path, kept.KeptSettings(settings=texts(settings)))
        deployed, planned = capacity(settings), kept_capacity()
        for field in OF_SETTINGS:
            assert getattr(planned, field) == getattr(deployed, field), field
            assert given == {"nodes": "2"} or getattr(planned, field) != getattr(Capacity(), field), field


def test_what_a_version_in_extended_support_costs_is_not_said_to_come() -> None:
    assert hourly_cost(Settings(), today=date(2027, 3, 27)).startswith("1.12 USD at rest, 36.88 USD with")
    assert "EKS" not in hourly_cost(Settings(), today=date(2027, 3, 27))
