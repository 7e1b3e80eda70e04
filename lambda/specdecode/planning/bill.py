"""The cost of a run: expected, at most, and beside the node. A pure function of the plan and the deployment.

Why it is so: ADR 113.
"""

from specdecode.experiment import prices
from specdecode.experiment.base import Frozen
from specdecode.experiment.capacity import TERMS, Capacity, CapacityType
from specdecode.experiment.model import CompileOn, Experiment, ServedExperiment
from specdecode.experiment.rules.case import ServedCase
from specdecode.experiment.rules.engine import not_on_cpu
from specdecode.experiment.shapes import COMPILER, COMPILERS
from specdecode.planning.events import late_minutes, longest_minutes, longest_node_minutes, unseen_minutes
from specdecode.planning.plan import Plan
from specdecode.planning.ranges import Range
from specdecode.planning.timeline import COMPILE, NODE_START_MINUTES, NODE_STOP_MINUTES, ON_CPU

STAGING_MB_A_SECOND = Range(low=50, high=500)
"""A guess for all staging pods together. Nobody has run the staging of this project in an account."""
METRICS, METRICS_COMPARED = 11, 4
"""CloudWatch metrics of the requests of an arm in a case, and of its comparison, of one set of dimensions."""
NODE_TERMS: dict[CapacityType, str] = {
    "on-demand": "billed from its start to its end",
    "odcr": "billed from the reservation's making to its cancelling, whether a run uses it or not",
    "capacity-block": "paid for in advance, from the block's start to its end",
}


class CompileCost(Frozen):
    """Cost of compiling all missing artifacts, on either kind of node, in US dollars."""

    artifacts: int
    here: Range
    """Cost on the node on which the arms are measured."""
    on_cpu: Range
    """Cost on CPU nodes, which start for it and end after it."""
    on_cpu_at_most: float
    """The same at most: every Job lasts until its deadline, and then until the pipeline or Kubernetes has ended it."""
    price_per_cpu_hour: float
    """US dollars for an hour of one CPU node."""
    chosen: CompileOn
    priced_in: str
    """Region of that price."""


class Bill(Frozen):
    """US dollars, hours and GB (10^9 bytes) of one run. Nothing here is looked up at AWS."""

    capacity: CapacityType
    """The terms of the node."""
    price_per_node_hour: float
    node_hours: Range
    node: Range
    """Dollars for `node_hours`."""
    rounds: int
    more_rounds: Range
    """Node hours, of `node_hours`, that the rounds after the first take."""
    longest_node_hours: float
    """Node hours if every step lasts until its deadline."""
    staging_gb: float
    """Weights that come from the internet, through the NAT gateway."""
    staging: Range
    """Dollars for that traffic and for the CPU nodes that fetch it."""
    compiling: CompileCost | None
    """Of what is missing, on either node; only that on `compiling.chosen` is a part of the rest."""
    checking: Range
    """Dollars, of `node`, for the start check."""
    checking_at_most: float
    """Dollars, of `most`, if it lasts until its deadlines; 0 if nothing is checked."""
    hold_minutes: float = 0
    """Minutes, of `node_hours`, for which arms stay for questions."""
    most: float
    """Dollars for `longest_node_hours` of the node, and what is beside it."""
    beside_at_most: float
    """Dollars, of `most`, for traffic, CloudWatch's metrics, and all that CPU nodes do until its deadlines: staging,
    counting prompts, compiling, and the clients of servers that already run."""
    storage_gb: float
    """Models and artifacts of this experiment, all of them, once they are in the bucket. An artifact counts as large as
    its weights: it holds them cut for the cores (`save_sharded_checkpoint`)."""
    storage_per_month: float
    resting_per_hour: float
    """US dollars for an hour of the deployment without a run."""
    accept_above: float
    """US dollars. A run that could cost more needs somebody's consent."""
    assumptions: tuple[str, ...]

    @property
    def on_cpu_at_most(self) -> float:
        """Dollars for CPU nodes that compile, if every Job lasts until its deadline; 0 if none compiles."""
        if self.compiling is None or self.compiling.chosen is not CompileOn.CPU:
            return 0
        return self.compiling.on_cpu_at_most

    @property
    def added(self) -> float:
        """Dollars that the run may add to the bill at most. A node from a reservation or a Capacity Block is billed
        whether the run uses it or not.
        """
        return self.most if self.capacity == "on-demand" else self.beside_at_most

    @property
    def to_accept(self) -> float | None:
        """Dollars that somebody must accept before the run may start; None if nobody must."""
        return self.added if self.added > self.limit(None) else None

    def limit(self, accepted: float | None) -> float:
        """Dollars that the run may cost: those accepted, to a cent; if nobody said an amount, what needs no consent."""
        return self.accept_above if accepted is None else accepted + 0.01


