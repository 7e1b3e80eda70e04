"""What `specdecode destroy` says before it asks: only what it deletes ends."""

from types import SimpleNamespace

import pytest
from specdecode.cli.destroy import consequences
from specdecode.names import STACK

from constructs_lib.settings.costs import capacity, resting_cost
from constructs_lib.settings.facts import document
from constructs_lib.settings.fields import Settings

RESERVATION = "cr-0123456789abcdef0"
RESERVED = {"capacity_reservation_id": RESERVATION, "capacity_zones": ("us-east-2c",)}
BLOCK = {"capacity_start": "2026-12-01T11:30:00+00:00", "capacity_end": "2026-12-02T13:30:00+02:00"}
GUEST = {
    "existing_cluster": "theirs",
    "cluster_endpoint": "https://0123456789ABCDEF.gr7.us-east-2.eks.amazonaws.com",
    "cluster_security_group": "sg-0123456789abcdef0",
    "cluster_oidc_issuer": "https://oidc.eks.us-east-2.amazonaws.com/id/0123456789ABCDEF",
}


@pytest.mark.parametrize(
    ("given", "stays"),
    [
        ({}, ""),
        (
            {**RESERVED, "nodes": 2},
            f"the On-Demand Capacity Reservation {RESERVATION}, 71.52 USD an hour, until `aws ec2 "
            f"cancel-capacity-reservation --region us-east-2 --capacity-reservation-id {RESERVATION}`",
        ),
        (
            {**RESERVED, **BLOCK},
            f"the Capacity Block {RESERVATION}, paid for in advance, until its end (2026-12-02 11:30 UTC)",
        ),
        (GUEST, "your nodes, 35.76 USD an hour for a trn2.48xlarge"),
        ({**GUEST, "existing_node_group": "trn2"}, ""),
    ],
)
def test_a_node_that_is_paid_for_without_the_deployment_stays(given, stays):
    settings = Settings(**given)
    outputs = {"Capacity": capacity(settings).model_dump_json(), "DeploymentFacts": document(settings)}
    stack = {
        "StackStatus": "CREATE_COMPLETE",
        "Outputs": [{"OutputKey": key, "OutputValue": value} for key, value in outputs.items()],
    }
    cloudformation = SimpleNamespace(get_template=lambda StackName: {"TemplateBody": {}})
    session = SimpleNamespace(region_name="us-east-2", client=lambda service: cloudformation)
    lines = list(consequences(session, {STACK: stack}))
    ends = [line for line in lines if "what ends: " in line]
    assert ends == [f"  what ends: {resting_cost(settings):.2f} USD an hour, what it costs at rest"]
    kept = [line for line in lines if "what stays: " in line and "log groups" not in line]
    assert kept == ([f"  what stays: {stays}"] if stays else [])
