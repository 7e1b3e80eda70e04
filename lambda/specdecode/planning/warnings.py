"""Warnings of a plan: what the experiment leaves in doubt, and what its times and the node's terms do. Nothing here
refuses a run: the person who pays decides.

The rules about requests are those of the analysis: an interval is over prompts, a load's objective is a share of its
requests, and a rate is carried only if its requests were sent over most of the time (experiment/slo.py).
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from specdecode import names
from specdecode.escape import counted
from specdecode.experiment.base import Deadlines
from specdecode.experiment.capacity import DRAIN_BEFORE_BLOCK_END_MINUTES, Capacity
from specdecode.experiment.effective import batch_sizes, differences, said
from specdecode.experiment.engine import Dialect, Engine
from specdecode.experiment.kept import deploy_with
from specdecode.experiment.model import CompileOn, EndpointExperiment, Experiment, ServedExperiment
from specdecode.experiment.shapes import CORES_PER_DEVICE
from specdecode.experiment.sizing import arms_at_once, lacking, room_of, serving_needs
from specdecode.experiment.workload import SENT_OVER, Level
from specdecode.giving_back import STUCK_GRACE_HOURS
from specdecode.planning.events import HISTORY_LIMIT
from specdecode.planning.ranges import Range
from specdecode.planning.timeline import HEALTHY_SHARE, LoadTime, Timeline, request_seconds
from specdecode.planning.waves import Wave

MONITOR = (
    "serving.neuron_metrics: neuron-monitor runs beside every server while it is measured; nobody has shown how much "
    "that slows the server, or that it sees devices of a DRA claim: publish figures only of a run without it"
)
AHEAD = (
    "compile.on: cpu: sources say that Neuron devices load what a CPU node compiles, and nobody here has seen it; an "
    "artifact that does not load is compiled on the node, and the upper bound counts that"
)


def doubts(experiment: Experiment, engine: Engine) -> list[str]:
    """All of them. `engine` has the sizes of the experiment's node."""
    found = list(check_requests(experiment))
    if isinstance(experiment, EndpointExperiment):
        found += check_endpoints(experiment)
    if isinstance(experiment, ServedExperiment):
        for check in (check_families, check_alike, check_forced, check_bursts, check_room, check_claim, check_levels):
            found += check(experiment, engine)
        found += [engine.support.sentence(engine.name)] if engine.support else []
        found += [
            f"{model.id}: revision {model.revision!r} is a branch and can move; pin a commit to repeat this run"
            for model in experiment.staged
            if model.import_prefix is None and model.revision in ("main", "master")
        ]
        found += [MONITOR] if experiment.serving.neuron_metrics else []
        found += [AHEAD] if experiment.compile.on is CompileOn.CPU else []
    return found


def check_families(experiment: ServedExperiment, engine: Engine) -> Iterator[str]:
    """Targets without a family, if the engine treats families differently: their rules then check and set nothing."""
    if engine.families or any(each.families for each in engine.methods.values()):
        targets = map(experiment.target_of, experiment.variants)
        for unsaid in dict.fromkeys(target.id for target in targets if not target.family):
            yield (
                f"{unsaid}: no `family`, so {engine.name} is not checked for its method, and the settings of a family "
                f"in the engine's file are not used; give one of {', '.join(engine.model_families)}"
            )


def check_alike(experiment: ServedExperiment, engine: Engine) -> Iterator[str]:
    """Differences, beside speculation, between a speculating arm and the arm that it is compared with."""
    for variant in experiment.variants:
        if variant.compare_to and variant.speculation:
            baseline = experiment.variant(variant.compare_to)
            if found := "; ".join(map(str, differences(experiment, variant, baseline, engine))):
                yield f"{variant.name} differs from {baseline.name} not in speculation alone: {found}"


def check_forced(experiment: ServedExperiment, engine: Engine) -> Iterator[str]:
    """Settings of an arm that the engine changes as soon as the arm speculates."""
    for variant in experiment.variants:
        told, forced = said(experiment, variant, engine), engine.defaults.speculating
        wrong = [key for key in engine.defaults.forced if key in told and told[key] != forced[key]]
        if variant.speculation and wrong:
            yield (
                f"{variant.name} is told {', '.join(wrong)}, and {engine.name} switches it off under speculation "
                "whatever is said: an arm without speculation that is told the same does differ from it"
            )


def check_levels(experiment: ServedExperiment, engine: Engine) -> Iterator[str]:
    """Loads that measure the queue; loads that are missing at a compiled batch size, or just above it."""
    levels = [level.concurrency for level in experiment.workload.levels if level.concurrency]
    batch = experiment.batch or 1
    if over := ", ".join(str(level) for level in levels if level > batch):
        yield f"workload.concurrency {over}: more than max_num_seqs {batch}, so that requests queue"
    sizes = {size for variant in experiment.variants for size in batch_sizes(experiment, variant, engine)}
    beside = {at for size in sizes for at in (size, size + 1) if min(levels, default=batch) < at < max([0, *levels])}
    if missing := sorted(at for at in beside - set(levels) if at <= max(sizes)):
        yield (
            f"workload.concurrency: {engine.name} pads a batch to {', '.join(map(str, sorted(sizes)))}, so a speed-up "
            f"may jump just above each; {', '.join(map(str, missing))} would show it"
        )


