"""docs/reference/bounds.md: the longest time for which the node can be billed, by cause, computed from what ends it."""

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any

from specdecode.experiment import Capacity, engine_of, load_preset, preset_names, prices, shapes
from specdecode.experiment.capacity import DRAIN_BEFORE_BLOCK_END_MINUTES
from specdecode.giving_back import (
    BACKSTOP_PERIOD_MINUTES,
    BACKSTOP_WINDOW_MINUTES,
    BEFORE_NODE_HOURS,
    CLAIM_GRACE_MINUTES,
    DYNAMIC_HOURS,
    STUCK_GRACE_HOURS,
    WATCHDOG_PERIOD_MINUTES,
)
from specdecode.kubernetes.pods import REFUSED_MINUTES, STANDSTILL_MINUTES
from specdecode.names import SAMPLE_PRESET
from specdecode.planning import Inventory, Plan, make_plan
from specdecode.planning.events import QUEUE_LIMIT, STOP_POLL_S, longest_node_minutes, unseen_minutes
from specdecode.planning.timeline import BEFORE_THE_NODE, NODE_STOP_MINUTES

from constructs_lib.pipeline.functions import FUNCTIONS
from constructs_lib.pipeline.states import EXECUTION_TIMEOUT_S, definition
from constructs_lib.settings.fields import Settings
from tools.reference import page, table

NOTICED_S = 50
"""Seconds until Kubernetes calls a node not Ready whose kubelet is silent (--node-monitor-grace-period, since 1.32)."""
INTRODUCTION = """\
A trn2.48xlarge costs ${price:.2f} an hour. For each cause: what ends it, and how long the node can be paid for at most
because of it, with default settings. A time counts from the moment of the cause, or from the request for the node.
`specdecode plan` and `specdecode run` show the bound of your own experiment.

Each bound is of one node, and each node is held by one run. With the setting `nodes`, so many runs go on side by side:
the most that can be billed at once is that number of nodes, one {cpu} for checks of the account (${cpu_price:.2f} an
hour) and one {large} for forecasts (${large_price:.2f}), each with a queue of its own. CPU nodes come beside them:
for all runs together those that stage models, count prompts or load servers that already run (${staging_price:.2f} an
hour at most), and with `compile.on: cpu` up to {compilers} {compiler} (${compilers_price:.2f} an hour).

A sweep on several nodes (`run --nodes`) is a run for each: the bounds below hold for every one."""

WAITING = """## A step that waits

Of the preset `{preset}`, first run. A deadline is seen at the next look, one every {poll} s (`StopArms`: {stop} s).
A field in the first column is the experiment's; `--set` makes it shorter. Steps before `AcquireCapacity` and while a
run stands in the queue hold no node."""

RUNS = """## A whole run

Every step lasts until its deadline, the last one fails, its cause is looked for, its pods are stopped, the node
drains. More than $500 (`accept_cost_above_usd`) is not started unless somebody accepts it.

The compiles in it are those of artifacts that `Plan` misses. What goes from the bucket later is compiled only if that
fits into what was accepted: the amount of the request, which is what `specdecode run` showed if it was told none; or
the $500, without an amount. Else the run ends, before it takes the node or at `Compile`. On a node that is paid for
anyway (a reservation, a Capacity Block) it is compiled, for up to `deadlines.compile` each beyond these hours."""

CAUSES = """## Something breaks

On top of what the run had taken until then."""

NOTES = """## What this project cannot bound

- An On-Demand Capacity Reservation is billed from its making to its cancelling, used or not. Give it an end when you
  make it (`--end-date-type limited --end-date`).
- A Capacity Block is paid for in advance, whole. EC2 ends its instances 30 minutes before its end, and a run is
  refused {drain} minutes before.
- An execution ends after {days:g} days at the latest. No step lasts that long; the alarm `StuckRun` and the backstop
  come first.
- In a [Karpenter of yours](../how-to/own-cluster.md#nodes-of-its-karpenter) the backstop ends instances, and cannot
  keep the next one from being launched: with watchdog and Kubernetes API away while a pool has a replica, that is a
  node's price an hour until a person acts, who is told after 15 minutes."""


@dataclass(frozen=True)
class Bound:
    """The longest time for which the node is billed because of one cause."""

    cause: str
    ends: str
    minutes: float
    usd_per_hour: float | None = prices.TRN2_48XLARGE.usd
    """USD an hour of the node. None if AWS publishes no price of it."""

    @property
    def usd(self) -> float | None:
        return None if self.usd_per_hour is None else self.minutes / 60 * self.usd_per_hour