def make_bill(plan: Plan, capacity: Capacity) -> Bill:
    """The bill of `plan`, if the node comes on the terms of `capacity`."""
    given, capacity = capacity, capacity.of(plan.experiment.node)
    weights = [model.size_gib for model in plan.models_to_stage if model.import_prefix is None]
    fetched = sum(weights) * prices.GB_PER_GIB
    low, high = (fetched * 1000 / speed / 3600 for speed in (STAGING_MB_A_SECOND.high, STAGING_MB_A_SECOND.low))
    traffic = fetched * prices.NAT_TRAFFIC.usd
    longest = longest_node_minutes(plan.steps, poll_s=plan.poll_seconds) / 60
    beside = traffic + _cpu_minutes(plan) / 60 * prices.STAGING_MOST.usd
    beside += _metric_hours(plan) * prices.METRIC.usd / prices.HOURS_A_MONTH
    compiling = _compile_cost(plan, capacity)
    if compiling and compiling.chosen is CompileOn.CPU:
        beside += compiling.on_cpu_at_most
    check = next((step for step in plan.steps if step.name == "StartCheck"), None)
    late = check.deadline_minutes + unseen_minutes(check, poll_s=plan.poll_seconds) if check else 0
    stored = sum(item.model.size_gib for item in plan.models)
    stored += sum(plan.served.weights_gib(plan.served.variant(item.arm.variant)) for item in plan.artifacts)
    return Bill(
        capacity=capacity.type,
        price_per_node_hour=plan.price_per_node_hour,
        node_hours=plan.node_hours,
        node=plan.cost,
        rounds=plan.experiment.rounds,
        more_rounds=plan.more_rounds,
        longest_node_hours=longest,
        staging_gb=fetched,
        staging=Range(
            low=traffic + low * prices.STAGING_NODE_LOW.usd, high=traffic + high * prices.STAGING_NODE_HIGH.usd
        ),
        compiling=compiling,
        checking=(check.takes if check else Range()).scaled(plan.price_per_node_hour / 60),
        checking_at_most=late / 60 * plan.price_per_node_hour,
        hold_minutes=sum(step.takes.high for step in plan.steps if step.name == "Hold"),
        most=longest * plan.price_per_node_hour + beside,
        beside_at_most=beside,
        storage_gb=stored * prices.GB_PER_GIB,
        storage_per_month=stored * prices.GB_PER_GIB * prices.STORAGE.usd,
        resting_per_hour=capacity.resting_price_per_hour,
        accept_above=capacity.accept_cost_above,
        assumptions=_assumptions(plan, capacity, given),
    )


def _cpu_minutes(plan: Plan) -> float:
    """Longest time for which the NodePool `staging` has nodes for the run."""
    if not plan.experiment.holds_node:
        return longest_minutes(plan.steps, poll_s=plan.poll_seconds)
    staging = sum(step.deadline_minutes for step in plan.steps if step.name == "StageModels")
    if not plan.models_to_stage and staging == plan.experiment.deadlines.staging:  # nothing to bring or to count
        return 0
    return staging + late_minutes(plan.poll_seconds) + NODE_STOP_MINUTES.high


def _metric_hours(plan: Plan) -> int:
    """Metrics times hours that CloudWatch bills at most: it bills the hours in which a metric is sent, and the report
    sends those of each wave once (`analysis.datums`).
    """
    experiment = plan.experiment
    variants, cases, levels = (
        len(each) for each in (experiment.variants, experiment.workload.cases, experiment.workload.levels)
    )
    waves = sum(step.name == "Benchmark" for step in plan.steps)
    places = 2 + (levels if levels > 1 else 0)
    requests = waves * min(variants, experiment.side_by_side) * cases * METRICS * places
    return requests + variants * (cases * METRICS_COMPARED * 2 + levels + 1)


