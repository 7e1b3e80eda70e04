"""The scheduled run: planned and priced at synth, and refused there if it may cost too much.

The constructs do not know what a run costs.
"""

import math
from collections.abc import Iterator
from datetime import UTC, datetime

from specdecode.experiment import Capacity, Experiment, ExperimentError, engine_of, load, preset_names
from specdecode.planning import Bill, Inventory, Plan, Range, make_bill, make_plan
from specdecode.planning.warnings import check_window

from constructs_lib.pipeline.schedule import ScheduledRun
from constructs_lib.settings.costs import capacity
from constructs_lib.settings.cron import firing
from constructs_lib.settings.fields import BLOCK, Settings
from constructs_lib.settings.reading import SettingsError
from constructs_lib.settings.rules import has_begun


def scheduled_run(settings: Settings, *, now: datetime | None = None) -> ScheduledRun | None:
    """The run that the settings schedule. None without a schedule, or if its block has begun.

    Raises SettingsError if the experiment cannot run, could cost more than is accepted, could cost more in a month than
    the budget, or may not have ended when the next run starts.
    """
    if settings.schedule is None or has_begun(settings, now=now or datetime.now(UTC)):
        return None
    terms, reference = capacity(settings), str(settings.schedule_experiment)  # the settings' rules refuse none
    try:
        experiment = load(reference, capacity=terms)
        plan = make_plan(experiment, engine_of(experiment), inventory=Inventory(), capacity=terms)
    except ExperimentError as error:
        raise SettingsError([f"schedule_experiment: {error}"]) from None
    bill = make_bill(plan, terms)
    doubts = _window(plan, terms.of(experiment.node), settings) if settings.schedule == BLOCK else []
    problems = [*_problems(settings, experiment, bill), *(f"schedule: {doubt}" for doubt, is_sure in doubts if is_sure)]
    if problems:
        raise SettingsError(problems)
    document = reference if reference in preset_names() else experiment.model_dump(mode="json")
    when = settings.capacity_start if settings.schedule == BLOCK else settings.schedule
    assert when is not None  # noqa: S101 (the settings' rules refuse a block without its start)
    return ScheduledRun(
        experiment=experiment.name,
        request={
            "experiment": document,
            "accept_cost": math.ceil(bill.added),
            "started_by": f"schedule {settings.schedule}",
        },
        when=when,
        time_zone=settings.schedule_time_zone,
        bound="; ".join([_bound(settings, bill), *(doubt for doubt, _ in doubts)]),
    )


def _window(plan: Plan, capacity: Capacity, settings: Settings) -> list[tuple[str, bool]]:
    """The steps that are too long for the block that the run starts with, and whether that is certain."""
    assert settings.capacity_start is not None  # noqa: S101 (the settings' rules refuse a block without its start)
    hours = plan.node_hours
    at_least = list(check_window(Range(low=hours.low, high=hours.low), capacity, now=settings.capacity_start))
    return [(doubt, bool(at_least)) for doubt in check_window(hours, capacity, now=settings.capacity_start)]


def _problems(settings: Settings, experiment: Experiment, bill: Bill) -> Iterator[str]:
    limit, name = settings.schedule_accept_cost_usd or settings.accept_cost_above_usd, experiment.name
    if (most := bill.added) > limit:
        yield (
            f"schedule_accept_cost_usd: a run of {name} could cost ${most:,.0f}, if every step lasts until its "
            f"deadline, and ${limit:,.0f} is accepted; accept {math.ceil(most)}, or shorten its deadlines in a file "
            "that extends it"
        )
    if settings.schedule == BLOCK:
        return
    often = firing(str(settings.schedule))
    if often.hours_apart < bill.longest_node_hours:
        yield (
            f"schedule: it starts a run {often.hours_apart:g} h after another, and one of {name} may hold the node for "
            f"{bill.longest_node_hours:.1f} h: runs would queue up; start fewer, or shorten its deadlines"
        )
    if (month := often.a_month * most) > settings.budget_usd:
        yield (
            f"budget_usd: {often.a_month} runs a month of {name} could cost ${month:,.0f}, and the month's budget is "
            f"${settings.budget_usd:,}; start fewer, or raise it to {math.ceil(month)} if you mean to pay that"
        )


def _bound(settings: Settings, bill: Bill) -> str:
    """What it costs at most, in words. For nodes that are simply there only the hours are bounded: they cost the same
    without runs.
    """
    most = bill.added
    if not settings.makes_nodes:
        hours = bill.longest_node_hours
        a_run = f"a run holds a node of yours for {hours:.1f} h at most; what it costs is not bounded here"
    elif bill.capacity == "on-demand":
        a_run = f"a run costs ${bill.node.low:,.0f} to ${bill.node.high:,.0f}, ${most:,.0f} at most"
    else:
        a_run = f"a run adds ${most:,.0f} at most to the node, which is paid for"
    if settings.schedule == BLOCK:
        return a_run
    times = firing(str(settings.schedule)).a_month
    month = f", ${times * most:,.0f}" if settings.makes_nodes else ""
    return f"{a_run}; {times} runs a month at most{month}"
