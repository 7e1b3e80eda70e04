"""Warnings of a plan. Nothing here refuses a run: the person who pays decides."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Set
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from specdecode import names
from specdecode.experiment.capacity import DRAIN_BEFORE_BLOCK_END_MINUTES, Capacity
from specdecode.experiment.effective import differences, said
from specdecode.experiment.engine import Engine
from specdecode.experiment.kept import deploy_with
from specdecode.experiment.model import CompileOn, EndpointExperiment, ModelRef, ServedExperiment
from specdecode.giving_back import STUCK_GRACE_HOURS
from specdecode.planning.compiling import cpu_deadline, cpu_minutes
from specdecode.planning.cost import Range, benchmark_minutes, compile_minutes, level_minutes, load_minutes
from specdecode.planning.events import HISTORY_LIMIT
from specdecode.planning.states import HEALTHY_SHARE
from specdecode.planning.waves import Wave


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


def check_support(experiment: ServedExperiment, engine: Engine) -> list[str]:
    """Warn if the engine's library has an announced end of support."""
    return [engine.support.sentence(engine.name)] if engine.support else []


def check_served(experiment: ServedExperiment, engine: Engine) -> list[str]:
    """Warnings about the engine and the settings of the arms. They need no knowledge of the bucket."""
    checks = (check_support, check_families, check_alike, check_forced)
    return [warning for check in checks for warning in check(experiment, engine)] + check_levels(experiment)


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


def check_history(events: int) -> list[str]:
    """Warn if the execution's history may not hold the run."""
    if events <= HISTORY_LIMIT:
        return []
    return [
        f"up to {events} history events, and an execution may have {HISTORY_LIMIT}: "
        "split the experiment (fewer variants) or shorten its deadlines"
    ]


def check_start(experiment: ServedExperiment, engine: Engine, waves: Iterable[Wave], compiles: Set[str]) -> list[str]:
    """Warn if an arm may not be compiled (`compiles`: the missing fingerprints) and loaded within its deadline."""
    arms = {arm.variant: arm.fingerprint for wave in waves for arm in wave.arms}
    compiling = {name: compile_minutes(experiment, engine, name) for name, made in arms.items() if made in compiles}
    loading = {name: load_minutes(experiment, engine, name) for name in arms}
    return [
        *_too_long("compile", compiling, experiment.deadlines.compile, share=HEALTHY_SHARE),
        *_too_long("load", loading, experiment.deadlines.serve, field="serve"),
    ]


def check_ahead(experiment: ServedExperiment, engine: Engine, variants: list[str]) -> list[str]:
    """Warn that compiling on CPU nodes is unproven, and if it may take too long. `variants`: the arms to compile."""
    if experiment.compile.on is not CompileOn.CPU:
        return []
    minutes = {name: cpu_minutes(experiment, engine, name) for name in variants}
    limit = cpu_deadline(experiment, engine)
    return [
        "compile.on: cpu: sources say that Neuron devices load what a CPU node compiles, and nobody here has seen it; "
        "an artifact that does not load is compiled on the node, and the upper bound counts that",
        *_too_long("compile on a CPU node", minutes, limit, field="compile", share=HEALTHY_SHARE),
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


def check_benchmark(experiment: ServedExperiment, engine: Engine, *, arms: int) -> list[str]:
    """Warn if the load of the largest wave, of `arms` arms, may not end before the benchmark's deadline."""
    takes, limit = benchmark_minutes(experiment, engine, arms=arms), experiment.deadlines.benchmark
    if takes.high <= limit:
        return []
    cases = experiment.workload.cases
    load = f"{len(cases)} cases of {sum(map(experiment.workload.requests_of, cases))} requests"
    load += f" at {len(levels)} levels" if len(levels := experiment.workload.levels) > 1 else ""
    fix = "raise deadlines.benchmark, or measure fewer cases, requests or levels"
    if len(levels) > 1:
        each = [(level, level_minutes(experiment, engine, cases, level, arms=arms).high) for level in levels]
        longest, minutes = max(each, key=lambda found: found[1])
        fix += f"; the longest is {longest}, up to {minutes:.0f} min of it"
    if takes.low > limit:
        return [f"{load} take at least {takes.low:.0f} min, the deadline is {limit} min: they will not finish; {fix}"]
    return [f"{load} may take {takes.high:.0f} min, the deadline is {limit} min: they may not finish; {fix}"]


def check_levels(experiment: ServedExperiment) -> list[str]:
    """Loads beyond the compiled batch. They are allowed, but they measure the queue."""
    batch = experiment.batch
    over = [f"{level.value:g}" for level in experiment.workload.levels if (level.concurrency or 0) > batch]
    if not over:
        return []
    return [f"workload.concurrency {', '.join(over)}: more than max_num_seqs {batch}, so that requests queue"]


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
