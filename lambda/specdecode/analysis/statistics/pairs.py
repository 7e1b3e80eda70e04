"""One arm against another: every case, with whether both wrote the same text, and the groups of cases."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from specdecode.analysis.results.pairs import HEADLINE, CaseResult, Difference, Equality, GroupName, Pair, Verdict
from specdecode.analysis.results.run_context import DeviceGroup
from specdecode.analysis.statistics import pairing
from specdecode.analysis.statistics.groups import Stats, among_arms, compared_arms, group
from specdecode.analysis.statistics.measured import SPEEDUPS
from specdecode.analysis.statistics.shared_noise import shared_noise
from specdecode.analysis.statistics.verdict import (
    LENGTH,
    distrust,
    estimate,
    impossible_figures,
    judge,
    judge_loss,
    lengths_apart,
    too_many_failed,
)
from specdecode.experiment.model import Experiment
from specdecode.experiment.variants import Variant
from specdecode.experiment.workload import TestCase
from specdecode.measures.arm import Key, Measured
from specdecode.measures.arm_case import ArmCase
from specdecode.measures.observations import settled
from specdecode.measures.plausibility import WATCH_S, hidden
from specdecode.measures.student import LogMean, with_shared
from specdecode.records import RequestRecord

GROUPS: tuple[GroupName, ...] = ("all", "structured", "open-ended")
CONTEXT_CHARS = 60
TEMPLATE = 50
"""Tokens by which the chat templates of two servers may differ."""
LENGTHS_DIFFER = 0.01
"""Relative difference of mean output tokens above which the report has a note."""


def changes(experiment: Experiment, base: Variant, other: Variant) -> tuple[str, ...]:
    """Differences between two arms, in the words of the report."""
    before, after = base.speculation, other.speculation
    differ = {"speculation": (before is None) != (after is None)}
    if before and after:
        differ["draft"] = before.draft != after.draft
        differ["k"] = before.k_in_words != after.k_in_words
        differ["method"] = before.method != after.method
    differ["quantization"] = base.quantization != other.quantization
    weights = (base.target or experiment.target) != (other.target or experiment.target)
    differ["weights"] = weights and not differ["quantization"]
    found = tuple(name for name, differs in differ.items() if differs)
    return found or (("settings",) if base.own_settings != other.own_settings else ())


def compare_pair(
    *,
    experiment: Experiment,
    base: Variant,
    other: Variant,
    arms: Mapping[Key, Measured],
    held: Sequence[DeviceGroup] = (),
) -> Pair | None:
    """Compare `other` with `base` in every case that both were loaded with; None if there is none. `held`: devices."""
    both = {
        case.name: (arms[base.name, case.name], arms[other.name, case.name])
        for case in experiment.workload.cases
        if {(base.name, case.name), (other.name, case.name)} <= arms.keys()
    }
    if not both:
        return None
    measured = pairing.rounds_of_both(*zip(*both.values(), strict=True))
    weights, swapped = pairing.balanced(base.name, other.name, measured, held)
    reach = {metric: pairing.wave_reach(arms, both.values(), metric) for metric in SPEEDUPS}
    stats = {name: pairing.speedups(*pair, weights, reach) for name, pair in both.items()}
    for metric in SPEEDUPS:
        seen = {name: pairing.rounds_seen(*pair, metric) for name, pair in both.items()}
        for name, noise in shared_noise(seen, weights=weights, swapped=swapped).items():
            if metric in stats[name]:
                stats[name][metric] = with_shared(stats[name][metric], noise)
    results = [
        (_compare_case(experiment, case, *both[case.name], stats[case.name]), stats[case.name])
        for case in experiment.workload.cases
        if case.name in both
    ]
    return assemble(experiment=experiment, base=base, other=other, results=results)


def assemble(
    *, experiment: Experiment, base: Variant, other: Variant, results: Sequence[tuple[CaseResult, Stats]]
) -> Pair:
    """The pair from its cases' results. If a figure is impossible, nothing of it is judged."""
    changed = changes(experiment, base, other)
    impossible = impossible_figures(experiment, base, other, changed, [result for result, _ in results])
    judged = [
        stats[HEADLINE] for result, stats in results if result.comparable and not result.late and HEADLINE in stats
    ]
    pair = Pair(
        variant=other.name,
        baseline=base.name,
        changes=changed,
        cases=tuple(result for result, _ in results),
        groups=tuple(found for name in GROUPS if (found := group(name, results))),
        among=among_arms(judged, arms=compared_arms(experiment)),
    )
    return distrust(pair, impossible) if impossible else pair


