"""The report from other tools' results: corrected where possible, with notes on what their figures hide."""

import hashlib
import math
from collections.abc import Sequence
from datetime import UTC, datetime

from specdecode.analysis.other_tools.imported import LLMPERF, ImportedArm
from specdecode.analysis.other_tools.imported_notes import contradictions, unlike, warnings
from specdecode.analysis.results.comparison import Comparison
from specdecode.analysis.results.pairs import HEADLINE, CaseResult, Equality, MetricInfo, Verdict
from specdecode.analysis.results.run_context import RunContext
from specdecode.analysis.statistics.groups import Stats
from specdecode.analysis.statistics.measured import BY_NAME, SPEEDUPS
from specdecode.analysis.statistics.pairs import assemble, case_result
from specdecode.analysis.statistics.verdict import LENGTH
from specdecode.analysis.texts.recommend import voiced
from specdecode.experiment.model import ImportedExperiment
from specdecode.experiment.variants import ModelRef, Variant, as_model_id
from specdecode.experiment.workload import ImportedWorkload, PromptKind, TestCase
from specdecode.measures.arm_case import ArmCase
from specdecode.measures.distribution import Summary
from specdecode.measures.metrics.formulas import output_throughput
from specdecode.measures.student import LogMean, combine, welch_log_ratio
from specdecode.names import LONGEST_RUN_ID

CASE = TestCase(
    name="llmperf", label="llmperf", kind=PromptKind.SONNET, structured=None, source="LLMPerf's own sonnets"
)
OTHER = TestCase(
    name="imported", label="imported", kind=PromptKind.TEXT, structured=None, source="what the tool sent, not recorded"
)
"""The case of the comparison if an arm is not LLMPerf's."""
TOKENS = "LLMPerf's count; where it exceeds what was asked for, the tokens asked for"
NORMAL_IQR, MEDIAN_ERROR = 1.349, 1.2533
"""Interquartile range of a standard normal; standard error of its median times sqrt(n)."""
ID_DIGITS = 8
"""Hexadecimal digits of a run's id that tell imports of other results from each other."""
HIGHER = ("request_output_throughput", "tokens_per_step", LENGTH)
NO_EQUALITY = Equality(compared=0, identical=0, expected=False, first=None)


def compare_imported(*, arms: Sequence[tuple[ImportedArm, Variant]], title: str) -> Comparison:
    """Compare imported arms. The first is the baseline of all others. A token count above what the server was asked for
    comes from another tokenizer: it is corrected, and with it throughput and time per output token. Single requests are
    compared by Welch's t, else medians, with a standard error from the interquartile range.
    """
    case = CASE if all(arm.tool == LLMPERF for arm, _ in arms) else OTHER
    experiment = _experiment(arms, title, case)
    described = {variant.name: _arm(arm, variant, case) for arm, variant in arms}
    (base, base_variant), *others = arms
    pairs = []
    for other, variant in others:
        arm_cases = described[base_variant.name], described[variant.name]
        result, stats = _case(base, other, case, *arm_cases, doubts=unlike(base, other, experiment))
        pairs.append(assemble(experiment=experiment, base=base_variant, other=variant, results=[(result, stats)]))
    moments = [datetime.fromtimestamp(arm.timestamp, UTC) for arm, _ in arms]
    names = "-".join(arm.name for arm, _ in arms)
    measured = hashlib.sha256("\n".join(arm.model_dump_json() for arm, _ in arms).encode()).hexdigest()[:ID_DIGITS]
    context = RunContext(
        run_id=f"{f'import-{names}'[: LONGEST_RUN_ID - ID_DIGITS - 1]}-{measured}",
        started_at=min(moments),
        finished_at=max(moments),
        source=f"{' and '.join(dict.fromkeys(arm.tool for arm, _ in arms))}, imported",
    )
    found = Comparison(
        run_id=context.run_id,
        title=title,
        answer="",
        experiment=experiment,
        context=context,
        metrics=_metric_infos(case),
        arms=tuple(described.values()),
        pairs=tuple(pairs),
        chains=(),
        drift=(),
        theory=(),
        cost=None,
        notes=tuple(warnings([arm for arm, _ in arms], pairs, experiment)),
    )
    return voiced(found)