def longest_minutes(state: dict[str, Any]) -> float:
    """Minutes until a task is given up whose function fails or hangs each time: its tries and the pauses between."""
    rule = state["Retry"][-1]
    pauses = (
        min(rule["IntervalSeconds"] * rule["BackoffRate"] ** n, rule["MaxDelaySeconds"])
        for n in range(rule["MaxAttempts"])
    )
    return ((rule["MaxAttempts"] + 1) * float(state["TimeoutSeconds"]) + sum(pauses)) / 60


def waiting_bounds(plan: Plan) -> list[Bound]:
    """The bound of each step of `plan` that waits while it holds the node: its deadline and one look."""
    fields = {"AcquireCapacity": "capacity", "StartCheck": "start_check", "Compile": "compile", "Serve": "serve"}
    fields |= {"Benchmark": "benchmark"}
    found = []
    for step in plan.steps:
        if step.name in BEFORE_THE_NODE or not step.waits:
            continue
        field = f"`deadlines.{fields[step.name]}`" if step.name in fields else "fixed"
        ends = f"{field}, {step.deadline_minutes} min"
        unseen = unseen_minutes(step, poll_s=plan.poll_seconds)
        found.append(Bound(f"`{step.name}`", ends, step.deadline_minutes + unseen))
    return found


def stuck_bound(settings: Settings) -> Bound:
    """The bounds of any run, whatever its deadlines."""
    minutes = 60 * (settings.longest_run_hours + STUCK_GRACE_HOURS) + BACKSTOP_PERIOD_MINUTES
    return Bound(
        "an execution goes on for ever, or its deadlines are longer than this",
        f"the alarm `StuckRun` after {settings.longest_run_hours} h (`longest_run_hours`) tells a person; "
        f"{STUCK_GRACE_HOURS} h later the backstop ends the instance",
        minutes + NODE_STOP_MINUTES.high,
    )


def unasked_bound(settings: Settings) -> Bound:
    """The longest bound of all."""
    return replace(
        stuck_bound(settings),
        cause="either of these, and all that time the backstop cannot ask CloudWatch, or the watchdog is dead and it "
        "cannot ask Step Functions",
        ends="an alarm (`BackstopFailed`, `StuckRun`) tells a person; the backstop ends it at this age",
        minutes=stuck_bound(settings).minutes + 60 * BEFORE_NODE_HOURS,
    )


def run_bound(plan: Plan, settings: Settings) -> Bound:
    """The bound of a whole run of `plan`."""
    longest = longest_node_minutes(plan.steps, poll_s=plan.poll_seconds)
    last = stuck_bound(settings).minutes
    ends = "its deadlines" if longest <= last else f"the backstop; its deadlines would after {longest / 60:.1f} h"
    price = Capacity().of(plan.experiment.node).price_per_node_hour
    return Bound(f"`{plan.experiment.name}`", ends, min(longest, last), price)


