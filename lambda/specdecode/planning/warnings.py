"""Warnings of a plan: what the experiment leaves in doubt, and what its times and the node's terms do. Nothing here
refuses a run: the person who pays decides.

The rules about requests are those of the analysis: an interval is over prompts, a load's objective is a share of its
requests, and a rate is carried only if its requests were sent over most of the time (experiment/slo.py).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from specdecode import names
from specdecode.experiment.capacity import DRAIN_BEFORE_BLOCK_END_MINUTES, Capacity
from specdecode.experiment.deadlines import Deadlines
from specdecode.experiment.effective import batch_sizes, differences, said
from specdecode.experiment.engine import Dialect, Engine
from specdecode.experiment.kept import deploy_with
from specdecode.experiment.model import CompileOn, EndpointExperiment, Experiment, ServedExperiment
from specdecode.experiment.shapes import CORES_PER_DEVICE
from specdecode.experiment.sizing import arms_at_once, lacking, room_of, serving_needs
from specdecode.experiment.variants import ModelRef
from specdecode.experiment.workload import SENT_OVER, Level
from specdecode.giving_back import STUCK_GRACE_HOURS
from specdecode.planning.events import HISTORY_LIMIT
from specdecode.planning.ranges import Range
from specdecode.planning.timeline import HEALTHY_SHARE, ON_CPU, LoadTime, Timeline, request_seconds, turns
from specdecode.planning.waves import Wave


def doubts(experiment: Experiment, engine: Engine) -> list[str]:
    """All of them. `engine` has the sizes of the experiment's node."""
    found = check_requests(experiment)
    if isinstance(experiment, EndpointExperiment):
        found += check_endpoints(experiment)
    if isinstance(experiment, ServedExperiment):
        for check in (check_families, check_alike, check_forced, check_bursts, check_room, check_claim, check_levels):
            found += check(experiment, engine)
        found += [engine.support.sentence(engine.name)] if engine.support else []
        found += [*check_revisions(experiment.staged), *check_monitor(experiment), *check_ahead(experiment)]
    return found


def check_families(experiment: ServedExperiment, engine: Engine) -> list[str]:
    """Targets without a family, if the engine treats families differently. The rules of a family then check and set
    nothing.
    """
    if not (engine.families or any(each.families for each in engine.methods.values())):
        return []
    unsaid = dict.fromkeys(
        target.id for variant in experiment.variants if not (target := experiment.target_of(variant)).family
    )
    return [
        f"{each}: no `family`, so {engine.name} is not checked for its method, and the settings of a family in the "
        f"engine's file are not used; give one of {', '.join(engine.model_families)}"
        for each in unsaid
    ]


def check_alike(experiment: ServedExperiment, engine: Engine) -> list[str]:
    """Differences, beside speculation, between a speculating arm and the arm that it is compared with."""
    out = []
    for variant in experiment.variants:
        if variant.compare_to and variant.speculation:
            found = [
                str(one) for one in differences(experiment, variant, experiment.variant(variant.compare_to), engine)
            ]
            if found:
                out.append(
                    f"{variant.name} differs from {variant.compare_to} not in speculation alone: {'; '.join(found)}"
                )
    return out


def check_forced(experiment: ServedExperiment, engine: Engine) -> list[str]:
    """Settings of an arm that the engine changes as soon as the arm speculates."""
    out = []
    for variant in experiment.variants:
        told = said(experiment, variant, engine)
        wrong = [key for key in engine.defaults.forced if key in told and told[key] != engine.defaults.speculating[key]]
        if variant.speculation and wrong:
            out.append(
                f"{variant.name} is told {', '.join(wrong)}, and {engine.name} switches it off under speculation "
                "whatever is said: an arm without speculation that is told the same does differ from it"
            )
    return out