def case_result(
    *,
    case: TestCase,
    base: ArmCase,
    other: ArmCase,
    stats: Stats,
    method: str,
    same: Equality,
    distinct_prompts: int,
    notes: Sequence[str],
    lengths: LogMean | None = None,
    ends_early: bool = False,
) -> CaseResult:
    """Verdict and figures of one case. `lengths`: as for `lengths_apart`. `ends_early`: its requests could have, so a
    loss needs as many prompts.
    """
    estimates = {metric: estimate(metric, stat, method=method) for metric, stat in stats.items()}
    headline = estimates.get(HEADLINE)
    verdict, reason, settle = judge(headline)
    if ends_early and headline and verdict is Verdict.COSTS:
        headline, (verdict, reason, settle) = judge_loss(headline)
        estimates[HEADLINE] = headline
    failed, apart = too_many_failed(base, other), lengths_apart(lengths)
    if impossible := (*base.impossible, *other.impossible):
        verdict, reason, settle = Verdict.DISTRUST, impossible[0], ""
    elif late := [arm.variant for arm in (base, other) if arm.late]:
        verdict = Verdict.CANNOT_TELL
        settle = "a run in which the load generator keeps up (nothing else on its machine), with longer answers"
        reason = (
            f"the load generator fell behind while it loaded {' and '.join(late)}, or answers came whole in less than "
            f"{WATCH_S * 1000:.0f} ms, so no time is sure"
        )
    elif failed:
        verdict, reason, settle = Verdict.CANNOT_TELL, failed, "a run in which they do not fail"
    elif apart:
        verdict, reason, settle = Verdict.CANNOT_TELL, apart, "answers of equal length (ignore_eos)"
    elif not headline and (why := _no_headline(base, other)):
        reason, settle = why, ""
    elif distinct_prompts == 1 and headline and headline.n > 1:
        reason = f"{reason}; all requests sent one prompt, so this is about that prompt"
    return CaseResult(
        case=case.name,
        structured=case.structured,
        verdict=verdict,
        reason=reason,
        settle=settle,
        comparable=headline is not None and failed is None and not apart,
        impossible=bool(impossible),
        late=base.late or other.late,
        headline=headline,
        speedups=tuple(estimates.values()),
        pairs=headline.n if headline else 0,
        distinct_prompts=distinct_prompts,
        equality=same,
        notes=tuple(notes),
    )


def _no_headline(base: ArmCase, other: ArmCase) -> str:
    """Why two arms that completed requests have no headline; empty if one of them completed none."""
    missing = [
        f"{arm.variant}: {why}" for arm in (base, other) if arm.completed and (why := arm.no_value.get(HEADLINE))
    ]
    apart = "no prompt was completed by both arms in the same round" if base.completed and other.completed else ""
    return f"the tokens per second are not known of {'; of '.join(missing)}" if missing else apart


def _compare_case(experiment: Experiment, case: TestCase, base: Measured, other: Measured, stats: Stats) -> CaseResult:
    records = other.block.records
    same = equality(base=base.block.records, other=records, temperature=experiment.workload.temperature)
    prompts = len({record.prompt_sha256 for record in records})
    method = pairing.ONE_PROMPT if prompts == 1 and len(records) > 1 else pairing.METHOD
    return case_result(
        case=case,
        base=base.arm,
        other=other.arm,
        stats=stats,
        method=pairing.STOPPED_EARLY if base.stopped_early or other.stopped_early else method,
        same=same,
        distinct_prompts=prompts,
        notes=[*_notes(base.arm, other.arm, same, prompts), *_sent(experiment, case, base, other, stats.get(HEADLINE))],
        lengths=pairing.paired(base, other, LENGTH, 0.0),
        ends_early=experiment.workload.requests.precision is not None,
    )