def check_room(experiment: ServedExperiment, engine: Engine) -> Iterator[str]:
    """Something else than the devices limits how many arms are on the node at once."""
    most, arms = min(experiment.side_by_side, len(experiment.variants)), arms_at_once(experiment, engine)
    if arms < most:
        more = lacking(room_of(experiment.shape), serving_needs(experiment, engine, arms + 1))[0]
        yield (
            f"{counted(arms, 'arm')} at a time, though there are devices for {most}: {arms + 1} need "
            f"{more}; lower the engine's pod resources, or choose smaller models"
        )


def check_claim(experiment: ServedExperiment, engine: Engine) -> Iterator[str]:
    """A smaller claim would hold the arms: the native plugin uses as many cores as it has ranks."""
    serving = experiment.serving
    used = math.ceil(experiment.ranks * serving.logical_neuron_core / CORES_PER_DEVICE)
    enough = min((claim for claim in experiment.shape.claims if claim >= used), default=serving.devices)
    if engine.dialect is Dialect.NATIVE_PLUGIN and enough < serving.devices:
        yield (
            f"TP {experiment.ranks} takes {used} of the {serving.devices} devices that an arm claims, and each "
            f"token is priced at all of them: serving.devices={enough} is enough, and more arms share the node"
        )


def check_requests(experiment: Experiment) -> Iterator[str]:
    """Too few requests for an interval, or so few that a single late one breaks the objective. For both kinds."""
    load, slo = experiment.workload, experiment.workload.slo
    if single := [case.name for case in load.cases if any(load.requests_of(case, level) < 2 for level in load.levels)]:
        yield f"one request of {_some(single)}: no speed-up can be judged from one prompt, send two or more"
    if not slo.asked or slo.share == 1:
        return
    needed = math.ceil(round(1 / (1 - slo.share), 6))
    sent = {
        str(level): experiment.rounds * sum(load.requests_of(case, level) for case in load.cases)
        for level in load.levels
    }
    if few := {level: requests for level, requests in sent.items() if requests < needed}:
        yield (
            f"workload.slo.share {slo.share:g} with {min(few.values())} requests of an arm at {_some([*few])}: a "
            f"single late request breaks the objective; send {needed} or more"
        )


def check_bursts(experiment: ServedExperiment, engine: Engine) -> Iterator[str]:
    """Rates whose requests are all sent before a queue could build up, by the engine's estimate of an answer."""
    load = experiment.workload
    short: dict[Level, tuple[int, float]] = {}
    for level in load.levels:
        for case in load.cases if level.rate else ():
            longest = request_seconds(experiment, engine, case).high
            needed = math.ceil(SENT_OVER / (1 - SENT_OVER) * (level.rate or 0) * longest)
            if load.requests_of(case, level) < needed:
                short[level] = max(short.get(level, (0, 0.0)), (needed, longest))
    if short:
        asked = ", ".join(f"{needed} at {level}" for level, (needed, _) in short.items())
        longest = max(longest for _, longest in short.values())
        yield (
            f"workload.rate {', '.join(f'{level.value:g}' for level in short)}: an answer may take {longest:.2g} s by "
            "the engine's estimate; the requests must last twice that, or nothing shows that the server carries the "
            f"rate: raise workload.requests to {asked}"
        )


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if names[3:] else "")


def check_endpoints(experiment: EndpointExperiment) -> Iterator[str]:
    """Servers whose address means something else in a pod than for the user who wrote it."""
    for variant in experiment.variants:
        host = urlsplit(variant.endpoint).hostname or ""
        if host == "localhost" or host.endswith(".localhost") or host.startswith("127."):
            own = "is the benchmark's own pod when that asks; give the server's address"
            yield f"{variant.name}: {variant.endpoint} {own}"
    if plain := [variant.name for variant in experiment.variants if variant.endpoint.startswith("http://")]:
        yield f"{', '.join(plain)}: http reaches only namespaces with the label {names.BENCHMARKABLE_LABEL}=true"


def check_precision(experiment: Experiment, waves: Sequence[Wave]) -> Iterator[str]:
    """A speed-up cannot be settled while it is measured: both arms must be served at the same time."""
    if experiment.workload.requests.precision is None:
        return
    most = experiment.workload.requests.max
    if max(len(wave.arms) for wave in waves) == 1:
        yield f"workload.requests: no two arms are on the node together, so that none ends early: each sends {most}"
        return
    against = {variant.name: variant.compare_to for variant in experiment.variants}
    served, alone = set[str](), list[str]()
    for arms in ([arm.variant for arm in wave.arms] for wave in waves):
        if not any(against[name] in arms for name in arms):
            alone += [name for name in arms if name not in served]
        served.update(arms)
    if alone:
        text = "no arm of its comparison is beside it in its first wave, so it cannot end early there and sends"
        yield f"workload.requests: {', '.join(alone)}: {text} {most}"


