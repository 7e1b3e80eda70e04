"""What the orchestration costs of the node's time, where nothing goes wrong; writes its part of the page."""

import json

import pytest

from rehearsal import tools
from tests.end_to_end.faults.cases import succeeds
from tests.end_to_end.overhead import shares, table
from tests.end_to_end.overhead.observer import Observer
from tests.end_to_end.page import write_part

LONGER_WAITS = 0.25
OVERHEAD = tools.ROOT / "benchmarks" / "results" / "overhead.json"


@pytest.mark.one_node("it measures the time of the orchestration")
def test_nothing_goes_wrong(cloud):
    """From nothing, with staging and compiles. What the orchestration took of the node's time is written too.

    Waits are longer than in the other cases: a look of half a second must be short beside them, as it is on AWS.
    """
    cloud.forget("models/")
    cloud.forget("compiled/")
    seen = Observer(kubernetes=cloud.running.kubernetes)
    seen.watch()
    with cloud.waits(LONGER_WAITS):
        run = cloud.start("fine")
        succeeds(cloud, run, fault="none", where="-", remark=", waits a quarter")
    state, plan = run.deployment.state(run.run_id), run.deployment.plan(run.run_id)
    history, spans = run.deployment.events(run.arn, newest=1000), seen.spans()
    found = table.document(
        shares.shares(history, wait_scale=LONGER_WAITS, node=seen.node(state.node), spans=spans),
        spans,
        wait_scale=LONGER_WAITS,
        events=len(history),
        worst=plan.worst_case_events,
    )
    assert sum(share["work_s"] for share in found["shares"]) > 0
    assert found["events"]["run"] < found["events"]["worst_case"] < 20_000
    OVERHEAD.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    write_part("overhead", table.lines(found))