def _notes(base: ArmCase, other: ArmCase, same: Equality, prompts: int) -> Iterator[str]:
    if prompts == 1 and other.requests > 1:
        yield (
            "All requests sent one and the same prompt: the interval covers timing noise, not other prompts "
            "of this type."
        )
    lengths = [s.mean for arm in (base, other) if (s := arm.metrics.get("output_tokens")) and s.mean]
    if len(lengths) == 2 and abs(lengths[1] / lengths[0] - 1.0) > LENGTHS_DIFFER:
        yield (
            f"The arms wrote texts of different length ({lengths[0]:.0f} and {lengths[1]:.0f} tokens on average): "
            "end-to-end latency is not comparable, nor quite tokens per second, which have the time to the first token "
            "in them."
        )
    prompts_of = [s.mean for arm in (base, other) if (s := arm.metrics.get("input_tokens")) and s.mean]
    if len(prompts_of) == 2 and abs(prompts_of[1] - prompts_of[0]) > TEMPLATE + LENGTHS_DIFFER * max(prompts_of):
        yield (
            f"The arms count the same prompts as {prompts_of[0]:,.0f} and {prompts_of[1]:,.0f} tokens on average: one "
            "of them adds text, cuts some off, or counts wrongly, so their times to the first token are not comparable."
        )
    if same.expected and same.identical < same.compared:
        yield (
            f"{same.compared - same.identical} of {same.compared} outputs differ although decoding is greedy; "
            "rounding in a different order is enough for that, a wrong verification step too. See the first difference."
        )
    if failed := base.failed + other.failed:
        yield f"{failed} requests failed and are in no speed figure; their time is in cost and throughput."


def _sent(
    experiment: Experiment, case: TestCase, base: Measured, other: Measured, found: LogMean | None
) -> Iterator[str]:
    """How often a prompt was sent again; and of a workload that may end early how many requests were sent, and why."""
    records, load = other.block.records, experiment.workload
    ids, asked = {record.prompt_id for record in records}, len({record.index - record.turn for record in records})
    if None not in ids and 1 < len(ids) < asked:
        yield f"{asked} prompts were sent, {len(ids)} of them different: each of these counts once in the interval."
    if load.requests.precision is None:
        return
    sent = 1 + max(record.index for record in records)
    if base.stopped_early or other.stopped_early:
        most = load.requests_of(case, load.levels[0])
        why = settled(found, load.requests.precision) or "by its first round, and no longer by all of them"
        yield f"Measuring ended after {sent} of at most {most} requests: the speed-up was settled, {why}."
    else:
        yield f"All {sent} requests were sent: the speed-up was not settled before."


def equality(*, base: Sequence[RequestRecord], other: Sequence[RequestRecord], temperature: float) -> Equality:
    """Compare outputs of requests with the same prompt, of the same round if both arms have it, else of the first."""
    fine = [record for record in base if record.error is None]
    by_round = {(record.round, record.index): record for record in fine}
    first_round = {record.index: record for record in reversed(fine)}
    compared = identical = from_start = 0
    counted: list[tuple[RequestRecord, RequestRecord]] = []
    differences: list[Difference] = []
    for record in other:
        twin = by_round.get((record.round, record.index)) or first_round.get(record.index)
        if record.error is not None or twin is None or twin.prompt_sha256 != record.prompt_sha256:
            continue
        compared += 1
        if twin.output == record.output:
            identical += 1
            if twin.completion_tokens is not None and record.completion_tokens is not None:
                counted.append((twin, record))
        else:
            differences.append(_difference(twin.output, record))
            from_start += differences[-1].at < _first_token_chars(twin)
    return Equality(
        compared=compared,
        identical=identical,
        from_start=from_start,
        identical_tokens=(_tokens(each for each, _ in counted), _tokens(each for _, each in counted)),
        hidden_tokens=max(hidden(each for each, _ in counted), hidden(each for _, each in counted)),
        counted=len(counted),
        expected=temperature == 0,
        first=min(differences, key=lambda difference: difference.at, default=None),
    )


def _tokens(records: Iterable[RequestRecord]) -> int:
    return sum(record.completion_tokens or 0 for record in records)


def _first_token_chars(record: RequestRecord) -> int:
    """Characters of the answer's first token: mean over its first chunk. 1 if this is not known."""
    first = next(iter(record.chunks), None)
    return max(1, first.chars // max(1, first.tokens or first.chars)) if first else 1


def _difference(base: str, other: RequestRecord) -> Difference:
    at = next((i for i, (a, b) in enumerate(zip(base, other.output, strict=False)) if a != b), None)
    at = min(len(base), len(other.output)) if at is None else at
    return Difference(
        index=other.index,
        round=other.round,
        at=at,
        before=base[max(0, at - CONTEXT_CHARS) : at],
        base=base[at : at + CONTEXT_CHARS],
        other=other.output[at : at + CONTEXT_CHARS],
    )
