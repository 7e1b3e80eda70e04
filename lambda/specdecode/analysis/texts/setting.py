"""Conditions of an answer: what ran, at which load, how sure. One text for every form of the report."""

from specdecode.analysis.loads.objective import carried, limits
from specdecode.analysis.results.comparison import Comparison
from specdecode.analysis.results.pairs import Pair
from specdecode.analysis.results.run_context import Served
from specdecode.analysis.statistics.groups import MIN_TYPES
from specdecode.analysis.texts.decide import about, decided
from specdecode.escape import counted
from specdecode.experiment.capacity import TERMS
from specdecode.experiment.model import CompileOn, ImportedExperiment
from specdecode.experiment.variants import Variant
from specdecode.experiment.workload import Load

ORDER = {
    Load.INTERLEAVED: "arms alternate",
    Load.SEQUENTIAL: "one arm after the other",
    Load.SIMULTANEOUS: "all arms at once",
}
NOT_SAID = {"additional_sampling_params_temperature": "sampling"}
"""What a tool may have recorded of the load -> how it is called."""
SPEEDUP = (
    "unless another figure is named: output tokens a second of whole requests, the wait for the first token included; "
    "of several prompt types the geometric mean, each type with the same weight"
)
NEXT = "Next (speed-ups of decoding alone, per token after the first)"
MOST_ARMS = 4
"""Up to this many arms are each listed. report.json and report.csv always have all."""


def setting(comparison: Comparison) -> dict[str, str]:
    """Model, arms of the answer, engine, node, load and certainty. What is not known is not there."""
    best = about(comparison)
    facts = {
        "Model": _model(comparison),
        "Arms": _arms(comparison, best),
        **_engine(comparison),
        "Compiled": _compiled(comparison),
        "Prompts": _prompts(comparison),
        "Load": _load(comparison),
        "Speed-up": SPEEDUP if best else "",
        "SLO": objective(comparison),
        "How sure": _sure(best, comparison),
    }
    return {name: text for name, text in facts.items() if text}


def winner(comparison: Comparison) -> Served | None:
    """How the recommended arm was served. None if that is not known or nothing was compared."""
    name = decided(comparison).serve
    return next((item for item in comparison.context.served if item.variant == name), None)


def _model(comparison: Comparison) -> str:
    experiment = comparison.experiment
    parallel, batch, window = map(experiment.served_in_words, ("tensor_parallel_size", "max_num_seqs", "max_model_len"))
    if not batch:
        return experiment.target.id
    return f"{experiment.target.id}, tensor parallel {parallel}, up to {batch} sequences of {window} tokens"


def _arms(comparison: Comparison, pair: Pair | None) -> str:
    arms = [comparison.experiment.variant(name) for name in ((pair.baseline, pair.variant) if pair else ())]
    return " against ".join(f"{arm.name} ({_what(arm)})" for arm in arms)


def _what(variant: Variant) -> str:
    spec = variant.speculation
    numbers = "" if variant.address or variant.quantization is None else f"{variant.quantization}, "
    if spec is None:
        return variant.address or f"{numbers}{'no speculation' if variant.k == 0 else 'speculation not recorded'}"
    return f"{numbers}draft {spec.draft.id}, {spec.k_in_words}, {spec.method.value}"


def _engine(comparison: Comparison) -> dict[str, str]:
    experiment, context = comparison.experiment, comparison.context
    if experiment.served_by is None:
        return {}
    found = {"Engine": context.versions.get("engine", experiment.served_by)}
    if context.node and context.capacity_type != "none":
        devices = experiment.devices
        share = f", {devices} of {context.devices_per_node} devices for each arm" if devices else ""
        found["Node"] = f"{context.node} {TERMS[context.capacity_type]}{share}"
    if context.start_check:
        found["Start check"] = f"passed with tiny models, before anything was compiled: {context.start_check}"
    return found


def _compiled(comparison: Comparison) -> str:
    """Which node compiled each artifact, for a run that asked for CPU nodes."""
    found = comparison.context.compiled
    ahead = [one.variant for one in found if one.on is CompileOn.CPU]
    refused = [one.variant for one in found if one.refused]
    before = [one.variant for one in found if one.on is CompileOn.ACCELERATOR and not one.refused]
    said = (
        (ahead, "on CPU nodes before the node was held (their cost is not in the figures)"),
        (refused, "on the node, since what a CPU node had compiled did not load"),
        (before, "on the node in an earlier run"),
    )
    return "; ".join(f"{', '.join(names)} {words}" for names, words in said if names)


