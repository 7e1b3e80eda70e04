"""`compare`: records and context in, the answer out."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from specdecode.analysis.advice.learned import theories
from specdecode.analysis.advice.payoff import forecast_notes
from specdecode.analysis.advice.sweep import advice_sentence
from specdecode.analysis.loads.curve import curves
from specdecode.analysis.loads.k_by_load import schedules
from specdecode.analysis.loads.objective import objectives
from specdecode.analysis.results.comparison import Comparison, RunCost
from specdecode.analysis.results.pairs import HEADLINE, Chain, LoadResult, Pair
from specdecode.analysis.results.run_context import DeviceGroup, RunContext
from specdecode.analysis.statistics.accuracy import accuracy_changes
from specdecode.analysis.statistics.measured import METRICS, AtLevel, at_fastest, chain_of, measure
from specdecode.analysis.statistics.pairing import drifts
from specdecode.analysis.statistics.pairs import compare_pair
from specdecode.analysis.statistics.verdict import distrust
from specdecode.analysis.texts.by_load import without_a_curve
from specdecode.analysis.texts.notes import failed_requests, missing, notes
from specdecode.analysis.texts.recommend import voiced
from specdecode.analysis.work import Sets, work
from specdecode.experiment.model import Experiment
from specdecode.measures.arm import Key, Measured
from specdecode.measures.arm_case import ArmCase
from specdecode.measures.course import timeline
from specdecode.measures.metrics.metric import load_seconds
from specdecode.records import RequestRecord, raw_file

COUNTS = (
    *("variant", "case", "requests", "completed", "failed", "errors", "output_tokens", "load_seconds"),
    *("cost_per_million", "impossible", "late"),
)
"""What is kept of an arm at a load after the first, beside its headline."""


def compare(
    *, experiment: Experiment, records: Iterable[RequestRecord], context: RunContext, sets: Sets | None = None
) -> Comparison:
    """Measure every arm of `experiment` and compare it with the arm that it names in `compare_to`.

    `sets` has the sets of prompts that do not ship and whose texts the report should show, by their keys.
    """
    levels = measure(experiment=experiment, records=records, context=context)
    return compare_measured(experiment=experiment, levels=levels, context=context, sets=sets)


def compare_measured(
    *, experiment: Experiment, levels: Sequence[AtLevel], context: RunContext, sets: Sets | None = None
) -> Comparison:
    """Compare every arm with the one it names in `compare_to`. Nothing is read or written.

    A note names records of arms or cases that the experiment does not have.
    """
    first, arms = levels[0], levels[0].arms
    moved = drifts(experiment, arms, context.device_groups)
    held = context.device_groups
    pairs, others = trusted_everywhere(list(_pairs(experiment, first, held)), _other_loads(experiment, levels, held))
    trusted = [each for each in pairs if not each.distrusted]
    here = at_fastest(experiment, [each.arm for each in arms.values()], trusted)
    chains = tuple(_chains(experiment, pairs, first, held))
    totals = [chain.total for chain in chains if not chain.total.distrusted]
    changed = tuple(accuracy_changes(context.accuracy, [*pairs, *(chain.total for chain in chains)]))
    lost = {each.variant for each in changed if each.worse}
    over = curves(experiment=experiment, levels=levels, pairs=trusted)
    whole = curves(experiment=experiment, levels=levels, pairs=totals)
    carried = objectives(experiment=experiment, levels=levels)
    no_curve = ""
    if trusted and not over and len(levels) > 1:
        no_curve = without_a_curve(sorted((at.level for at in levels), key=lambda level: level.value))
    comparison = Comparison(
        run_id=context.run_id,
        title=experiment.title,
        answer="",
        experiment=experiment,
        context=context.model_copy(update={"failures": (*context.failures, *failed_requests(levels))}),
        metrics=METRICS,
        arms=tuple(each.arm for each in arms.values()),
        timeline=timeline(record for each in arms.values() for record in each.block.records),
        pairs=tuple(pairs),
        loads=others,
        chains=chains,
        drift=moved,
        accuracy=changed,
        theory=theories(experiment=experiment, pairs=here),
        curve=(*over, *(each.model_copy(update={"of_speculation": False}) for each in whole)),
        work=work(experiment=experiment, levels=levels, pairs=trusted, others=others, sets=sets),
        objective=carried,
        schedule=schedules(
            experiment=experiment, levels=levels, pairs=[each for each in here if each.variant not in lost]
        ),
        cost=_run_cost(context, arms),
        notes=(
            *forecast_notes(experiment, pairs, (each.arm for each in arms.values())),
            *notes(experiment, context, levels, moved),
        ),
        files=_files(arms),
    )
    told = voiced(comparison, missing=tuple(missing(experiment, first, context)), before=no_curve)
    return told.model_copy(update={"advice": advice_sentence(told)})


def _pairs(experiment: Experiment, at: AtLevel, held: Sequence[DeviceGroup]) -> Iterator[Pair]:
    """Each arm with the arm that it names in `compare_to`, at one load. Pairs without a case have none."""
    for other in experiment.variants:
        if other.compare_to is not None:
            base = experiment.variant(other.compare_to)
            if pair := compare_pair(experiment=experiment, base=base, other=other, arms=at.arms, held=held):
                yield pair


def _chains(experiment: Experiment, pairs: Sequence[Pair], at: AtLevel, held: Sequence[DeviceGroup]) -> Iterator[Chain]:
    """Arms that are compared over two links or more: each link, and the whole way from the root."""
    by_arms = {(link.baseline, link.variant): link for link in pairs}
    for variant in experiment.variants:
        path = chain_of(experiment, variant.name)
        links = [by_arms[step] for step in pairwise(path) if step in by_arms]
        if len(path) < 3 or len(links) < len(path) - 1:
            continue
        root = experiment.variant(path[0])
        if total := compare_pair(experiment=experiment, base=root, other=variant, arms=at.arms, held=held):
            if not total.distrusted and (why := next((link.distrusted for link in links if link.distrusted), "")):
                total = distrust(total, {variant.name: why})
            yield Chain(variant=variant.name, root=root.name, links=tuple(links), total=total)


def trusted_everywhere(
    pairs: Sequence[Pair], others: Sequence[LoadResult]
) -> tuple[list[Pair], tuple[LoadResult, ...]]:
    """All pairs, those of other loads too; without figures if one of them is impossible at any load."""
    why: dict[str, dict[str, str]] = {}
    for at, found in ((None, pairs), *((each.level, each.pairs) for each in others)):
        for pair in found:
            if pair.distrusted:
                why.setdefault(pair.variant, {str(at) if at else "the first load": pair.distrusted})

    def told(pair: Pair) -> Pair:
        wrong = why.get(pair.variant)
        return distrust(pair, wrong) if wrong and not pair.distrusted else pair

    return list(map(told, pairs)), tuple(
        each.model_copy(update={"pairs": tuple(map(told, each.pairs))}) for each in others
    )


def _run_cost(context: RunContext, arms: Mapping[Key, Measured]) -> RunCost | None:
    """What the run cost. None if the price of a node is not known."""
    if context.price_per_node_hour is None:
        return None
    measured = load_seconds([each.block.records for each in arms.values()])
    held = context.node_seconds
    hours = held / 3600.0 if held is not None else None
    return RunCost(
        price_per_node_hour=context.price_per_node_hour,
        node_hours=hours,
        total=hours * context.price_per_node_hour if hours is not None else None,
        measured_seconds=measured,
        utilization=measured / held if held else None,
        output_tokens=sum(each.arm.output_tokens for each in arms.values()),
    )


def _files(arms: Mapping[Key, Measured]) -> tuple[str, ...]:
    """Files of raw records, one for each arm, case and client."""
    return tuple(
        raw_file(variant, case, client)
        for (variant, case), each in arms.items()
        for client in sorted({0, *(record.client for record in each.block.records)})
    )


def _other_loads(
    experiment: Experiment, levels: Sequence[AtLevel], held: Sequence[DeviceGroup]
) -> tuple[LoadResult, ...]:
    """Results at each level but the first. Of a single arm they are all that there is to show."""
    alone = len(experiment.variants) == 1
    return tuple(
        LoadResult(
            level=at.level,
            arms=tuple(each.arm if alone else _counts_of(each.arm) for each in at.arms.values()),
            pairs=tuple(map(_headlines, _pairs(experiment, at, held))),
        )
        for at in levels[1:]
    )


def _headlines(pair: Pair) -> Pair:
    """The headline of each case, without groups."""
    cases = [
        case.model_copy(
            update={
                "speedups": () if case.headline is None else (case.headline,),
                "equality": case.equality.model_copy(update={"first": None}),
                "notes": (),
            }
        )
        for case in pair.cases
    ]
    return pair.model_copy(update={"cases": tuple(cases), "groups": ()})


def _counts_of(arm: ArmCase) -> ArmCase:
    """The headline of an arm, and how many requests failed."""
    return ArmCase(
        **{name: getattr(arm, name) for name in COUNTS},
        metrics={tag: each for tag, each in arm.metrics.items() if tag == HEADLINE},
        totals={},
        no_value={},
        samples={tag: each for tag, each in arm.samples.items() if tag == HEADLINE},
    )
