"""What a reader must know before believing the figures: notes, and what is missing in the answer."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from specdecode.analysis.loads.objective import cases_of_all, listed
from specdecode.analysis.results.comparison import Drift
from specdecode.analysis.results.run_context import Failure, RunContext
from specdecode.analysis.statistics import pairing
from specdecode.analysis.statistics.measured import AtLevel
from specdecode.analysis.statistics.verdict import MAX_FAILED
from specdecode.experiment import ExperimentError, load_engine
from specdecode.experiment.effective import differences
from specdecode.experiment.model import EndpointExperiment, Experiment, ServedExperiment, Sweep, arms_measured
from specdecode.experiment.step import ASSUMED, most_tokens_said
from specdecode.measures.arm import Key, Measured
from specdecode.measures.drafted import ESTIMATED
from specdecode.measures.plausibility import DOUBTFUL_S, HELD_BACK_S, apart, held_back, hidden

DOUBTFUL_TIMES = "have doubtful times"
"""In the note of a load generator that was late, however little."""


def notes(
    experiment: Experiment, context: RunContext, levels: Sequence[AtLevel], moved: Sequence[Drift]
) -> Iterator[str]:
    """All notes, in the order of the report."""
    first, arms = levels[0], levels[0].arms
    yield from which_comparison(experiment)
    yield from context.notes
    if isinstance(experiment, EndpointExperiment):
        yield _about_endpoints(experiment)
    yield from _assumed_yield(experiment, arms)
    for (variant, case), each in arms.items():
        if each.arm.drafted_gap:
            yield f"{variant} / {case}: {each.arm.drafted_gap}."
    yield from _not_measured(experiment, context, levels)
    for at in levels if experiment.workload.slo.asked else ():
        if out := dict.fromkeys(case for _, case in at.arms if case not in cases_of_all(at)):
            yield f"What each arm carries is without {', '.join(out)} at {at.level}, as not every arm has it."
    if alone := _alone(experiment, levels):
        listed = "; ".join(f"round {number} of {arm} (against {', '.join(of)})" for (arm, number), of in alone.items())
        yield f"Not compared, since the other arm was not measured in it: {listed}."
    if waves := [f"{one} and {other}" for one, other in _compared(experiment) if _in_waves(arms, one, other)]:
        yield (
            f"Measured one after the other: {'; '.join(waves)}. The machine may have become slower or faster between "
            "them. How much is assumed, and corrected by arms that were measured twice. Their intervals contain it."
        )
    if first.level.rate is not None:
        yield (
            "At a given rate every server that keeps up writes the same tokens a second, and when the last answer ends "
            "depends on how many were asked for: no throughput of a server and no cost of its tokens is shown."
        )
    if first.unknown:
        listed = ", ".join("/".join(key) for key in first.unknown[:5])
        yield f"Records of arms or cases that the experiment does not have were left out: {listed}."
    yield from _late(arms, " of the first load" if len(levels) > 1 else "")
    for name in dict.fromkeys(name for name, _ in arms):
        if unseen := sum(hidden(each.block.completed) for (arm, _), each in arms.items() if arm == name):
            yield f"{unseen:,} tokens of {name} are reasoning that the server counts and does not show."
    impossible: dict[tuple[str, str], list[str]] = {}
    for (variant, case), each in arms.items():
        for why in each.arm.impossible:
            impossible.setdefault((variant, why), []).append(case)
    for (variant, why), cases in impossible.items():
        yield f"IMPOSSIBLE: {variant} in {', '.join(cases)}: {why}. No figure of it is compared."
    yield from _moved(experiment, context, arms, moved)
    yield from apart(record for at in levels for each in at.arms.values() for record in each.block.records)


def _about_endpoints(experiment: EndpointExperiment) -> str:
    """What a run does not know about servers that already ran."""
    levels = experiment.workload.levels
    queue = (
        " It is not known either how many requests they decode together. A load above that number measures their "
        "queue too, and a crossover near it may be at too large a load."
    )
    unpriced = [variant.name for variant in experiment.variants if variant.price_per_hour is None]
    price = f" Without price_per_hour there are no dollars per million tokens ({', '.join(unpriced)})."
    return (
        "The arms are servers that already ran: what they ran on, with which settings, and who else asked them "
        f"meanwhile is not known here.{queue if len(levels) > 1 and levels[0].concurrency else ''}"
        f"{price if unpriced else ''}"
    )


def _assumed_yield(experiment: Experiment, arms: Mapping[Key, Measured]) -> Iterator[str]:
    """Arms whose estimate of acceptance rests on an assumption about the engine."""
    estimated = {name for (name, _), each in arms.items() if each.arm.acceptance_source == ESTIMATED}
    assumed = [
        variant.name
        for variant in experiment.variants
        if variant.name in estimated and most_tokens_said(experiment, variant) is None
    ]
    if assumed:
        yield (
            f"It is not known how many tokens a step of {', '.join(assumed)} yields at most. {ASSUMED} are assumed, as "
            "for vLLM's own engines. NxD Inference (vLLM on Neuron up to 0.16) yields k at most: then the acceptance "
            "shown here is too low. Say so with `most_tokens_per_step: k`, or with `specdecode bench "
            "--most-tokens-per-step NAME=k`."
        )


def _not_measured(experiment: Experiment, context: RunContext, levels: Sequence[AtLevel]) -> list[str]:
    """Arms without a figure, at some loads or at all: one note of a sweep, else one for each arm."""
    there = {at.level: {name for name, _ in at.arms} for at in levels}
    lacking = {v.name: [level for level, own in there.items() if v.name not in own] for v in arms_measured(experiment)}
    left_out = [name for name, without in lacking.items() if len(without) == len(levels)]
    if context.sweep and left_out:
        measured, all_arms = len(experiment.variants) - len(left_out), len(experiment.variants)
        return [f"The sweep measured {measured} of {all_arms} arms. {context.sweep[-1].reason}"]
    return [
        f"The arm {name} was not measured{'' if name in left_out else f' at {listed(without)}'}: this report has no "
        f"figure of it{'' if name in left_out else ' there'}."
        for name, without in lacking.items()
        if without
    ]


def _compared(experiment: Experiment) -> list[tuple[str, str]]:
    """Each arm and the one that it is compared with."""
    return [(variant.name, variant.compare_to) for variant in experiment.variants if variant.compare_to]


def _in_waves(arms: Mapping[Key, Measured], other: str, base: str) -> bool:
    """Whether some of their rounds were not measured beside each other."""
    cases = [case for name, case in arms if name == other and (base, case) in arms]
    return any(pairing.waves_between(arms[base, case], arms[other, case]) for case in cases)


def _alone(experiment: Experiment, levels: Sequence[AtLevel]) -> dict[tuple[str, int], list[str]]:
    """Arm and round -> the arms that it is not compared with there. Empty of an adaptive sweep, whose base has rounds
    of its own with each arm.
    """
    found: dict[tuple[str, int], set[str]] = defaultdict(set)
    for at, case, pair in product(levels, experiment.workload.cases, _compared(experiment)):
        for own, other in (pair, pair[::-1]) if experiment.sweep is not Sweep.ADAPTIVE else ():
            both = [each for name in (own, other) if (each := at.arms.get((name, case.name)))]
            if len(both) == 2 and not pairing.brackets(*both):
                first, second = ({record.round for record in each.block.records} for each in both)
                for number in first - second:
                    found[own, number].add(other)
    return {place: sorted(others) for place, others in sorted(found.items())}


def _late(arms: Mapping[Key, Measured], where: str) -> Iterator[str]:
    """Requests whose times the load generator itself may have changed."""
    records = [record for each in arms.values() for record in each.block.records]
    if lagging := sum(record.time_doubt_s > DOUBTFUL_S for record in records):
        yield (
            f"{lagging} of {len(records)} requests{where} {DOUBTFUL_TIMES}: the load generator was over "
            f"{DOUBTFUL_S * 1000:.0f} ms late."
        )
    if (delay_s := held_back(records)) > HELD_BACK_S:
        yield (
            f"Requests waited up to {delay_s:.1f} s in the load generator, as too many were under way; the wait is in "
            "their times."
        )


def _moved(
    experiment: Experiment, context: RunContext, arms: Mapping[Key, Measured], moved: Sequence[Drift]
) -> Iterator[str]:
    """Arms that ran on different devices and did not swap them, and arms that differ from themselves."""
    if any(_stayed(context, arms, each.compare_to, each.name) for each in experiment.variants if each.compare_to):
        yield (
            "The arms ran on different device groups and did not swap them: a difference between the groups would "
            "look like a difference from the base. Two rounds (workload.rounds=2) separate them."
        )
    for item in moved:
        if item.shown:
            yield (
                f"{item.variant} was {abs(item.ratio - 1):.1%} {'faster' if item.ratio > 1 else 'slower'} in "
                f"{item.second} than in {item.first}. What moves both arms is in no speed-up, and what does not cancel "
                "is in the intervals."
            )


def _stayed(context: RunContext, arms: Mapping[Key, Measured], *names: str) -> bool:
    """Whether two arms held different devices, the same in each round that both have."""
    held = {(item.variant, item.round): frozenset(item.devices) for item in context.device_groups}
    cases = ([each for (arm, _), each in arms.items() if arm == name] for name in names)
    ways = {tuple(held.get((name, number)) for name in names) for number in pairing.rounds_of_both(*cases)}
    return len(ways) == 1 and len({*ways.pop()} - {None}) == 2


def which_comparison(experiment: Experiment) -> list[str]:
    """Differences of the arms in each comparison, if they differ in more than speculation.

    The total of a chain is named too: `sd` against a first baseline that is served as it would be without speculation.
    """
    if not isinstance(experiment, ServedExperiment):
        return []
    try:
        engine = load_engine(experiment.engine)
    except ExperimentError:  # a run of an engine that does not ship any more
        return []
    variants = {variant.name: variant for variant in experiment.variants}
    lines: list[str] = []
    mixed = False
    for variant in experiment.variants:
        before, seen = variant.compare_to, {variant.name}
        while before in variants and before not in seen:
            seen.add(before)
            baseline = variants[before]
            parts = ["speculation"] if (variant.speculation is None) != (baseline.speculation is None) else []
            others = [str(one) for one in differences(experiment, variant, baseline, engine)]
            mixed = mixed or bool(others)
            lines.append(f"{variant.name} against {before} differs in {' and '.join([*parts, *others]) or 'nothing'}")
            before = baseline.compare_to
    return [f"Which comparison is which: {'; '.join(lines)}."] if mixed else []


def missing(experiment: Experiment, at: AtLevel, context: RunContext) -> Iterator[str]:
    """One short sentence for each arm, or arm and case, that is not in the answer. Arms that a sweep did not choose
    have none.
    """
    counted = experiment.workload.requests.precision is None and context.load_seconds is None
    causes = {failure.variant: failure.stage for failure in context.failures if failure.variant}
    for variant in arms_measured(experiment):
        own = {case: each.arm for (name, case), each in at.arms.items() if name == variant.name}
        if not own and variant.name in causes:
            yield f"{variant.name} failed ({causes[variant.name]})"
        elif not own and not context.sweep:
            yield f"{variant.name} was not measured"
        elif own and variant.compare_to and not any(name == variant.compare_to for name, _ in at.arms):
            yield f"{variant.name} was not compared, since {variant.compare_to} was not measured"
        for case in experiment.workload.cases if own else ():
            asked = experiment.workload.requests_of(case, at.level) * experiment.rounds
            if (arm := own.get(case.name)) is None:
                yield f"{variant.name} was not measured in {case.name}"
            elif arm.failed > MAX_FAILED * arm.requests:
                yield f"{arm.failed} of {arm.requests} requests of {variant.name} failed in {case.name}"
            elif counted and arm.requests < asked:
                yield f"{variant.name} was sent {arm.requests} of {asked} requests in {case.name}"


def failed_requests(levels: Sequence[AtLevel]) -> Iterator[Failure]:
    """Failures of requests, listed under "what failed" beside the run's own failures."""
    for at in levels:
        where = f" at {at.level}" if len(levels) > 1 else ""
        for (variant, case), each in at.arms.items():
            if each.arm.failed:
                kinds = ", ".join(f"{count} {kind}" for kind, count in each.arm.errors.items())
                failed = f"{each.arm.failed} of {each.arm.requests} requests of {variant} failed in {case}{where}"
                yield Failure(stage="benchmark", variant=variant, case=case, message=f"{failed}: {kinds}")