def check_levels(experiment: ServedExperiment, engine: Engine) -> list[str]:
    """Loads that measure the queue; loads that are missing at a compiled batch size, or just above it."""
    levels = [level.concurrency for level in experiment.workload.levels if level.concurrency]
    batch, out = experiment.batch or 1, []
    if over := [str(level) for level in levels if level > batch]:
        out.append(f"workload.concurrency {', '.join(over)}: more than max_num_seqs {batch}, so that requests queue")
    sizes = {size for variant in experiment.variants for size in batch_sizes(experiment, variant, engine)}
    beside = {at for size in sizes for at in (size, size + 1) if min(levels, default=batch) < at < max([0, *levels])}
    if missing := sorted(at for at in beside - set(levels) if at <= max(sizes)):
        out.append(
            f"workload.concurrency: {engine.name} pads a batch to {', '.join(map(str, sorted(sizes)))}, so a speed-up "
            f"may jump just above each; {', '.join(map(str, missing))} would show it"
        )
    return out


def check_revisions(models: Iterable[ModelRef]) -> list[str]:
    """Models whose revision is a branch, which can move."""
    return [
        f"{model.id}: revision {model.revision!r} is a branch and can move; pin a commit to repeat this run"
        for model in models
        if model.import_prefix is None and model.revision in ("main", "master")
    ]


def check_monitor(experiment: ServedExperiment) -> list[str]:
    """Warn if neuron-monitor runs beside the servers while they are measured."""
    if not experiment.serving.neuron_metrics:
        return []
    return [
        "serving.neuron_metrics: neuron-monitor runs beside every server while it is measured; nobody has shown how "
        "much that slows the server, or that it sees devices of a DRA claim: publish figures only of a run without it"
    ]


def check_room(experiment: ServedExperiment, engine: Engine) -> list[str]:
    """Warn if something else than the devices limits how many arms are on the node at once."""
    most, arms = min(experiment.side_by_side, len(experiment.variants)), arms_at_once(experiment, engine)
    if arms == most:
        return []
    unit, need, there = lacking(room_of(experiment.shape), serving_needs(experiment, engine, arms + 1))[0]
    together = "1 arm" if arms == 1 else f"{arms} arms"
    return [
        f"{together} at a time, though there are devices for {most}: {arms + 1} need {need:.0f} {unit}, and a "
        f"{experiment.node} has {there:.0f} to give; lower the engine's pod resources, or choose smaller models"
    ]


def check_claim(experiment: ServedExperiment, engine: Engine) -> list[str]:
    """Warn if a smaller claim would hold the arms: the native plugin uses as many cores as it has ranks."""
    serving = experiment.serving
    if engine.dialect is not Dialect.NATIVE_PLUGIN:
        return []
    used = math.ceil(experiment.ranks * serving.logical_neuron_core / CORES_PER_DEVICE)
    enough = min((claim for claim in experiment.shape.claims if claim >= used), default=serving.devices)
    if enough >= serving.devices:
        return []
    return [
        f"TP {experiment.ranks} takes {used} of the {serving.devices} devices that an arm claims, and each "
        f"token is priced at all of them: serving.devices={enough} is enough, and more arms share the node"
    ]


def check_ahead(experiment: ServedExperiment) -> list[str]:
    """Warn that compiling on CPU nodes is unproven."""
    if experiment.compile.on is not CompileOn.CPU:
        return []
    return [
        "compile.on: cpu: sources say that Neuron devices load what a CPU node compiles, and nobody here has seen it; "
        "an artifact that does not load is compiled on the node, and the upper bound counts that"
    ]


def check_requests(experiment: Experiment) -> list[str]:
    """One line a rule, for both kinds of experiment."""
    return [*_no_interval(experiment), *_one_decides(experiment)]


def _no_interval(experiment: Experiment) -> list[str]:
    load = experiment.workload
    single = [case.name for case in load.cases if any(load.requests_of(case, level) < 2 for level in load.levels)]
    if not single:
        return []
    return [f"one request of {_some(single)}: no speed-up can be judged from one prompt, send two or more"]


def _one_decides(experiment: Experiment) -> list[str]:
    """Loads with so few requests that a single late one breaks the objective."""
    load, slo = experiment.workload, experiment.workload.slo
    if not slo.asked or slo.share == 1:
        return []
    needed = math.ceil(round(1 / (1 - slo.share), 6))
    sent = {
        level: experiment.rounds * sum(load.requests_of(case, level) for case in load.cases) for level in load.levels
    }
    few = [level for level, requests in sent.items() if requests < needed]
    if not few:
        return []
    return [
        f"workload.slo.share {slo.share:g} with {min(sent[level] for level in few)} requests of an arm at "
        f"{_some([str(level) for level in few])}: a single late request breaks the objective; send {needed} or more"
    ]


