"""Too few requests for an answer are said before they cost, by the rules of the analysis."""

from typing import Any

import pytest
from specdecode.experiment import load_preset
from specdecode.experiment.files import load_engine, preset_names
from specdecode.experiment.model import Experiment, ServedExperiment
from specdecode.planning.warnings import check_bursts, check_requests

from tests.plans import plan_for


def doubts(experiment: Experiment) -> list[str]:
    assert isinstance(experiment, ServedExperiment)
    return [*check_requests(experiment), *check_bursts(experiment, load_engine(experiment.engine))]


def said(**overrides: Any) -> list[str]:
    given = {"workload.cases": ["repeat-line", "meaning-of-life"], "workload.requests": 12, **overrides}
    given = {key.replace("__", "."): value for key, value in given.items()}
    experiment = load_preset("rehearsal", overrides=given)
    found = doubts(experiment)
    assert set(found) <= set(plan_for(experiment).warnings), "the plan says the same"
    return found


def test_no_preset_is_warned() -> None:
    for name in preset_names():
        assert not doubts(load_preset(name)), name
    assert said(workload__requests=1) == [
        "one request of repeat-line, meaning-of-life: no speed-up can be judged from one prompt, send two or more"
    ]
    assert said(workload__requests=2) == []


def test_a_rate_whose_requests_are_sent_at_once_is_named_with_what_it_needs() -> None:
    """An answer of 48 tokens takes up to 48 x 4 ms, and the prompt its own time: twice that must be sent."""
    slow = {"workload__output_tokens": 48, "workload__input_tokens": 100}
    (line,) = said(workload__rate=[1, 64], **slow)
    assert line.startswith("workload.rate 64: an answer may take 0.")
    needed = int(line.split("raise workload.requests to ")[1].split(" at 64 requests a second")[0])
    assert 2 * 64 * 48 * 0.004 < needed < 2 * 64 * (48 * 0.004 + 0.2)
    assert said(workload__rate=[1, 64], **slow, **{"workload__requests": needed}) == []
    assert len(said(workload__rate=[1, 64], **slow, **{"workload__requests": needed - 1})) == 1
    assert said(workload__concurrency=[1, 8], **slow) == [], "a closed loop keeps its load by itself"


@pytest.mark.parametrize(
    ("share", "requests", "told"), [(0.95, 10, 0), (0.95, 9, 1), (0.9, 5, 0), (0.9, 4, 1), (1, 4, 0)]
)
def test_an_objective_that_one_late_request_decides_is_named(share: float, requests: int, told: int) -> None:
    """Of two prompt types in one round: twice the requests. Who asks for all of them knows."""
    found = said(
        workload__requests=requests,
        workload__concurrency=[1, 2],
        workload__rounds=1,
        workload__slo={"tpot_s": 0.02, "share": share},
    )
    assert len(found) == told
    if found:
        assert (
            f"workload.slo.share {share:g} with {2 * requests} requests of an arm at 1 at a time, 2 at a time"
            in found[0]
        )
        assert f"send {20 if share == 0.95 else 10} or more" in found[0]