def causes(settings: Settings) -> list[Bound]:
    """The bound for each thing that can break."""
    states = definition(defaultdict(lambda: "arn"))["States"]
    drain, watchdog = NODE_STOP_MINUTES.high, FUNCTIONS["Watchdog"].timeout_s / 60
    failing = longest_minutes(states["Compile"])
    after = sum(longest_minutes(states[name]) for name in ("Diagnose", "StopArmsAfterFailure", "ReleaseAfterFailure"))
    looks = WATCHDOG_PERIOD_MINUTES + watchdog
    backstop = BACKSTOP_WINDOW_MINUTES + BACKSTOP_PERIOD_MINUTES
    looked = (NOTICED_S + STOP_POLL_S) / 60
    return [
        Bound(
            "the node hangs: it is not Ready",
            f"every step on it, {STANDSTILL_MINUTES} min later",
            STANDSTILL_MINUTES + looked + drain,
        ),
        Bound(
            "pods of a step are refused (webhook, quota, rights: whatever the words), or find no room on the node",
            f"the step, {REFUSED_MINUTES} min later",
            REFUSED_MINUTES + looked + drain,
        ),
        Bound(
            "a pod does not start, and its event repeats (a mount, its devices)",
            f"the step, {STANDSTILL_MINUTES} min after the first",
            STANDSTILL_MINUTES + looked + drain,
        ),
        Bound(
            "a function of a step fails or hangs each time, and so do those that clean up",
            f"the tries of the step and of the three states after it, then the watchdog (every "
            f"{WATCHDOG_PERIOD_MINUTES} min)",
            failing + after + looks + drain,
        ),
        Bound(
            "the execution is stopped, aborted or timed out",
            "the watchdog, called by the event of its end; if that is lost, its schedule",
            looks + drain,
        ),
        Bound(
            "the run that is next in the queue is gone when it gets the node",
            "the watchdog at its next look",
            looks + drain,
        ),
        Bound(
            "a NodeClaim stays though the pool has no replicas",
            f"Karpenter drains {drain:g} min; after {CLAIM_GRACE_MINUTES} min the watchdog deletes it",
            CLAIM_GRACE_MINUTES + looks + drain,
        ),
        Bound(
            "a lease or a run's record in the bucket is unreadable, or S3 refuses everything",
            "the step fails; release scales the pool before it reads anything, else the watchdog does",
            failing + after + looks + drain,
        ),
        Bound(
            "the watchdog is dead, and the execution that holds the node too",
            f"the backstop: {BACKSTOP_WINDOW_MINUTES} min without a heartbeat, looked at every "
            f"{BACKSTOP_PERIOD_MINUTES} min",
            backstop + drain,
        ),
        Bound(
            "the Kubernetes API is away: nothing can scale the pool",
            "the step and its clean-up fail, then as above",
            failing + after + backstop + drain,
        ),
        Bound(
            "watchdog, Kubernetes API and bucket are broken together",
            "the backstop, which needs none of them",
            failing + after + backstop + drain,
        ),
        replace(
            stuck_bound(settings),
            cause="a node too many (also one that Kubernetes does not know), or an unreadable or false lease or a dead "
            "watchdog while other executions go on",
            ends="an alarm (`NoHeartbeat`, `NodeWithoutLease`) tells a person; the backstop ends it at this age",
        ),
        stuck_bound(settings),
        unasked_bound(settings),
        *_dynamic_bounds(
            f"CPU nodes that compile (`compile.on: cpu`), all {shapes.COMPILERS}",
            shapes.COMPILERS * prices.R6ID_24XLARGE.usd,
        ),
        *_dynamic_bounds(
            f"CPU nodes that stage models, count prompts or load servers that already run, all {prices.STAGING_CPUS} "
            "vCPUs",
            prices.STAGING_MOST.usd,
        ),
        Bound(
            f"a run stands in the queue, {QUEUE_LIMIT.total_seconds() / 3600:g} h at most",
            "it has no node; what the holder takes is the holder's",
            0,
        ),
        Bound("the command line ends, the laptop is closed", "the run goes on by itself, to its own bound", 0),
    ]


def _dynamic_bounds(nodes: str, usd_per_hour: float) -> list[Bound]:
    return [
        Bound(
            f"{nodes}, stay, and no execution goes on",
            f"Karpenter a minute after its last pod; else the backstop, once it is {BACKSTOP_WINDOW_MINUTES} min old",
            BACKSTOP_WINDOW_MINUTES + BACKSTOP_PERIOD_MINUTES,
            usd_per_hour,
        ),
        Bound(
            "the same while an execution goes on",
            f"Karpenter once it is {DYNAMIC_HOURS} h old; else the backstop an hour later",
            60 * (DYNAMIC_HOURS + 1) + BACKSTOP_PERIOD_MINUTES,
            usd_per_hour,
        ),
    ]


def render() -> str:
    free = Capacity(price_per_node_hour=0)  # a plan knows how long, a bound what it costs
    plans = {
        experiment.name: make_plan(experiment, engine_of(experiment), inventory=Inventory(), capacity=free)
        for experiment in map(load_preset, preset_names())
        if not experiment.name.startswith("rehearsal")
    }
    default = plans[SAMPLE_PRESET]
    return page(
        "How long the node can be paid for",
        INTRODUCTION.format(
            price=prices.TRN2_48XLARGE.usd,
            cpu=shapes.CPU.name,
            cpu_price=prices.M7I_4XLARGE.usd,
            large=shapes.LARGE.name,
            large_price=prices.M7I_24XLARGE.usd,
            staging_price=prices.STAGING_MOST.usd,
            compilers=shapes.COMPILERS,
            compiler=shapes.COMPILER.name,
            compilers_price=shapes.COMPILERS * prices.R6ID_24XLARGE.usd,
        ),
        WAITING.format(preset=SAMPLE_PRESET, poll=default.poll_seconds, stop=STOP_POLL_S),
        _table("step", waiting_bounds(default)),
        RUNS,
        _table("preset", [run_bound(plan, Settings()) for plan in plans.values()]),
        CAUSES,
        _table("cause", causes(Settings())),
        NOTES.format(drain=DRAIN_BEFORE_BLOCK_END_MINUTES, days=EXECUTION_TIMEOUT_S / 86400),
    )


def _table(first: str, bounds: list[Bound]) -> str:
    rows = [
        (bound.cause, bound.ends, _clock(bound.minutes), "unknown" if bound.usd is None else f"${bound.usd:,.0f}")
        for bound in bounds
    ]
    return table((first, "what ends it", "at most", "node"), rows)


def _clock(minutes: float) -> str:
    return f"{minutes / 60:.1f} h" if minutes >= 120 else f"{minutes:.0f} min"
