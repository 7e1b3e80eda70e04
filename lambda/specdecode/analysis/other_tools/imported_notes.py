"""Notes for readers of LLMPerf results, found from the figures themselves."""

from collections.abc import Iterator, Sequence

from specdecode.analysis.other_tools.imported import FIELDS, LLMPERF, MEANS, ImportedArm
from specdecode.analysis.results.numbers import times
from specdecode.analysis.results.pairs import Pair
from specdecode.experiment.model import Experiment
from specdecode.experiment.step import most_tokens
from specdecode.measures.plausibility import AGREE, LENGTHS, ORDERED, differ, disordered, too_busy, unlike_rows
from specdecode.speculation.theory import speedup

BOS = 1.5
"""A count this far above the tokens asked for is a begin-of-sequence token; further, another tokenizer."""
COLD = 5.0
"""Largest TTFT over the median from which on a cold request is in the means."""
TYPICAL_C = 0.1
"""Draft cost at which the bound of pure speculation is stated: lower than any measured on Trainium2."""


def warnings(arms: Sequence[ImportedArm], pairs: Sequence[Pair], experiment: Experiment) -> Iterator[str]:
    """One or two sentences for each thing that the original figures hide."""
    tools = dict.fromkeys(arm.tool for arm in arms)
    named = " and ".join("LLMPerf" if tool == LLMPERF else tool for tool in tools)
    yield (
        f"Imported from {named}, without what was sent and answered: equality, tokens per step and acceptance "
        "cannot be told, nor whether both arms got the same prompts."
    )
    yield from (f"{tool}: {MEANS[tool]}." for tool in tools if tool in MEANS)
    if bare := [arm.name for arm in arms if arm.tool != LLMPERF and not arm.requests]:
        yield (
            f"{', '.join(bare)}: the file holds statistics and no requests, so no throughput of a request is known. "
            "`vllm bench serve --save-result --save-detailed` writes them."
        )
    if len(tools) > 1:
        yield (
            "The arms were measured by different tools, whose clocks begin and end at different moments: compare with "
            "care."
        )
    for arm in arms[1:]:
        found = unlike(arms[0], arm, experiment)
        if arms[0].model != arm.model:  # perhaps on purpose: other weights, or another path of the same weights
            found.append(_models(arms[0], arm))
        if found:
            yield f"{arm.name} and {arms[0].name} differ in more than the arm: {'; '.join(dict.fromkeys(found))}."
    for arm in arms:
        yield from (f"CONTRADICTION in the files of {arm.name}: {found}." for found in contradictions(arm))
    yield from _counts(arms)
    yield from _statistics(arms)
    yield from _mixed(pairs, experiment)


def unlike(base: ImportedArm, other: ImportedArm, experiment: Experiment) -> list[str]:
    """Every condition (load, lengths of prompts, sampling) in which two arms differ; and the model, unless the user
    said that its quantization does. The lengths of answers are judged as in a run.
    """
    quantizations = {experiment.variant(arm.name).quantization for arm in (base, other)}
    models = [_models(base, other)] if base.weights != other.weights and len(quantizations) == 1 else []
    return models + [
        f"{key} is {base.conditions.get(key, 'not said')} and {other.conditions.get(key, 'not said')}"
        for key in base.conditions | other.conditions
        if key != LENGTHS[1] and differ(key, base.conditions.get(key), other.conditions.get(key))
    ]


def _models(base: ImportedArm, other: ImportedArm) -> str:
    return f"model is {base.model} and {other.model}"


