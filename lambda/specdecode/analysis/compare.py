"""`compare`: records and context in, the answer out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from specdecode.analysis.advice.prediction import theories
from specdecode.analysis.advice.sweep import advice_sentence
from specdecode.analysis.loads.curve import curves
from specdecode.analysis.loads.k_by_load import schedules
from specdecode.analysis.loads.objective import objectives
from specdecode.analysis.loads.other_loads import other_loads
from specdecode.analysis.nodes import about_nodes, elsewhere_too, parts_of
from specdecode.analysis.results.comparison import Chain, Comparison, Drift, Pair, RunCost
from specdecode.analysis.results.context import RunContext
from specdecode.analysis.statistics.accuracy import accuracy_changes
from specdecode.analysis.statistics.drift import drifts, margin, measured_on
from specdecode.analysis.statistics.measured import METRICS, AtLevel, measure
from specdecode.analysis.statistics.node_noise import between_nodes
from specdecode.analysis.statistics.pairs import compare_pair
from specdecode.analysis.texts.by_load import without_a_curve
from specdecode.analysis.texts.missing import failed_requests, missing
from specdecode.analysis.texts.published import published_notes, which_comparison
from specdecode.analysis.texts.recommend import at_first_load, over_load, recommendation
from specdecode.analysis.texts.wording import answer
from specdecode.analysis.work import Sets, work
from specdecode.experiment.model import EndpointExperiment, Experiment, Sweep, Variant
from specdecode.experiment.step import ASSUMED, most_tokens_said
from specdecode.measures.arm import Key, Measured
from specdecode.measures.client_lateness import DOUBTFUL_S, HELD_BACK_S, held_back
from specdecode.measures.drafts import ESTIMATED
from specdecode.measures.load_time import load_seconds
from specdecode.measures.timeline import timeline
from specdecode.measures.together import apart
from specdecode.records import RequestRecord, raw_file


def compare(
    *, experiment: Experiment, records: Iterable[RequestRecord], context: RunContext, sets: Sets | None = None
) -> Comparison:
    """Measure every arm of `experiment` and compare it with the one it names in `compare_to`. `sets`: by their keys,
    those whose texts the report should show and which do not ship.
    """
    levels = measure(experiment=experiment, records=records, context=context)
    return compare_measured(experiment=experiment, levels=levels, context=context, sets=sets)


def compare_measured(
    *, experiment: Experiment, levels: Sequence[AtLevel], context: RunContext, sets: Sets | None = None
) -> Comparison:
    """Compare every arm with the one it names in `compare_to`. Nothing is read or written.

    Arms or cases with records that the experiment does not know are named in a note.
    """
    first, arms, nodes = levels[0], levels[0].arms, between_nodes(levels[0])
    variants = {variant.name: variant for variant in experiment.variants}
    moved = drifts(
        variants=tuple(variants),
        cases=[case.name for case in experiment.workload.cases],
        arms=arms,
        device_groups=context.device_groups,
    )

    def pair(base: Variant, other: Variant) -> Pair | None:
        both = first.beside(base.name, other.name)
        steady = experiment.sweep is Sweep.ADAPTIVE
        drift = 1.0 if steady else margin(moved, base.name, measured_on(both, base.name))
        found = compare_pair(experiment=experiment, base=base, other=other, arms=both, drift=drift, nodes=nodes)
        return found and found.model_copy(update={"arms": elsewhere_too(first, both)})

    pairs = [
        found
        for variant in experiment.variants
        if variant.compare_to and (found := pair(variants[variant.compare_to], variant))
    ]
    chains: list[Chain] = []
    by_arms = {(link.baseline, link.variant): link for link in pairs}
    for variant in experiment.variants:
        path = _path_from_root(variants, variant)
        links = [by_arms[step] for step in pairwise(path) if step in by_arms]
        if len(path) > 2 and len(links) == len(path) - 1 and (total := pair(variants[path[0]], variant)):
            chains.append(Chain(variant=variant.name, root=path[0], links=tuple(links), total=total))
    parts = parts_of(experiment, first, context)
    over = curves(experiment=experiment, levels=levels, pairs=pairs)
    carried = objectives(experiment=experiment, levels=levels)
    by_load = over_load(over, pairs, () if first.units else carried)
    if pairs and not over and len(levels) > 1:
        by_load = without_a_curve(sorted((at.level for at in levels), key=lambda level: level.value))
    at_first = at_first_load(
        answer(pairs=pairs, chains=chains, missing=tuple(missing(experiment, first, context))), experiment.workload
    )
    comparison = Comparison(
        run_id=context.run_id,
        title=experiment.title,
        answer=f"{by_load} {at_first}" if by_load else at_first,
        experiment=experiment,
        context=context.model_copy(update={"failures": (*context.failures, *failed_requests(levels))}),
        created_at=context.finished_at,
        metrics=METRICS,
        arms=tuple(each.arm for each in arms.values()),
        timeline=timeline(record for each in arms.values() for record in each.block.records),
        pairs=tuple(pairs),
        loads=other_loads(experiment, levels),
        chains=tuple(chains),
        drift=moved,
        accuracy=tuple(accuracy_changes(context.accuracy, pairs)),
        theory=theories(experiment=experiment, pairs=pairs),
        curve=over,
        work=work(experiment=experiment, levels=levels, pairs=pairs, sets=sets),
        objective=carried,
        schedule=schedules(experiment=experiment, levels=levels, pairs=pairs, curves=over),
        cost=_run_cost(context, arms),
        parts=parts,
        notes=_notes(experiment, context, first, moved, [*about_nodes(parts, pairs)]) + _together(levels),
        files=tuple(
            raw_file(variant, case, client)
            for (variant, case), each in arms.items()
            for client in sorted({0, *(record.client for record in each.block.records)})
        ),
    )
    return comparison.model_copy(
        update={"advice": advice_sentence(comparison), "recommendation": recommendation(comparison)}
    )


def _path_from_root(variants: dict[str, Variant], last: Variant) -> list[str]:
    path = [last.name]
    while (before := variants[path[0]].compare_to) is not None and before not in path:
        path.insert(0, before)
    return path


def _about_endpoints(experiment: Experiment) -> list[str]:
    """What is not known where the arms are servers that already ran."""
    if not isinstance(experiment, EndpointExperiment):
        return []
    levels = experiment.workload.levels
    queue = (
        " Nor is how many requests they decode together: a load beyond that measures their queue, and a crossover "
        "beside it may be too far out."
    )
    unpriced = [variant.name for variant in experiment.variants if variant.price_per_hour is None]
    price = f" Without price_per_hour there are no dollars per million tokens ({', '.join(unpriced)})."
    return [
        "The arms are servers that already ran: what they ran on, with which settings, and who else asked them "
        f"meanwhile is not known here.{queue if len(levels) > 1 and levels[0].concurrency else ''}"
        f"{price if unpriced else ''}"
    ]


def _gaps(arms: Mapping[Key, Measured]) -> list[str]:
    """Where the answers' own counts of drafts and the engine's counters are not of the same steps."""
    return [
        f"{variant} / {case}: {each.arm.drafted_gap}." for (variant, case), each in arms.items() if each.arm.drafted_gap
    ]


def _assumed_yield(experiment: Experiment, arms: Mapping[Key, Measured]) -> list[str]:
    """Where an estimate of acceptance rests on what nobody said of the engine."""
    estimated = {name for (name, _), each in arms.items() if each.arm.acceptance_source == ESTIMATED}
    assumed = [
        variant.name
        for variant in experiment.variants
        if variant.name in estimated and most_tokens_said(experiment, variant) is None
    ]
    if not assumed:
        return []
    return [
        f"What a step yields at most is not known of {', '.join(assumed)}: {ASSUMED} tokens are assumed, as of vLLM's "
        "own engines. With NxD Inference (vLLM on Neuron up to 0.16) it is k, and the acceptance shown is too low: say "
        "so (`most_tokens_per_step: k`; `specdecode bench --most-tokens-per-step NAME=k`)."
    ]


def _run_cost(context: RunContext, arms: Mapping[Key, Measured]) -> RunCost | None:
    if context.price_per_node_hour is None:
        return None
    measured = load_seconds([each.block.records for each in arms.values()])
    held = context.node_seconds
    return RunCost(
        price_per_node_hour=context.price_per_node_hour,
        node_hours=held / 3600.0 if held is not None else None,
        total=held / 3600.0 * context.price_per_node_hour if held is not None else None,
        measured_seconds=measured,
        utilization=measured / held if held else None,
        output_tokens=sum(each.arm.output_tokens for each in arms.values()),
    )


def _notes(
    experiment: Experiment,
    context: RunContext,
    at: AtLevel,
    moved: Sequence[Drift],
    of_nodes: Sequence[str],
) -> tuple[str, ...]:
    """What a reader must know before believing the figures."""
    arms, unknown = at.arms, at.unknown
    notes = [*of_nodes, *published_notes(experiment, at), *which_comparison(experiment)]
    notes += [*context.notes, *_about_endpoints(experiment), *_assumed_yield(experiment, arms), *_gaps(arms)]
    left_out = [v.name for v in experiment.variants if not any(name == v.name for name, _ in arms)]
    if context.sweep and left_out:
        measured, all_arms = len(experiment.variants) - len(left_out), len(experiment.variants)
        notes.append(f"The sweep measured {measured} of {all_arms} arms. {context.sweep[-1].reason}")
    else:
        notes += [f"The arm {name} was not measured: nothing here is about it." for name in left_out]
    if unknown:
        listed = ", ".join("/".join(key) for key in unknown[:5])
        notes.append(f"Records of arms or cases that the experiment does not have were left out: {listed}.")
    records = [record for each in arms.values() for record in each.block.records]
    lagging = sum(record.time_doubt_s > DOUBTFUL_S for record in records)
    if lagging:
        notes.append(
            f"In {lagging} of {len(records)} requests the load generator fell behind by more than "
            f"{DOUBTFUL_S * 1000:.0f} ms and read several chunks at once: their times are doubtful."
        )
    if (delay_s := held_back(records)) > HELD_BACK_S:
        notes.append(
            f"Requests waited up to {delay_s:.1f} s in the load generator, as too many were under way; the wait is in "
            "their times."
        )
    notes += _impossible(arms)
    if context.device_groups and not any(item.cause == "device group" for item in moved):
        groups = {frozenset(item.devices) for item in context.device_groups}
        if len(groups) > 1:
            notes.append(
                "The arms ran on different device groups and did not swap them: a difference between the groups would "
                "look like a difference from the base. Two rounds (workload.rounds=2) separate them."
            )
    meaning = "a speed-up smaller than that counts as no difference."
    if experiment.sweep is Sweep.ADAPTIVE:
        meaning = "each arm is compared with the baseline that served beside it."
    for item in moved:
        if item.shown:
            notes.append(
                f"{item.variant} moved by {item.ratio - 1:+.1%} between {item.first} and {item.second} "
                f"({item.cause}): {meaning}"
            )
    return tuple(notes)


def _together(levels: Sequence[AtLevel]) -> tuple[str, ...]:
    """Loads that several clients were to measure together and did not."""
    return tuple(apart(record for at in levels for each in at.arms.values() for record in each.block.records))


def _impossible(arms: Mapping[Key, Measured]) -> list[str]:
    """Figures that no server can reach, each with the arms and cases that it was found in."""
    found: dict[tuple[str, str], list[str]] = {}
    for (variant, case), each in arms.items():
        for why in each.arm.impossible:
            found.setdefault((variant, why), []).append(case)
    return [
        f"IMPOSSIBLE: {variant} in {', '.join(cases)}: {why}. No such figure is shown or used."
        for (variant, why), cases in found.items()
    ]
