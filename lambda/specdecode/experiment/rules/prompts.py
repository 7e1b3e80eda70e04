"""Rules of what is sent: every case has its prompts, and they fit into the model's window."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from specdecode.experiment.model import Experiment
from specdecode.experiment.prompt_sets import shipped
from specdecode.experiment.rules.case import Case, Finding, ServedCase
from specdecode.experiment.sizing import clients_of
from specdecode.experiment.workload import Load, PromptKind, TestCase
from specdecode.prompts import PromptRow, PromptSet, fewest_tokens

FIX = (
    "measure the short ones (`length: short`), shorten the answers (`output_tokens` beside the set), or raise "
    "serving.max_model_len (a new compile)"
)
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
        if given.hub is not None:
            yield field, f"{given.set} is a set that ships", "leave `hub` out, or give your file another name"
        if found.sha256 != given.sha256:
            message = f"{given.set} ships with the SHA-256 {found.sha256[:12]}…, not {given.sha256[:12]}…"
            yield field, message, "name it without a hash, or deploy the version that you want"
        elif not found.of(given.category, given.length):
            message = f"{given.set} has no {'' if given.length == 'all' else given.length + ' '}{given.category} prompt"
            yield field, message, f"choose of {', '.join(found.categories)} (`specdecode prompts show {given.set}`)"
        elif said := unsendable(found, prompt, case.experiment):
            yield field, *said


def unsendable(found: PromptSet, prompt: TestCase, experiment: Experiment) -> tuple[str, str] | None:
    """Why the prompts of a case cannot be sent as the workload says, and what to do. None if they can."""
    load = experiment.workload
    rows = tuple(sent(rows_of(prompt, found), load.requests_of(prompt)))
    row = next((row for row in rows if len(row.turns) > 1), None)
    if row and (shared := next((level for level in load.levels if clients_of(load, level, arms=1) > 1), None)):
        why = f"holds an answer that one client heard; {shared} takes several clients"
        fix = "measure conversations at a smaller load, or raise workload.streams_per_client"
        return f"{row.id} is a conversation, and its next turn {why}", fix
    if row and load.load is Load.SIMULTANEOUS:
        why = "holds the first arm's answer, which is not there while all arms are loaded at once"
        fix = "set workload.load to interleaved or sequential"
        return f"{row.id} is a conversation, and its next turn {why}", fix
    if load.endpoint == "completions" and (row := next((row for row in rows if not row.is_plain), None)):
        message = f"{row.id} has a system message or a history, which the completions endpoint does not take"
        return message, "set workload.endpoint to chat"
    return None


def fits(case: ServedCase) -> Iterator[Finding]:
    """Prompts that do not fit, by a lower bound of tokens. The pipeline's first step checks sets in the bucket."""
    for prompt in case.experiment.workload.cases:
        found = shipped(prompt.prompts.set) if prompt.prompts else None
        if said := too_long(found, prompt, case.experiment):
            yield f"workload.cases.{prompt.name}", said, FIX


def too_long(found: PromptSet | None, prompt: TestCase, experiment: Experiment) -> str | None:
    """Which prompts of a case cannot fit, longest first. None if all may, or if the window is not known."""
    return beyond(sizes(prompt, found, experiment, fewest_tokens), experiment)


Size = tuple[str, int, int, int]
"""Name, tokens of all its questions, longest answer, turns."""


def sizes(
    prompt: TestCase, found: PromptSet | None, experiment: Experiment, count: Callable[[str], int]
) -> Iterator[Size]:
    """The prompts of a case that are sent, those of kind `set` as they are in `found`, and their lengths by `count`."""
    load = experiment.workload
    for row in sent(rows_of(prompt, found), load.requests_of(prompt)):
        yield row.id, count(row.whole_text), row.output_tokens or load.output_tokens_of(prompt), len(row.turns)


def rows_of(prompt: TestCase, found: PromptSet | None) -> tuple[PromptRow, ...]:
    """The prompts of a case of kind `text`, or of kind `set` as they are in `found`. Of other kinds none is written."""
    if prompt.kind is PromptKind.TEXT and prompt.text.strip():
        return (PromptRow(id=prompt.name, category="text", turns=(prompt.text,)),)
    given = prompt.prompts
    return found.of(given.category, given.length) if given and found else ()


def sent(rows: Sequence[PromptRow], requests: int) -> Iterator[PromptRow]:
    """Those that are sent: the first ones, each turn a request."""
    for row in rows:
        if requests <= 0:
            return
        yield row
        requests -= len(row.turns)


def beyond(rows: Iterable[Size], experiment: Experiment, *, counted: str = "has at least") -> str | None:
    """Which of `rows` do not fit with their answers, longest first. None if all do, or if the window is not known."""
    room = experiment.window
    if room is None:
        return None
    found = [
        (tokens, f"{name} {counted} {tokens} tokens, with {answer} for {'each' if turns > 1 else 'the'} answer {whole}")
        for name, tokens, answer, turns in rows
        if (whole := tokens + answer * turns) > room
    ]
    longest = [said for _, said in sorted(found, key=lambda item: -item[0])]
    more = [f"and {len(found) - SHOWN} more"] if len(found) > SHOWN else []
    return f"{'; '.join([*longest[:SHOWN], *more])}: max_model_len is {room}" if found else None