def _case(
    base: ImportedArm, other: ImportedArm, case: TestCase, before: ArmCase, after: ArmCase, *, doubts: Sequence[str]
) -> tuple[CaseResult, Stats]:
    """The result of two imported arms. It has no verdict if they were measured differently (`doubts`), if it is not
    known at which load, or if they contradict themselves.
    """
    stats, method = _log_speedups(base, other, before, after)
    lengths = stats.pop(LENGTH, None)
    result = case_result(
        case=case,
        base=before,
        other=after,
        stats=stats,
        method=method,
        same=NO_EQUALITY,
        distinct_prompts=0,
        notes=(),
        lengths=lengths,
    )
    told: dict[str, object] = {}
    if HEADLINE not in stats:
        told["reason"] = "the files list no requests, so the throughput of a request is not known in both arms"
        told["settle"] = "files with the single requests"
    unsaid = [f"the load is not in the files of {arm.name}" for arm in (base, other) if not arm.load_is_said]
    if doubts := [*unsaid, *doubts]:
        told["reason"] = f"no verdict on figures like these: {'; '.join(doubts[:3])}"
        told |= {"verdict": Verdict.CANNOT_TELL, "settle": "results that were measured alike", "comparable": False}
    return result if result.impossible else result.model_copy(update=told), stats


def _metric_infos(case: TestCase) -> tuple[MetricInfo, ...]:
    """The metrics of an import. Only LLMPerf's tokens are corrected."""
    corrected = ", tokens corrected" if case is CASE else ""
    formulas = {
        "request_output_throughput": f"output tokens / end-to-end latency{corrected}",
        "time_per_output_token": f"(end-to-end latency - TTFT) / (output tokens - 1){corrected}",
        "end_to_end_latency": None,
        "ttft": None,
        "output_tokens": TOKENS if corrected else "as the tool counted them",
        "input_tokens": "tokens asked for, without the chat template" if corrected else "as the tool counted them",
        output_throughput.tag: "output tokens of all completed requests / the tool's own duration of the run",
    }
    return tuple(
        BY_NAME[name].model_copy(update={"formula": formula} if formula else {}) for name, formula in formulas.items()
    )


def _experiment(arms: Sequence[tuple[ImportedArm, Variant]], title: str, case: TestCase) -> ImportedExperiment:
    base = arms[0][0]
    load = {} if base.concurrency is None else {"concurrency": (base.concurrency,)}
    # LLMPerf's `--model` is often a path on the server: then the last part of the path
    is_path = base.model.count("/") > 1 or base.model.startswith("/")
    model = base.model.rstrip("/").rsplit("/", 1)[-1] if is_path else base.model
    return ImportedExperiment(
        name="llmperf-import",
        title=title,
        measured_with=tuple(dict.fromkeys(arm.tool for arm, _ in arms)),
        recorded={
            arm.name: {**({} if arm.weights == base.weights else {"model": arm.weights}), **arm.conditions}
            for arm, _ in arms
        },
        target=ModelRef(id=as_model_id(model) or "unknown", size_gib=1.0),
        variants=tuple(variant for _, variant in arms),
        workload=ImportedWorkload(cases=(case,), **load),
    )


def _arm(arm: ImportedArm, variant: Variant, case: TestCase) -> ArmCase:
    corrected = _corrected(arm)
    tokens = round(arm.total_tokens)
    seconds = 0.0
    if arm.overall_throughput and arm.counted:
        counted = arm.counted * arm.completed if arm.tool == LLMPERF else arm.total_tokens
        seconds = counted / arm.overall_throughput
    return ArmCase(
        variant=variant.name,
        case=case.name,
        requests=arm.completed + arm.errors,
        completed=arm.completed,
        failed=arm.errors,
        errors={f"reported by {arm.tool.partition(' (')[0]}": arm.errors} if arm.errors else {},
        output_tokens=tokens,
        load_seconds=seconds,
        cost_per_million=None,
        metrics=corrected,
        totals={output_throughput.tag: tokens / seconds} if seconds else {},
        no_value={},
        impossible=tuple(contradictions(arm)),
    )


