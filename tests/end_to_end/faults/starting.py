"""The start check: what cannot start is found before anything is compiled, and what starts says what that cost."""

import json
import re
from typing import Any

import pytest
from specdecode import s3_keys

from rehearsal.execution import Run
from tests.end_to_end.cloud import SMALL, Cloud, looks
from tests.end_to_end.compile import seconds_in
from tests.end_to_end.faults.cases import fails, succeeds

pytestmark = pytest.mark.one_node("one node is enough to look at it")
CHECKED = SMALL | {"deadlines.start_check": 1}
SEEN_S = 30
"""Most seconds from a deadline until a look has seen it."""


def never_served(cloud: Cloud) -> None:
    """The bucket has neither marks nor artifacts, as before its first run."""
    s3, bucket = cloud.running.services.client("s3"), cloud.running.bucket
    for prefix in (s3_keys.ENGINES, "compiled/"):
        for item in s3.list_objects_v2(Bucket=bucket, Prefix=prefix).get("Contents", []):
            s3.delete_object(Bucket=bucket, Key=item["Key"])


def stored(cloud: Cloud, prefix: str) -> int:
    s3 = cloud.running.services.client("s3")
    return int(s3.list_objects_v2(Bucket=cloud.running.bucket, Prefix=prefix)["KeyCount"])


def cost_of_check(cloud: Cloud, run: Run) -> str:
    """As the report has it."""
    return str(json.loads(cloud.stored(s3_keys.run_key(run.run_id, "report.json")))["context"]["start_check"])


@pytest.mark.parametrize(
    ("fault", "switches", "row", "says", "minutes"),
    [
        (
            "the image lacks a flag that the arm is started with",
            {"engine": "no-flag"},
            "argument-unknown",
            "--per-req",
            1,
        ),
        ("the image cannot do the arm's method", {"engine": "no-method"}, "method-missing", "eagle", 1),
        ("the node has one Neuron device less", {"devices_missing": 1}, "devices-missing", "offers 15", 1),
        ("the engine hangs before it serves", {"engine": "hangs"}, "never-healthy", "not healthy after 2.4 minutes", 3),
    ],
    ids=["flag", "method", "device", "hangs"],
)
def test_what_cannot_start(cloud, fault: str, switches: dict[str, Any], row: str, says: str, minutes: int):
    """A server has 80 % of the check's `minutes` to be healthy; its pod starts in the rest, also on a busy machine."""
    never_served(cloud)
    cloud.control("faults", **switches)
    run = cloud.start("cannot-start", SMALL | {"deadlines.start_check": minutes})
    fails(cloud, run, fault=fault, where="StartCheck", error="StartCheckFailed", row=row)
    assert says in cloud.diagnosis(run)["cause"], cloud.diagnosis(run)["cause"]
    assert looks(run, "Compile") == stored(cloud, "compiled/") == 0, "something was compiled"
    assert 0 < seconds_in(run.deployment.events(run.arn), "StartCheck") < minutes * 60 + SEEN_S
    assert stored(cloud, s3_keys.ENGINES) == 0


def test_what_starts_says_what_it_cost_and_is_not_checked_again(cloud):
    never_served(cloud)
    run = cloud.start("starts", CHECKED)
    succeeds(cloud, run, fault="none: an engine's first run", where="-")
    assert re.fullmatch(r"0\.\d min of the node, \$0\.\d\d", cost_of_check(cloud, run))
    again = cloud.start("again", CHECKED)
    succeeds(cloud, again, fault="none: its second run", where="-")
    assert (looks(again, "StartCheck"), cost_of_check(cloud, again)) == (1, "")
