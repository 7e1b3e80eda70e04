"""How a fault case ends: the right final status, a readable cause, nothing left, and a row for the page."""

from rehearsal.execution import Run
from tests.end_to_end.cloud import Cloud


def fails(cloud: Cloud, run: Run, *, fault: str, where: str, error: str, row: str) -> None:
    end = cloud.ended(run)
    assert (end.status, end.error) == ("FAILED", error), end.cause
    found = cloud.diagnosis(run)
    assert found["row"] == row, found
    cloud.at_rest()
    cloud.note(fault, where, run, cause=found["cause"])


def succeeds(cloud: Cloud, run: Run, *, fault: str, where: str, remark: str = "") -> None:
    end = cloud.ended(run)
    assert end.status == "SUCCEEDED", f"{end.error}: {end.cause}"
    cloud.at_rest()
    cloud.note(fault, where, run, cause="-", remark=remark)
