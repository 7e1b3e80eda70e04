"""The run of a schedule: priced at synth, refused where it may cost more than is accepted or would pile up."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from specdecode.experiment import load_preset
from specdecode.names import is_run_id
from specdecode.planning import Bill, make_bill
from specdecode.steps.plan import experiment_of, parse_request

from constructs_lib.settings.costs import capacity
from constructs_lib.settings.fields import Settings
from constructs_lib.settings.reading import SettingsError, read_settings
from stacks.scheduling import scheduled_run
from tests.constructs_lib.test_settings import CLUSTER
from tests.plans import plan_for

NOW = datetime(2026, 11, 22, tzinfo=UTC)
NIGHTLY, WEEKLY = "cron(0 1 * * ? *)", "cron(0 1 ? * SAT *)"
BLOCK = {
    "schedule": "block",
    "capacity_reservation_id": "cr-0123456789abcdef0",
    "capacity_start": "2026-12-01T11:30:00+00:00",
    "capacity_end": "2026-12-02T11:30:00+00:00",
}


def settings(**given: Any) -> Settings:
    named = {"schedule_experiment": "gpt-oss-120b-eagle3"} if "schedule" in given else {}
    return read_settings(named | given, now=NOW)


def refused(**given: Any) -> str:
    with pytest.raises(SettingsError) as error:
        scheduled_run(settings(**given), now=NOW)
    return str(error.value)


def test_nothing_starts_by_itself_unless_it_is_asked_for_and_named() -> None:
    assert scheduled_run(settings(), now=NOW) is None
    with pytest.raises(SettingsError, match="schedule: say what it runs with schedule_experiment"):
        read_settings({"schedule": NIGHTLY}, now=NOW)


def bill_of(preset: str, own: Settings) -> Bill:
    terms = capacity(own)
    return make_bill(plan_for(load_preset(preset), capacity=terms), terms)


def test_a_run_whose_bound_nobody_accepted_is_refused_with_the_bound() -> None:
    weekly = {
        "schedule": "cron(0 1 ? * SAT *)",
        "schedule_experiment": "llama-3.1-405b",
        "budget_usd": "20000",
        "engine_generation": "sdk-2.26",
    }
    most = bill_of("llama-3.1-405b", settings()).most
    message = refused(**weekly)
    assert "schedule_accept_cost_usd" in message and f"${most:,.0f}" in message and "$500 is accepted" in message
    assert "schedule_accept_cost_usd" in refused(**weekly, schedule_accept_cost_usd=str(most - 1))
    run = scheduled_run(settings(**weekly, schedule_accept_cost_usd="3000"), now=NOW)
    assert run is not None and run.request["accept_cost"] == math.ceil(most)


def test_less_than_a_run_may_cost_anyway_can_be_accepted_too() -> None:
    assert "$100 is accepted" in refused(schedule=WEEKLY, schedule_accept_cost_usd="100")


def test_a_month_beyond_the_budget_is_refused_with_the_month() -> None:
    most = bill_of("gpt-oss-120b-eagle3", settings()).most
    message = refused(schedule=NIGHTLY)
    assert (
        f"31 runs a month of gpt-oss-120b-eagle3 could cost ${31 * most:,.0f}" in message
        and "budget is $5,000" in message
    )
    assert scheduled_run(settings(schedule=NIGHTLY, budget_usd=str(math.ceil(31 * most))), now=NOW) is not None


def test_what_a_run_and_a_month_cost_at_most_is_said() -> None:
    run, most = scheduled_run(settings(schedule=WEEKLY), now=NOW), bill_of("gpt-oss-120b-eagle3", settings()).most
    assert run is not None and run.when == WEEKLY and run.request["accept_cost"] == math.ceil(most)
    assert f"${most:,.0f} at most; 5 runs a month at most, ${5 * most:,.0f}" in run.bound


def test_the_pipeline_takes_the_input() -> None:
    own = settings(schedule=WEEKLY)
    run = scheduled_run(own, now=NOW)
    assert run is not None
    given = {**run.request, "scheduled_time": "2026-11-28T00:00:00Z"}  # as the schedule adds it
    assert experiment_of(parse_request(given), capacity=capacity(own)).name == "gpt-oss-120b-eagle3"


def test_a_file_travels_whole(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("extends: account-check\nname: mine\ntitle: Mine\n")
    own = settings(schedule=NIGHTLY, schedule_experiment=str(file))
    run = scheduled_run(own, now=NOW)
    assert run is not None and run.experiment == "mine"
    assert experiment_of(parse_request(run.request), capacity=capacity(own)).title == "Mine"


def test_an_experiment_that_cannot_run_is_refused_with_its_reasons() -> None:
    assert "schedule_experiment: " in refused(schedule=NIGHTLY, schedule_experiment="qwen3-32c")
    message = refused(schedule=NIGHTLY, schedule_experiment="llama-3.1-8b-eagle3-small")
    assert "schedule_experiment: 1 problem" in message or "schedule_experiment: " in message


def test_runs_that_would_pile_up_are_refused() -> None:
    message = refused(schedule="cron(0 0/2 * * ? *)")
    assert "it starts a run 2 h after another" in message and "queue up" in message


def test_a_block_starts_one_run_as_it_begins_and_costs_nothing_more_for_the_node() -> None:
    run = scheduled_run(settings(**BLOCK), now=NOW)
    assert run is not None and run.when == datetime(2026, 12, 1, 11, 30, tzinfo=UTC)
    assert "to the node, which is paid for" in run.bound
    assert run.request["accept_cost"] == math.ceil(bill_of("gpt-oss-120b-eagle3", settings(**BLOCK)).added)


def test_a_block_that_is_too_short_for_its_run_is_refused_and_one_that_may_be_is_told() -> None:
    short = {**BLOCK, "capacity_end": "2026-12-01T12:30:00+00:00"}
    assert "it will not finish" in refused(**short)
    run = scheduled_run(settings(**{**BLOCK, "capacity_end": "2026-12-01T15:30:00+00:00"}), now=NOW)
    assert run is not None and "it may not finish" in run.bound
    enough = scheduled_run(settings(**BLOCK), now=NOW)
    assert enough is not None and "finish" not in enough.bound


def test_what_a_run_in_a_block_adds_must_be_accepted_too() -> None:
    """Weights of a large model through the NAT gateway cost more than nothing."""
    assert "a run of gpt-oss-120b-eagle3 could cost $" in refused(**BLOCK, schedule_accept_cost_usd="1")


def test_what_nodes_that_are_simply_there_cost_is_said_to_be_bounded_by_nobody() -> None:
    run = scheduled_run(settings(**CLUSTER, schedule=WEEKLY), now=NOW)
    assert run is not None and "what it costs is not bounded here" in run.bound and "$" not in run.bound


def test_a_block_that_has_begun_has_no_schedule_any_more() -> None:
    assert scheduled_run(settings(**BLOCK), now=datetime(2026, 12, 1, 11, 30, tzinfo=UTC)) is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"schedule": "rate(1 day)"}, "schedule: a rate begins with the deployment itself"),
        ({"schedule": "every night"}, "schedule: write it as cron"),
        ({"schedule": "cron(0 1 ? * SAT 2020-2025)"}, "schedule: its last year is past"),
        ({"schedule": NIGHTLY, "schedule_time_zone": "Berlin"}, "schedule_time_zone: Berlin"),
        ({"schedule": "block"}, "needs capacity_start"),
        ({"schedule_experiment": "qwen3-32b-load"}, "schedule_experiment: it belongs to a schedule"),
        ({"schedule_accept_cost_usd": "100"}, "schedule_accept_cost_usd: it belongs to a schedule"),
        ({"schedule": NIGHTLY, "schedule_accept_cost_usd": "0"}, "schedule_accept_cost_usd: must be more than 0"),
    ],
)
def test_settings_that_cannot_work_are_refused_before_synth(given: dict[str, str], said: str) -> None:
    with pytest.raises(SettingsError) as error:
        settings(**given)
    assert said in str(error.value)


def test_all_problems_are_in_one_message() -> None:
    with pytest.raises(SettingsError) as error:
        settings(schedule="rate(1 day)", schedule_time_zone="Mars/Base", region="eu-west-1")
    assert all(key in str(error.value) for key in ("schedule:", "schedule_time_zone:", "region:"))


def test_the_runs_id_is_one() -> None:
    assert is_run_id("gpt-oss-120b-eagle3-scheduled-" + "d32c5kddcf5bb8c3")