def contradictions(arm: ImportedArm) -> list[str]:
    """Contradictions within one arm's own files."""
    found = []
    late = sum(
        request["ttft_s"] > request["end_to_end_latency_s"] * (1 + AGREE)
        for request in arm.requests
        if request.keys() >= {"ttft_s", "end_to_end_latency_s"}
    )
    if late:
        found.append(f"the first token came after the end of the answer in {late} of {len(arm.requests)} requests")
    for statistic in (*ORDERED, "mean"):
        ttft, e2e = arm.value("ttft", statistic), arm.value("end_to_end_latency", statistic)
        if ttft and e2e and ttft > e2e * (1 + AGREE):
            found.append(f"the {statistic} TTFT of {ttft:g} s is above the {statistic} end-to-end latency of {e2e:g} s")
    if arm.requests and len(arm.requests) != arm.completed:
        found.append(f"the summary counts {arm.completed} completed requests, the list of them has {len(arm.requests)}")
    counted = arm.counted * arm.completed if arm.tool == LLMPERF and arm.counted else arm.total_tokens
    latencies = [request["end_to_end_latency_s"] for request in arm.requests if "end_to_end_latency_s" in request]
    if arm.concurrency and arm.overall_throughput:
        found += filter(None, [too_busy(latencies, counted / arm.overall_throughput, arm.concurrency)])
    for field, metric in FIELDS.items():
        if stated := (arm.stated or arm.metrics).get(metric):
            found += disordered(field, stated)
            found += unlike_rows(field, stated, [request[field] for request in arm.requests if field in request])
    return found


def _counts(arms: Sequence[ImportedArm]) -> Iterator[str]:
    off = [arm for arm in arms if arm.counted and arm.counted > arm.max_tokens + BOS]
    for arm in off:
        counted = arm.counted or 0.0
        yield (
            f"{arm.name}: {counted:g} output tokens were counted where the server was asked for {arm.max_tokens} at "
            f"most ({counted / arm.max_tokens - 1:+.0%}): perhaps the text was counted again with another tokenizer. "
            f"Throughput and time per token here use {arm.max_tokens}."
        )
    if by_bos := [arm.name for arm in arms if arm.counted and arm.max_tokens < arm.counted <= arm.max_tokens + BOS]:
        yield (
            f"{', '.join(by_bos)}: one token more than asked for was counted, as a begin-of-sequence token would "
            "explain; corrected."
        )
    if off and len(off) < len(arms):
        yield "The arms' tokens were counted differently: their original throughputs cannot be compared at all."
    if stock := [arm.name for arm in arms if arm.itl_formula == "stock"]:
        yield (
            f"{', '.join(stock)}: inter-token latency is LLMPerf's own, end-to-end latency over streamed chunks. With "
            "speculation a chunk holds several tokens, so it says the opposite of the truth; it is not used here."
        )


def _statistics(arms: Sequence[ImportedArm]) -> Iterator[str]:
    if all((known := arm.best_known("request_output_throughput")) and known[0] == "p99" for arm in arms):
        best = " and ".join(f"{arm.value('request_output_throughput', 'p99') or 0.0:.1f}" for arm in arms)
        yield (
            f"Only 99th percentiles were kept. Of a throughput that is the best request ({best} tokens/s published), "
            "of a latency the worst: the two describe different requests, and neither is typical. Compare medians, and "
            "the low tail of throughput."
        )
    for arm in arms:
        largest, median = arm.value("ttft", "max"), arm.value("ttft", "p50")
        if largest and median and largest > COLD * median:
            yield (
                f"{arm.name}: its means hold at least one slow first token (cold request? TTFT up to {largest:.0f} s, "
                f"median {median:.2f} s); it may have had no warm-up. Medians are compared."
            )
    rates = [arm.tokens / mean for arm in arms[:2] if (mean := arm.value("end_to_end_latency", "mean"))]
    if len(rates) == 2 and rates[0]:
        before, after = (arm.value("request_output_throughput", "mean") for arm in arms[:2])
        published = before and after and all(arm.tool == LLMPERF for arm in arms[:2])
        original = f" (as published {times((after or 0.0) / (before or 1.0))})" if published else ""
        yield (
            f"On means the throughput went from {rates[0]:.1f} to {rates[1]:.1f} tokens/s, "
            f"{times(rates[1] / rates[0])}{original}."
        )


def _mixed(pairs: Sequence[Pair], experiment: Experiment) -> Iterator[str]:
    for pair in pairs:
        variant = experiment.variant(pair.variant)
        if {"speculation", "quantization"} <= {*pair.changes} and variant.speculation:
            k = variant.speculation.num_speculative_tokens
            bound = speedup(1.0, k, TYPICAL_C, most=most_tokens(experiment, variant))
            yield (
                f"{pair.variant} differs from {pair.baseline} in quantization as well as in speculation: the speed-up "
                f"is of both together. Speculation alone with k={k} could give {times(bound)} at most at a draft cost "
                f"of {TYPICAL_C} steps. Measure the quantized model without speculation to tell them apart."
            )
