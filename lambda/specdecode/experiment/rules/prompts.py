"""Rules of what is sent: every case has its prompts, and they fit into the model's window."""

from __future__ import annotations

from collections.abc import Iterator

from specdecode.experiment.model import PromptKind, TestCase
from specdecode.experiment.prompt_sets import set_names, shipped
from specdecode.experiment.rules.case import Case, Finding
from specdecode.prompts import fewest_tokens

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
        if given.hub is not None:
            yield f"{field}.hub", f"{given.set} ships: {', '.join(set_names())}", "call a set of the hub otherwise"


def fits(case: Case) -> Iterator[Finding]:
    """By a lower bound: what it lets pass is counted once the tokenizer is in the bucket, before a node is taken."""
    load, room = case.experiment.workload, case.experiment.serving.max_model_len
    for prompt in load.cases:
        beyond = [
            (name, tokens, answer)
            for name, tokens, output in _lengths(prompt)
            if tokens + (answer := output or load.output_tokens) > room
        ]
        if beyond:
            named = "; ".join(
                f"{name} has at least {tokens} tokens, with {answer} for the answer {tokens + answer}"
                for name, tokens, answer in sorted(beyond, key=lambda item: -item[1])[:SHOWN]
            )
            more = f"; and {len(beyond) - SHOWN} more" if len(beyond) > SHOWN else ""
            yield (
                f"workload.cases.{prompt.name}",
                f"{named}{more}: max_model_len is {room}",
                "measure the short ones (`length: short`), shorten the answers, or raise serving.max_model_len "
                "(a new compile)",
            )


def _lengths(prompt: TestCase) -> Iterator[tuple[str, int, int | None]]:
    """Name, fewest tokens and longest answer of the prompts that can be seen here."""
    if prompt.kind is PromptKind.TEXT:
        yield prompt.name, fewest_tokens(prompt.text), None
    if prompt.prompts is not None and (found := shipped(prompt.prompts.set)) is not None:
        for row in found.of(prompt.prompts.category, prompt.prompts.length):
            yield row.id, row.fewest_tokens, row.output_tokens