def check_times(timeline: Timeline, deadlines: Deadlines) -> Iterator[str]:
    """An arm may not be compiled or loaded, or the largest wave not be measured, before its deadline."""
    if timeline.holds_node:
        here = {arm.variant: arm.compiling for arm in timeline.arms if arm.missing and not arm.ahead}
        loading = {arm.variant: arm.load for arm in timeline.arms}
        there = {arm.variant: arm.on_cpu for arm in timeline.to_compile if arm.ahead and arm.on_cpu}
        yield from _late("compile", here, deadlines.compile, share=HEALTHY_SHARE)
        yield from _late("load", loading, deadlines.serve, field="serve")
        yield from _late("compile on a CPU node", there, timeline.cpu_deadline, field="compile", share=HEALTHY_SHARE)
        load, fewer = _largest_load(timeline.loads), ", or measure fewer cases, requests or levels"
        yield from _late("measure", load, deadlines.benchmark, field="benchmark", otherwise=fewer)


def _late(
    what: str,
    minutes: Mapping[str, Range],
    deadline: int,
    *,
    field: str | None = None,
    share: float = 1,
    otherwise: str = "",
) -> Iterator[str]:
    """One line about all that may take longer than `share` of the deadline, with the longest one's figures."""
    limit = deadline * share
    late = sorted((name for name in minutes if minutes[name].high > limit), key=lambda name: -minutes[name].high)
    if late:
        takes = minutes[late[0]]
        named = late[0] + (f" (and {len(late) - 1} more)" if late[1:] else "")
        took = f"takes at least {takes.low:.0f} min" if takes.low > limit else f"may take {takes.high:.0f} min"
        given = f"deadlines.{field or what} is {deadline} min" + (f", of which it has {limit:.0f}" if share < 1 else "")
        fix = f"raise it to {math.ceil(takes.high / share)}{otherwise}"
        yield f"{named} {took} to {what}; {given}: it {_will(takes, limit)} not finish; {fix}"


def _will(takes: Range, limit: float) -> str:
    return "will" if takes.low > limit else "may"


def _largest_load(loads: Iterable[LoadTime]) -> dict[str, Range]:
    """The load of the largest wave, called by what is in it, and how long it takes."""
    cases, requests, minutes = dict[str, int](), 0, dict[Level, Range]()
    for load in loads:
        cases[load.group], requests = load.cases, requests + load.requests
        minutes[load.level] = minutes.get(load.level, Range()) + load.longest
    text = f"the load of {counted(sum(cases.values()), 'case')}, {counted(requests, 'request')}"
    if len(minutes) > 1:
        longest = max(minutes, key=lambda level: minutes[level].high)
        text += f" and {len(minutes)} levels (up to {minutes[longest].high:.0f} min are those of {longest})"
    return {text: sum(minutes.values(), Range())}


def check_history(events: int) -> Iterator[str]:
    """The execution's history may not hold the run."""
    if events > HISTORY_LIMIT:
        yield (
            f"up to {events} history events, and an execution may have {HISTORY_LIMIT}: "
            "split the experiment (fewer variants) or shorten its deadlines"
        )


def check_backstop(longest_minutes: float, hours: Range, capacity: Capacity) -> Iterator[str]:
    """The backstop may end the node before the run is over: by its deadlines (`longest_minutes`), or by `hours`."""
    longest, limit = longest_minutes / 60, capacity.backstop_hours
    if longest > limit:
        needed = math.ceil(longest) - STUCK_GRACE_HOURS
        holds = f"by its deadlines the run may hold it for {longest:.1f} h"
        if hours.low > limit:
            holds = f"the run takes at least {hours.low:.1f} h"
        yield (
            f"the backstop ends a node {limit} h after a run got it (longest_run_hours {capacity.longest_run_hours} + "
            f"{STUCK_GRACE_HOURS}), and the alarm StuckRun comes before; {holds}: it {_will(hours, limit)} not finish; "
            f"{deploy_with({'longest_run_hours': str(needed)})}, or shorten its deadlines"
        )


def check_window(hours: Range, capacity: Capacity, *, now: datetime) -> Iterator[str]:
    """The run may not fit into the Capacity Block, whose last minutes are lost to draining."""
    if capacity.block_end is None or hours.high == 0:
        return
    start = max(now, capacity.block_start) if capacity.block_start else now
    usable = (capacity.block_end - start - timedelta(minutes=DRAIN_BEFORE_BLOCK_END_MINUTES)).total_seconds() / 3600
    draining = f"{DRAIN_BEFORE_BLOCK_END_MINUTES} minutes before its end"
    if usable <= 0:
        over = "is over for new work" if start == now else "is too short: no work begins in it"
        yield f"the Capacity Block {over} (draining begins {draining})"
    elif hours.high > usable:
        takes = f"takes at least {hours.low:.1f} h" if hours.low > usable else f"may take {hours.high:.1f} h"
        window = f"{usable:.1f} h of the Capacity Block are usable (draining begins {draining})"
        yield f"{window}, and the run {takes}: it {_will(hours, usable)} not finish"