def _prompts(comparison: Comparison) -> str:
    """Sets of prompts that were measured, each with the hash of its file."""
    found = [
        " ".join(part for part in (each.name, each.version, f"({each.licence})" if each.licence else "") if part)
        + f", SHA-256 {each.sha256}"
        for each in comparison.context.sets
    ]
    return f"set{'s' if len(found) > 1 else ''} {'; '.join(found)}" if found else ""


def _load(comparison: Comparison) -> str:
    if isinstance(comparison.experiment, ImportedExperiment):
        return _recorded(comparison, comparison.experiment)
    load, times = comparison.experiment.workload, comparison.experiment.rounds
    pace = load.load_in_words
    rounds = f" in each of {times} rounds" if times > 1 else ""
    most = max(load.requests_of(case, level) for case in load.cases for level in load.levels)
    asked = [case.requests or load.requests.max for case in load.cases]
    each = f"{f'{min(asked)} to ' if min(asked) < max(asked) else ''}{counted(max(asked), 'request')}"
    each = each if load.requests.precision is None else str(load.requests)
    each += f" (up to {most:,} at large loads)" if most > max(asked) else ""
    if seconds := comparison.context.load_seconds:
        each = f"requests for {seconds:g} s"
    sampling = "greedy" if load.temperature == 0 else f"temperature {load.temperature:g}"
    return (
        f"{each} per prompt type and arm{rounds}, {pace}, about {load.input_tokens} tokens in and "
        f"{load.output_tokens} out, {sampling}{f', {ORDER[load.load]}' if comparison.experiment.variants[1:] else ''}"
    )


def _recorded(comparison: Comparison, experiment: ImportedExperiment) -> str:
    """The load of arms that another tool measured: requests, and what its files say of them."""
    alike: dict[str, list[str]] = {}
    for arm in comparison.arms:
        said = [f"{key} {value}" for key, value in experiment.recorded.get(arm.variant, {}).items()]
        alike.setdefault(", ".join([counted(arm.requests, "request"), *said]), []).append(arm.variant)
    parts = [f"{said} ({'each arm' if len(alike) == 1 else ', '.join(names)})" for said, names in alike.items()]
    missing = [word for key, word in NOT_SAID.items() if not any(key in own for own in experiment.recorded.values())]
    return f"{'; '.join(parts)}. Not recorded: {', '.join([*missing, 'the prompts, and the order of the arms'])}"


def objective(comparison: Comparison) -> str:
    """Loads that the arms carry within the service-level objective. Of many arms: the best one and its baseline."""
    found = comparison.objective
    if len(found) > MOST_ARMS and (best := about(comparison)):
        found = tuple(each for each in found if each.variant in (best.baseline, best.variant))
    of = ", of the loads measured" if len(comparison.experiment.workload.levels) > 1 else ""
    carry = "; ".join(map(carried, found))
    return f"{limits(comparison.experiment.workload.slo)}: {carry}{of}" if found else ""


def _sure(pair: Pair | None, comparison: Comparison) -> str:
    """What the intervals cover, and what they do not."""
    if pair is None or not any(case.headline for case in pair.cases):
        alone = "since no two arms were compared" if pair is None else "since nothing tells what requests vary by"
        return f"figures of one run without an interval, {alone}: another day may differ"
    one_prompt = [case.distinct_prompts == 1 for case in pair.cases]
    over = "the requests of each prompt" if all(one_prompt) else "the prompts of each type"
    if any(one_prompt) and not all(one_prompt):
        over += " (of a type with one prompt: its requests)"
    if isinstance(comparison.experiment, ImportedExperiment):
        over = "the requests that the files list"
    few = [found.group for found in pair.kinds if found.group != "all" and len(found.judged) < MIN_TYPES]
    short = f" There are fewer than {MIN_TYPES} {' and '.join(few)} prompt types: other types may differ."
    return (
        f"each 95% interval is over {over}, in this one run: it does not cover another day, node or machine load "
        f"(repeat the run, then: specdecode compare RUN RUN …).{short if few else ''}"
    )