def paid_compiles(plan: Plan, bill: Bill, *, accepted: float | None) -> dict[str, int]:
    """How many artifacts a step may compile: as many as the bill counts and, on the node, as many more as fit into what
    was accepted, or needs no consent. Without a number as many as are missing: they add nothing to the bill.
    """
    counts = dict.fromkeys((ON_CPU, COMPILE), 0)
    for step in plan.steps:
        if step.name in counts:
            counts[step.name] += step.works
    one = plan.experiment.deadlines.compile / 60 * plan.price_per_node_hour
    if bill.capacity != "on-demand" or not one:
        return {ON_CPU: counts[ON_CPU]}
    left = bill.limit(accepted) - bill.added
    return counts | {COMPILE: counts[COMPILE] + max(0, int(left / one))}


def _compile_cost(plan: Plan, capacity: Capacity) -> CompileCost | None:
    """Of the missing artifacts. None if nothing is missing, or if CPU nodes cannot compile this experiment."""
    experiment, arms, known = plan.experiment, plan.timeline.to_compile, COMPILER.price_in(capacity.region)
    if not arms or known is None or not isinstance(experiment, ServedExperiment):
        return None
    if next(not_on_cpu(ServedCase(experiment, plan.engine, capacity)), None):
        return None
    around = Range(low=NODE_START_MINUTES.low / 2, high=NODE_START_MINUTES.high + NODE_STOP_MINUTES.high)
    ended = late_minutes(plan.poll_seconds) + NODE_STOP_MINUTES.high
    most = (plan.timeline.cpu_deadline + ended) * len(arms)
    expected = sum((part for arm in arms if arm.on_cpu for part in (arm.on_cpu, around)), Range())
    return CompileCost(
        artifacts=len(arms),
        here=sum((arm.compiling for arm in arms), Range()).scaled(plan.price_per_node_hour / 60),
        # A Job's deadline has the node's start in it, and what the Job is expected to take may be more.
        on_cpu=Range(low=min(expected.low, most), high=min(expected.high, most)).scaled(known.usd / 60),
        on_cpu_at_most=most * known.usd / 60,
        price_per_cpu_hour=known.usd,
        chosen=experiment.compile.on,
        priced_in=capacity.region if capacity.region in COMPILER.prices else next(iter(COMPILER.prices)),
    )


def _priced(experiment: Experiment, capacity: Capacity, given: Capacity) -> str:
    """Where the price of the node comes from."""
    published = experiment.shape.price_in(capacity.region)
    if given.price_per_node_hour is not None and given.node in (None, experiment.node):
        return "as you gave it" + ("" if published else ": AWS publishes none")
    seen = f"seen {published.seen}" if published and published.seen else "from public notes"
    return f"AWS's list price, {seen}"


def _assumptions(plan: Plan, capacity: Capacity, given: Capacity) -> tuple[str, ...]:
    """The assumptions of the cost. `given`: terms of the deployment; `capacity`: those of the experiment's node."""
    experiment, engine, estimates = plan.experiment, plan.engine, plan.engine.estimates
    if not experiment.holds_node:
        return (
            "the arms are servers that already run: no node is held for them, and what they cost is not known here",
            "CPU nodes send the requests",
        )
    (low, high), (low_each, high_each) = estimates.compile_minutes, estimates.compile_minutes_per_gib
    compiling = f"compile {low:g}-{high:g} min and {low_each:g}-{high_each:g} min for each GiB, "
    on_cpu = experiment.compile.on is CompileOn.CPU
    compiling += f"up to {COMPILERS} at a time on CPU nodes" if on_cpu else "one at a time"
    first, last = (1000 * seconds for seconds in estimates.seconds_per_output_token)
    return (
        f"one {experiment.node} {TERMS[capacity.type]} at ${plan.price_per_node_hour:.2f} an hour "
        f"({_priced(experiment, capacity, given)}), {NODE_TERMS[capacity.type]}",
        f"node start 5-15 min and release 3-10 min; {compiling if engine.artifact else 'nothing is compiled'}",
        f"{first:g}-{last:g} ms for each output token, whatever the speculation",
        f"source of the figures: {estimates.source}",
        *(f"of {engine.name}, {what}: inferred, {where}" for what, where in engine.inferred.items()),
    )
