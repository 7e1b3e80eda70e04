"""Rules of the comparison: variants that can be told apart, and a load that every arm can take."""

from collections.abc import Iterator

from specdecode.experiment.rules.case import Case, Finding, ServedCase
from specdecode.experiment.sizing import MOST_CLIENTS, clients_of
from specdecode.experiment.validated import did_you_mean
from specdecode.experiment.workload import PromptKind


def unique_names(case: Case) -> Iterator[Finding]:
    for field, values in (
        ("variants.{}.name", [v.name for v in case.experiment.variants]),
        ("variants.{}.label", [v.label for v in case.experiment.variants]),
        ("workload.cases.{}.name", [c.name for c in case.experiment.workload.cases]),
        ("workload.cases.{}.label", [c.label for c in case.experiment.workload.cases]),
    ):
        for value in sorted({v for v in values if values.count(v) > 1}):
            yield field.format(value), f"{value!r} is used {values.count(value)} times", "give each its own"


def compare_to(case: Case) -> Iterator[Finding]:
    loaded = [variant for variant in case.experiment.variants if variant not in case.experiment.readers]
    parents = {variant.name: variant.compare_to for variant in loaded}
    if None not in parents.values():
        yield "variants", "no baseline: every variant compares to another", "leave compare_to out of one"
    alone = [name for name, parent in parents.items() if parent is None and name not in parents.values()]
    if list(parents.values()).count(None) > 1:
        for name in alone:
            others = ", ".join(other for other in parents if other != name)
            yield f"variants.{name}.compare_to", f"{name} is compared with nothing", f"say with which: {others}"
    for name, parent in parents.items():
        if parent is not None and (parent not in parents or parent == name):
            others = ", ".join(other for other in parents if other != name) or "none"
            yield f"variants.{name}.compare_to", f"{parent!r} is no other variant", f"choose one of: {others}"


def published(case: Case) -> Iterator[Finding]:
    """Rows are of arms and prompt types of the experiment. A preset's other rows are left out where it is extended."""
    arms = [variant.name for variant in case.experiment.variants]
    cases = [each.name for each in case.experiment.workload.cases]
    for at, item in enumerate(case.experiment.published):
        named = [(field, "arm", name, arms) for field, name in (("base", item.base), ("variant", item.variant))]
        named += [(f"figures.{name}", "prompt type", name, cases) for name in item.figures]
        for field, what, name, known in named:
            if name not in known:
                message = f"no {what} is called {name!r}{did_you_mean(name, known)}"
                yield f"published.{at}.{field}", message, f"name one of {', '.join(known)}"


def lengths(case: ServedCase) -> Iterator[Finding]:
    """Prompts that are made to a length. Those that are sent as they are have `prompts.fits`."""
    load, room, found = case.experiment.workload, case.experiment.window or 0, {}
    for each in load.cases:
        answer, made = load.output_tokens_of(each), each.kind in (PromptKind.LINE, PromptKind.SONNET)
        if made and load.input_tokens + answer > room:
            field = f"workload.{f'cases.{each.name}.' if each.output_tokens else ''}output_tokens"
            found[field] = f"{load.input_tokens} tokens in and {answer} out exceed max_model_len {room}"
    fix = "shorten them, or raise serving.max_model_len (a new compile)"
    yield from ((field, message, fix) for field, message in found.items())


def clients(case: Case) -> Iterator[Finding]:
    experiment = case.experiment
    for level in experiment.workload.levels:
        needed = clients_of(experiment.workload, level, arms=min(experiment.side_by_side, len(experiment.variants)))
        if needed > MOST_CLIENTS:
            message = f"{level} takes {needed} clients, and {MOST_CLIENTS} is the most"
            fix = "measure a smaller load, or raise workload.streams_per_client (256 are within docs/benchmarks.md)"
            yield "workload.concurrency" if level.rate is None else "workload.rate", message, fix


def greedy(case: ServedCase) -> Iterator[Finding]:
    temperature, engine = case.experiment.workload.temperature, case.engine
    if temperature > 0 and engine.greedy_only and any(case.speculating()):
        message = f"{temperature:g} cannot be judged on {engine.name}: {engine.greedy_because}"
        yield "workload.temperature", message, "set it to 0"


def thinking(case: Case) -> Iterator[Finding]:
    load = case.experiment.workload
    if load.thinking is not None and load.endpoint != "chat":
        message = "the thinking mode is set by the chat template, which the completions endpoint does not use"
        yield "workload.thinking", message, "leave it out, or set workload.endpoint to chat"
    qwen3 = any(model.family == "qwen3" for _, model in case.targets())
    if qwen3 and load.endpoint == "chat" and load.thinking is None:
        message = "Qwen3 thinks by default, which changes the answers: say whether it shall think"
        yield "workload.thinking", message, "set it to true or false"
