"""Rules of arms beside each other: alike but for what is compared, and fit for a sweep."""

from collections import Counter
from collections.abc import Iterator

from specdecode.experiment.effective import differences
from specdecode.experiment.model import Sweep
from specdecode.experiment.rules.case import Finding, ServedCase
from specdecode.experiment.sizing import clients_of


def alike(case: ServedCase) -> Iterator[Finding]:
    """A default that changes with speculation must be set in the experiment, since nobody chose that difference. A
    setting that the experiment gives one arm alone is a choice: the plan and the report name it.
    """
    experiment, engine = case.experiment, case.engine
    variants = {variant.name: variant for variant in experiment.variants}
    for variant in experiment.variants:
        baseline = variants.get(variant.compare_to or "")
        if baseline is None or (variant.speculation is None) == (baseline.speculation is None):
            continue
        if variant.speculation and variant.speculation.method not in engine.methods:
            continue  # `method` says it
        for found in differences(experiment, variant, baseline, engine):
            if not found.said:
                flag = found.setting.startswith("--")
                where = f"variants.{baseline.name}.extra_args" if flag else "serving.neuron_config"
                message = f"{variant.name} and {baseline.name} differ in {found}, by defaults of {engine.name}"
                fix = f"set it in {where}, so that the arms differ in speculation alone"
                yield f"variants.{variant.name}", message, fix


def same_serving(case: ServedCase) -> Iterator[Finding]:
    """An arm and its baseline are served with the same settings."""
    settings = {each.name: case.experiment.setting_in_words(each) for each in case.experiment.variants}
    for variant in case.experiment.variants:
        here = settings[variant.name]
        if (there := settings.get(variant.compare_to or "", here)) != here:
            message = f"{variant.name} has {here}, and {variant.compare_to} has {there}"
            fix = f"compare it with a baseline that has {here} too (a list in serving makes one for each value)"
            yield f"variants.{variant.name}", message, fix


def reading(case: ServedCase) -> Iterator[Finding]:
    """An arm that reads is a model alone, beside the arm that answers, on an engine that tells what it would write."""
    experiment, engine = case.experiment, case.engine
    answering = [variant.name for variant in experiment.variants if not variant.reads and not variant.speculation]
    for variant in experiment.readers:
        field = f"variants.{variant.name}"
        if variant.reads not in answering:
            message = f"{variant.reads!r} is no arm that answers without speculation"
            yield f"{field}.reads", message, f"name one of {', '.join(answering) or 'them (there is none)'}"
        if variant.speculation or variant.compare_to:
            yield field, "an arm that reads is not loaded", "leave out speculation and compare_to"
        if variant.target is None:
            yield f"{field}.target", "it would read what it wrote itself", "give the draft model as its target"
        if not engine.prompt_logprobs:
            fix = "take 0.32.0-cpu, on a node without devices"
            yield f"{field}.reads", f"{engine.name} gives no prompt_logprobs", fix
    if experiment.readers and (experiment.devices or experiment.sweep is Sweep.ADAPTIVE):
        message = "arms that read are served together with the arm that answers, in one wave"
        yield "serving.devices", message, "set it to 0, and sweep to grid"
    if experiment.answers and not experiment.readers:
        yield "answers", "no arm reads them", "give an arm that is a draft model `reads`, or leave answers out"
    if experiment.readers and any(clients_of(experiment.workload, at, arms=1) > 1 for at in experiment.workload.levels):
        yield "workload.concurrency", "one client reads, and this load takes several", "measure a smaller load"


def hold(case: ServedCase) -> Iterator[Finding]:
    """Arms stay after their last wave, which an adaptive sweep does not know."""
    if case.experiment.hold and case.experiment.sweep is Sweep.ADAPTIVE:
        yield "hold", "an adaptive sweep does not know when an arm is served for the last time", f"hold 0, or {GRID}"


GRID = "write sweep: grid, which measures any set of arms"
SAME = ("target", "quantization", "neuron_config", "extra_args", "env")
"""Fields in which the arms of an adaptive sweep are alike."""


def adaptive(case: ServedCase) -> Iterator[Finding]:
    """One baseline; all others differ from it in speculation alone, and among themselves in draft or k."""
    variants = case.experiment.variants
    baselines = [variant for variant in variants if variant.compare_to is None]
    if case.experiment.sweep is not Sweep.ADAPTIVE or not baselines:
        return
    if len(baselines) > 1:
        yield "sweep", f"an adaptive sweep has one baseline, not {len(baselines)}", GRID
        return
    if len(variants) < 3:
        yield "sweep", "an adaptive sweep needs two arms to choose from", "add arms, or leave sweep out"
    for variant in variants:
        if variant.compare_to is not None and not (
            variant.compare_to == baselines[0].name
            and variant.speculation
            and all(getattr(variant, field) == getattr(baselines[0], field) for field in SAME)
        ):
            message = f"{variant.name} does not differ from {baselines[0].name} in speculation alone"
            yield f"variants.{variant.name}", message, GRID
    points = [(s.draft.id, s.num_speculative_tokens) for variant in variants if (s := variant.speculation)]
    for (draft, k), count in Counter(points).items():
        if count > 1:
            yield "variants", f"{count} arms have the draft {draft} with k={k}", "leave one of them"
