"""`compare`: records and context in, the answer out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from specdecode.analysis.accuracy import accuracy_changes
from specdecode.analysis.arms import Key, busy_seconds, by_arm, describe_arm
from specdecode.analysis.context import RunContext
from specdecode.analysis.drift import drifts, margin
from specdecode.analysis.metrics import METRICS
from specdecode.analysis.pairs import compare_pair
from specdecode.analysis.prediction import most_merged, theories
from specdecode.analysis.result import ArmCase, Chain, Comparison, Drift, Pair, RunCost
from specdecode.analysis.wording import answer
from specdecode.benchmark.records import RequestRecord
from specdecode.experiment.model import Experiment, Sweep, Variant

MAX_LAG_S = 0.005
"""Delay of the client's own event loop above which its times are doubtful (benchmark/records.py)."""

MERGED = 1.02
"""Tokens per chunk of an arm without speculation above which chunks are evidently merged on the way."""


def compare(*, experiment: Experiment, records: Iterable[RequestRecord], context: RunContext) -> Comparison:
    """Compare every arm of `experiment` with the one it names in `compare_to`.

    Records of warm-up requests, and of arms or cases that the experiment does not know, are left out (the latter with
    a note). Nothing is read or written.
    """
    known = {(variant.name, case.name) for variant in experiment.variants for case in experiment.workload.cases}
    everything = by_arm(records)
    groups = {key: group for key, group in everything.items() if key in known}
    variants = {variant.name: variant for variant in experiment.variants}
    arms: dict[Key, ArmCase] = {
        key: describe_arm(
            experiment=experiment, variant=variants[key[0]], case=key[1], records=groups[key], context=context
        )
        for variant in experiment.variants
        for case in experiment.workload.cases
        if (key := (variant.name, case.name)) in groups
    }
    moved = drifts(
        variants=tuple(variants),
        cases=[case.name for case in experiment.workload.cases],
        records=groups,
        device_groups=context.device_groups,
    )

    def pair(base: Variant, other: Variant) -> Pair | None:
        return compare_pair(
            experiment=experiment,
            base=base,
            other=other,
            records=groups,
            arms=arms,
            drift=1.0 if experiment.sweep is Sweep.ADAPTIVE else margin(moved, base.name),
        )

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
    measured = [record for group in groups.values() for record in group]
    return Comparison(
        run_id=context.run_id,
        title=experiment.title,
        answer=answer(pairs=pairs),
        experiment=experiment,
        context=context,
        created_at=context.finished_at,
        metrics=tuple(metric.info for metric in METRICS),
        arms=tuple(arms.values()),
        pairs=tuple(pairs),
        chains=tuple(chains),
        drift=moved,
        accuracy=tuple(accuracy_changes(context.accuracy, pairs)),
        theory=theories(experiment=experiment, pairs=pairs),
        cost=_run_cost(context=context, records=measured),
        notes=_notes(experiment, context, arms, measured, moved, sorted(everything.keys() - known)),
        files=tuple(f"raw/{variant}/{case}.jsonl" for variant, case in arms),
    )


def _path_from_root(variants: dict[str, Variant], last: Variant) -> list[str]:
    path = [last.name]
    while (before := variants[path[0]].compare_to) is not None and before not in path:
        path.insert(0, before)
    return path


def _about_endpoints(experiment: Experiment) -> list[str]:
    """What is not known where the arms are servers that already ran."""
    if not experiment.has_endpoints:
        return []
    unpriced = [variant.name for variant in experiment.variants if variant.price_per_hour is None]
    price = f" Without price_per_hour there are no dollars per million tokens ({', '.join(unpriced)})."
    return [
        "The arms are servers that already ran: what they ran on, with which settings, and who else asked them "
        f"meanwhile is not known here.{price if unpriced else ''}"
    ]


def _run_cost(*, context: RunContext, records: Sequence[RequestRecord]) -> RunCost | None:
    if context.price_per_node_hour is None:
        return None
    measured = busy_seconds(records)
    held = context.node_seconds
    return RunCost(
        price_per_node_hour=context.price_per_node_hour,
        node_hours=held / 3600.0 if held is not None else None,
        total=held / 3600.0 * context.price_per_node_hour if held is not None else None,
        measured_seconds=measured,
        utilization=measured / held if held else None,
        output_tokens=sum(record.completion_tokens or 0 for record in records if record.error is None),
    )


def _notes(
    experiment: Experiment,
    context: RunContext,
    arms: dict[Key, ArmCase],
    records: Sequence[RequestRecord],
    moved: Sequence[Drift],
    unknown: Sequence[Key],
) -> tuple[str, ...]:
    """What a reader must know before believing the figures."""
    notes = [*context.notes, *_about_endpoints(experiment)]
    left_out = [v.name for v in experiment.variants if not any(arm.variant == v.name for arm in arms.values())]
    if context.sweep and left_out:
        measured, all_arms = len(experiment.variants) - len(left_out), len(experiment.variants)
        notes.append(f"The sweep measured {measured} of {all_arms} arms. {context.sweep[-1].reason}")
    else:
        notes += [f"The arm {name} was not measured: nothing here is about it." for name in left_out]
    if unknown:
        listed = ", ".join("/".join(key) for key in unknown[:5])
        notes.append(f"Records of arms or cases that the experiment does not have were left out: {listed}.")
    lagging = sum(record.time_doubt_s > MAX_LAG_S for record in records)
    if lagging:
        notes.append(
            f"In {lagging} of {len(records)} requests the load generator fell behind by more than "
            f"{MAX_LAG_S * 1000:.0f} ms and read several chunks at once: their times are doubtful."
        )
    baselines = [variant.name for variant in experiment.variants if not variant.speculation and not variant.compare_to]
    merged = most_merged([arm for arm in arms.values() if arm.variant in baselines])
    if merged is not None and merged > MERGED:
        notes.append(
            f"An arm without speculation shows up to {merged:.2f} tokens per chunk instead of 1: chunks are merged on "
            "their way, so tokens per step read from the stream are too high in all arms."
        )
    if context.device_groups and not any(item.cause == "device group" for item in moved):
        groups = {frozenset(item.devices) for item in context.device_groups}
        if len(groups) > 1:
            notes.append(
                "The arms ran on different device groups and did not swap them: a difference between the groups would "
                "look like a difference between the arms. Two rounds (workload.rounds=2) separate them."
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