def _corrected(arm: ImportedArm) -> dict[str, Summary]:
    """The arm's figures with corrected output tokens."""
    kept = ("end_to_end_latency", "ttft", "input_tokens", "time_per_output_token")
    found: dict[str, Summary] = {name: arm.metrics[name] for name in kept if name in arm.metrics}
    scale = arm.tokens / arm.counted if arm.counted else 1.0
    if throughput := arm.metrics.get("request_output_throughput"):
        found["request_output_throughput"] = _scaled(throughput, scale)
    itl = arm.metrics.get("inter_token_latency")
    if itl and arm.itl_formula == "neuron" and arm.counted and arm.tokens > 1:
        found["time_per_output_token"] = _scaled(itl, (arm.counted - 1.0) / (arm.tokens - 1.0))
    if "time_per_output_token" not in found:
        e2e, ttft = arm.value("end_to_end_latency", "p50"), arm.value("ttft", "p50")
        if e2e is not None and ttft is not None and arm.tokens > 1:
            found["time_per_output_token"] = Summary(n=arm.completed, p50=(e2e - ttft) / (arm.tokens - 1.0))
    if tokens := arm.metrics.get("output_tokens"):
        found["output_tokens"] = tokens if scale == 1.0 else Summary(n=tokens.n, p50=arm.tokens, mean=arm.tokens)
    return found


def _scaled(summary: Summary, factor: float) -> Summary:
    scaled = {key: value * factor for key, value in summary.model_dump(exclude={"n"}, exclude_none=True).items()}
    return Summary(n=summary.n, **scaled)


def _log_speedups(base: ImportedArm, other: ImportedArm, before: ArmCase, after: ArmCase) -> tuple[Stats, str]:
    """Log speed-up of each metric that both arms have, and their lengths'; and how it was found."""
    found: Stats = {}
    for metric in (*SPEEDUPS, LENGTH):
        sign = 1.0 if metric in HIGHER else -1.0
        if base.requests and other.requests:
            first, second = _values(base, metric), _values(other, metric)
            if len(first) >= 2 and len(second) >= 2:
                stat = welch_log_ratio(second, first)
                found[metric] = stat._replace(mean=sign * stat.mean)
        elif metric in before.metrics and metric in after.metrics:
            parts = _middle(before.metrics[metric]), _middle(after.metrics[metric])
            if parts[0] and parts[1] and parts[0][0] == parts[1][0]:
                stats = parts[1][1], parts[0][1]
                found[metric] = combine(stats, (sign, -sign))._replace(n=min(stat.n for stat in stats))
    if base.requests and other.requests:
        return found, "Welch's t on the log of individual requests"
    return found, "ratio of medians, standard error from the interquartile range"


def _middle(summary: Summary) -> tuple[str, LogMean] | None:
    """The log of the median with its standard error, or of the 99th percentile without one. None if it is not above 0,
    as a time per token is where the first token comes after the end.
    """
    if summary.p50 is not None and summary.p50 > 0:
        variance = df = 0.0
        if summary.p25 is not None and summary.p75 is not None and summary.n > 1:
            deviation = (summary.p75 - summary.p25) / NORMAL_IQR / summary.p50
            variance, df = (MEDIAN_ERROR * deviation) ** 2 / summary.n, summary.n - 1.0
        return "p50", LogMean(math.log(summary.p50), variance, df, summary.n)
    if summary.p99 is not None and summary.p99 > 0:
        return "p99", LogMean(math.log(summary.p99), 0.0, 0.0, summary.n)
    return None


def _values(arm: ImportedArm, metric: str) -> list[float]:
    """One corrected value a request."""
    found: list[float] = []
    for request in arm.requests:
        counted, e2e, ttft = map(request.get, ("number_output_tokens", "end_to_end_latency_s", "ttft_s"))
        tokens = min(counted, float(arm.max_tokens)) if counted else 0.0
        value = {
            "end_to_end_latency": e2e,
            "ttft": ttft,
            LENGTH: tokens,
            "request_output_throughput": tokens / e2e if e2e else None,
            "time_per_output_token": (e2e - ttft) / (tokens - 1.0) if tokens > 1 and e2e and ttft else None,
        }.get(metric)
        if value and value > 0:
            found.append(value)
    return found
