"""At a rate that is given no figure depends on how many requests are sent, nor on whether the server keeps up."""

import pytest
from specdecode.analysis import compare
from specdecode.analysis.report import render_terminal
from specdecode.analysis.report.tiles import tiles
from specdecode.experiment.workload import Slo
from specdecode.measures.metrics.formulas import goodput, output_throughput, request_throughput
from specdecode.measures.metrics.metric import Block, NoValue

from tests.specdecode.analysis.simulate import context, experiment
from tests.specdecode.analysis.simulate import run as run_plain
from tests.specdecode.analysis.simulate_load import Server, loads, run

SERVERS = {"base": Server(), "sd": Server(base_s=0.030, k=5, acceptance=0.7)}


@pytest.mark.parametrize(("rate", "requests"), [(1.0, 8), (1.0, 64), (500.0, 64)])
def test_an_open_loop_has_no_cost_and_says_once_why(rate: float, requests: int) -> None:
    """With 8 requests the last answers are half of the time; at 500 a second all of them queue."""
    tested = loads((rate,), open_loop=True, requests=requests, slo=Slo(tpot_s=10.0))
    found = compare(experiment=tested, records=run(tested, SERVERS, seed=2, queues=True), context=context())
    (pair,) = found.pairs
    assert found.costs(pair) is None and all(arm.cost_per_million is None for arm in found.arms)
    assert "cost" not in str([tile.label for tile in tiles(found, pair)]) and "million" not in (
        found.recommendation or ""
    )
    assert sum("no cost of its tokens" in note for note in found.notes) == 1
    assert "At a given rate" in render_terminal(found)
    for arm in found.arms:
        assert not {"output_throughput", "request_throughput"} & arm.totals.keys()
        assert arm.no_value["output_throughput"] == "what is sent at a rate does not depend on the server"
    assert [at.goodput for each in found.objective for at in each.loads] == pytest.approx([rate, rate])


def test_conversations_arrive_so_that_the_rate_is_that_of_their_requests() -> None:
    """As `ArmLoad.arrivals` sends them."""
    records = [record.model_copy(update={"turn": record.index % 2}) for record in run_plain(experiment(), noise=0.0)]
    own = [record for record in records if (record.variant, record.case) == ("base", "repeat")]
    block = Block(records=own, slo=Slo(tpot_s=10.0), rate=0.5)
    assert len(own) == 8 and block.sending_s == 16.0 and goodput.value(block) == 0.5
    for metric in (output_throughput, request_throughput):
        with pytest.raises(NoValue, match="at a rate"):
            metric.value(block)
