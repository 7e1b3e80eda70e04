"""Rules of what is sent: every case has its prompts, and they fit into the model's window."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from specdecode.experiment.model import Experiment, PromptKind, TestCase
from specdecode.experiment.prompt_sets import shipped
from specdecode.experiment.rules.case import Case, Finding
from specdecode.prompts import PromptSet, fewest_tokens

FIX = "measure the short ones (`length: short`), shorten the answers, or raise serving.max_model_len (a new compile)"
SHOWN = 3
"""Prompts of a case that are named when they do not fit."""


def texts(case: Case) -> Iterator[Finding]:
    for prompt in case.experiment.workload.cases:
        field = f"workload.cases.{prompt.name}.text"
        needs = prompt.kind not in (PromptKind.SONNET, PromptKind.SET)
        if not needs and prompt.text:
            where = "LLMPerf's corpus" if prompt.kind is PromptKind.SONNET else "their set"
            yield field, f"{prompt.kind} prompts come from {where}, and this one has a text", "leave the text out"
        if needs and not prompt.text.strip():
            yield field, f"a prompt of kind {prompt.kind} needs a text", "give the text"


def sets(case: Case) -> Iterator[Finding]:
    for prompt in case.experiment.workload.cases:
        field, given = f"workload.cases.{prompt.name}.prompts", prompt.prompts
        if (prompt.kind is PromptKind.SET) != (given is not None):
            yield field, f"kind is {prompt.kind}", "give `kind: set` and `prompts` together, or neither"
            continue
        if given is None or (found := shipped(given.set)) is None:
            continue
        if found.sha256 != given.sha256:
            message = f"{given.set} ships with the SHA-256 {found.sha256[:12]}…, not {given.sha256[:12]}…"
            yield field, message, "name it without a hash, or deploy the version that you want"
        elif not found.of(given.category, given.length):
            message = f"{given.set} has no {'' if given.length == 'all' else given.length + ' '}{given.category} prompt"
            yield field, message, f"choose of {', '.join(found.categories)} (`specdecode prompts show {given.set}`)"


def fits(case: Case) -> Iterator[Finding]:
    """By a lower bound, for what can be seen here; of a set in the bucket the pipeline's first step asks the same."""
    for prompt in case.experiment.workload.cases:
        if prompt.kind is PromptKind.TEXT:
            rows: list[Size] = [(prompt.name, fewest_tokens(prompt.text), None)]
        else:
            found = shipped(prompt.prompts.set) if prompt.prompts else None
            rows = _lengths(found, prompt) if found else []
        if beyond := _beyond(rows, case.experiment):
            yield f"workload.cases.{prompt.name}", beyond, FIX


def too_long(found: PromptSet, prompt: TestCase, experiment: Experiment) -> str | None:
    """Which prompts of a case cannot fit, longest first; None where all may."""
    return _beyond(_lengths(found, prompt), experiment)


Size = tuple[str, int, int | None]
"""Name, fewest tokens, longest answer where the prompt says one."""


def _lengths(found: PromptSet, prompt: TestCase) -> list[Size]:
    given = prompt.prompts
    rows = found.of(given.category, given.length) if given else ()
    return [(row.id, row.fewest_tokens, row.output_tokens) for row in rows]


def _beyond(sizes: Iterable[Size], experiment: Experiment) -> str | None:
    room, answers = experiment.serving.max_model_len, experiment.workload.output_tokens
    beyond = [(name, tokens, out or answers) for name, tokens, out in sizes if tokens + (out or answers) > room]
    if not beyond:
        return None
    named = "; ".join(
        f"{name} has at least {tokens} tokens, with {answer} for the answer {tokens + answer}"
        for name, tokens, answer in sorted(beyond, key=lambda item: -item[1])[:SHOWN]
    )
    more = f"; and {len(beyond) - SHOWN} more" if len(beyond) > SHOWN else ""
    return f"{named}{more}: max_model_len is {room}"