def check_bursts(experiment: ServedExperiment, engine: Engine) -> list[str]:
    """Rates whose requests are all sent before a queue could build up, by the engine's estimate of an answer."""
    load = experiment.workload
    short: dict[Level, tuple[Range, int]] = {}
    for level in load.levels:
        for case in load.cases if level.rate else ():
            takes = request_seconds(experiment, engine, case)
            needed = math.ceil(SENT_OVER / (1 - SENT_OVER) * (level.rate or 0) * takes.high)
            if load.requests_of(case, level) < needed and (level not in short or short[level][1] < needed):
                short[level] = takes, needed
    if not short:
        return []
    asked = ", ".join(f"{needed} at {level}" for level, (_, needed) in short.items())
    longest = max(takes.high for takes, _ in short.values())
    return [
        f"workload.rate {', '.join(f'{level.value:g}' for level in short)}: an answer may take {longest:.2g} s by the "
        "engine's estimate; the requests must last twice that, or nothing shows that the server carries the rate: "
        f"raise workload.requests to {asked}"
    ]


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if names[3:] else "")


def check_endpoints(experiment: EndpointExperiment) -> list[str]:
    """Servers whose address means something else in a pod than for the user who wrote it."""
    local = [
        f"{variant.name}: {variant.endpoint} is the benchmark's own pod when that asks; give the server's address"
        for variant in experiment.variants
        if _is_loopback(urlsplit(variant.endpoint).hostname or "")
    ]
    plain = [variant.name for variant in experiment.variants if variant.endpoint.startswith("http://")]
    if not plain:
        return local
    return [
        *local,
        f"{', '.join(plain)}: http reaches only namespaces with the label {names.BENCHMARKABLE_LABEL}=true",
    ]


def _is_loopback(host: str) -> bool:
    return host == "localhost" or host.endswith(".localhost") or host.startswith("127.")


def check_precision(experiment: Experiment, waves: Sequence[Wave]) -> list[str]:
    """Warn if a speed-up cannot be settled while it is measured: both arms must be served at the same time."""
    if experiment.workload.requests.precision is None:
        return []
    most = experiment.workload.requests.max
    if max(len(wave.arms) for wave in waves) == 1:
        return [f"workload.requests: no two arms are on the node together, so that none ends early: each sends {most}"]
    against = {variant.name: variant.compare_to for variant in experiment.variants}
    served, alone = set[str](), list[str]()
    for arms in ([arm.variant for arm in wave.arms] for wave in waves):
        if not any(against[name] in arms for name in arms):
            alone += [name for name in arms if name not in served]
        served.update(arms)
    if not alone:
        return []
    text = "no arm of its comparison is beside it in its first wave, so it cannot end early there and sends"
    return [f"workload.requests: {', '.join(alone)}: {text} {most}"]


def check_times(timeline: Timeline, deadlines: Deadlines) -> list[str]:
    """Warn if an arm may not be compiled or loaded, or the largest wave not be measured, before its deadline."""
    if not timeline.holds_node:
        return []
    here = {arm.variant: arm.compiling for arm in timeline.arms if arm.missing and not arm.ahead}
    there = {arm.variant: arm.on_cpu for arm in timeline.to_compile if arm.ahead and arm.on_cpu}
    on_cpu = next((step.deadline_minutes // turns(step.works) for step in timeline.steps if step.name == ON_CPU), 0)
    return [
        *_too_long("compile", here, deadlines.compile, share=HEALTHY_SHARE),
        *_too_long("load", {arm.variant: arm.load for arm in timeline.arms}, deadlines.serve, field="serve"),
        *_too_long("compile on a CPU node", there, on_cpu, field="compile", share=HEALTHY_SHARE),
        *_too_much(timeline.loads, deadlines.benchmark),
    ]


def _too_long(
    what: str, minutes: Mapping[str, Range], deadline: int, *, field: str | None = None, share: float = 1
) -> list[str]:
    """One line about all arms that may take longer than `share` of the deadline, with the longest one's figures."""
    limit, field = deadline * share, f"deadlines.{field or what}"
    late = sorted((name for name in minutes if minutes[name].high > limit), key=lambda name: -minutes[name].high)
    if not late:
        return []
    takes = minutes[late[0]]
    arms = late[0] + (f" (and {len(late) - 1} more)" if late[1:] else "")
    took = f"takes at least {takes.low:.0f} min" if takes.low > limit else f"may take {takes.high:.0f} min"
    verdict = "will" if takes.low > limit else "may"
    given = f"{field} is {deadline} min" + (f", of which it has {limit:.0f}" if share < 1 else "")
    fix = f"raise it to {math.ceil(takes.high / share)}"
    return [f"{arms} {took} to {what}; {given}: it {verdict} not finish; {fix}"]


def _too_much(loads: Sequence[LoadTime], limit: int) -> list[str]:
    """One line if the load of the largest wave may take longer than `limit` minutes."""
    takes = sum((load.longest for load in loads), Range())
    if takes.high <= limit:
        return []
    minutes: dict[Level, float] = {}
    for load in loads:
        minutes[load.level] = minutes.get(load.level, 0) + load.longest.high
    cases = sum(load.cases for load in loads if load.level == loads[0].level)
    text = f"{cases} cases of {sum(load.requests for load in loads)} requests"
    fix = "raise deadlines.benchmark, or measure fewer cases, requests or levels"
    if len(minutes) > 1:
        text += f" at {len(minutes)} levels"
        longest = max(minutes, key=minutes.__getitem__)
        fix += f"; the longest is {longest}, up to {minutes[longest]:.0f} min of it"
    if takes.low > limit:
        return [f"{text} take at least {takes.low:.0f} min, the deadline is {limit} min: they will not finish; {fix}"]
    return [f"{text} may take {takes.high:.0f} min, the deadline is {limit} min: they may not finish; {fix}"]


def check_history(events: int) -> list[str]:
    """Warn if the execution's history may not hold the run."""
    if events <= HISTORY_LIMIT:
        return []
    return [
        f"up to {events} history events, and an execution may have {HISTORY_LIMIT}: "
        "split the experiment (fewer variants) or shorten its deadlines"
    ]


def check_backstop(longest_minutes: float, hours: Range, capacity: Capacity) -> list[str]:
    """Warn if the backstop may end the node before the run is over (`longest_minutes` by its deadlines, `hours` by the
    estimate).
    """
    longest, limit = longest_minutes / 60, capacity.backstop_hours
    if longest <= limit:
        return []
    after = f"the backstop ends a node {limit} h after a run got it (longest_run_hours {capacity.longest_run_hours} + "
    after += f"{STUCK_GRACE_HOURS}), and the alarm StuckRun comes before"
    needed = math.ceil(longest) - STUCK_GRACE_HOURS
    fix = f"{deploy_with({'longest_run_hours': str(needed)})}, or shorten its deadlines"
    if hours.low > limit:
        return [f"{after}; the run takes at least {hours.low:.1f} h: it will not finish; {fix}"]
    return [f"{after}; by its deadlines the run may hold it for {longest:.1f} h: it may not finish; {fix}"]


def check_window(hours: Range, capacity: Capacity, *, now: datetime) -> list[str]:
    """Warn if the run may not fit into the Capacity Block. Its last 40 minutes are lost to draining."""
    if capacity.block_end is None or hours.high == 0:
        return []
    start = max(now, capacity.block_start) if capacity.block_start else now
    usable = (capacity.block_end - start - timedelta(minutes=DRAIN_BEFORE_BLOCK_END_MINUTES)).total_seconds() / 3600
    if usable <= 0:
        return [f"the Capacity Block is over for new work ({DRAIN_BEFORE_BLOCK_END_MINUTES} minutes before its end)"]
    window = f"{usable:.1f} h of the Capacity Block are usable (draining begins 40 minutes before its end)"
    if hours.low > usable:
        return [f"{window}, and the run takes at least {hours.low:.1f} h: it will not finish"]
    if hours.high > usable:
        return [f"{window}, and the run may take {hours.high:.1f} h: it may not finish"]
    return []
