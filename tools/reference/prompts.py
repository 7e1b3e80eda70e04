"""docs/reference/prompts.md: the sets of prompts that ship, how long they are, and one of each kind to read."""

from __future__ import annotations

from collections.abc import Sequence

from specdecode.experiment.prompt_sets import set_names, shipped
from specdecode.prompts import CHARACTERS_PER_TOKEN, LONG_FROM, TOKENS_PER_WIDE, PromptRow, PromptSet, about_tokens

from tools.reference import page, table

SHOWN = 420
"""Most characters of a prompt in the sample."""

INTRODUCTION = f"""What ships in `assets/prompts/sets`. `specdecode prompts show SET` prints every prompt. How to
measure one, and your own: [own prompts](../how-to/own-prompts.md). A prompt is long from {LONG_FROM:,} characters on.
Lengths in tokens are estimated here: {CHARACTERS_PER_TOKEN:g} characters of English are one, a Chinese, Japanese or
Korean character is {TOKENS_PER_WIDE:g} of one; code needs more. They are lengths of the first request: its system
message and its first turn."""


def render() -> str:
    """The page."""
    sets = [found for name in set_names() if (found := shipped(name)) is not None]
    return page("Sets of prompts", INTRODUCTION, *(part for found in sets for part in _set(found)))


def _set(found: PromptSet) -> list[str]:
    rows = [
        (
            category,
            str(len(own := found.of(category))),
            str(sum(row.is_long for row in own)),
            str(sum(len(row.turns) > 1 for row in own)),
            _range([row.fewest_tokens for row in own]),
            _range([len(row.text) for row in own]),
            _range([round(about_tokens(row.text)) for row in own]),
        )
        for category in found.categories
    ]
    head = ("category", "prompts", "long", "several turns", "words", "characters", "tokens, estimated")
    about = (
        f"Version {found.version}, {found.licence}, {len(found.rows)} prompts, SHA-256 `{found.sha256}`. "
        f"Answers that are predictable, and reported so: {', '.join(found.structured) or 'none'}."
    )
    long = [
        (row.id, *(f"{size:,}" for size in (row.fewest_tokens, len(row.text), round(about_tokens(row.text)))))
        for row in found.rows
        if row.is_long
    ]
    listed = ["The long ones:", table(("prompt", "words", "characters", "tokens, estimated"), long)] if long else []
    sample = [_shown(found.of(category)[0]) for category in found.categories]
    return [f"## {found.name}", about, table(head, rows), *listed, "One of each, the first:", *sample]


def _range(values: Sequence[int]) -> str:
    return f"{min(values):,} to {max(values):,}"


def _shown(row: PromptRow) -> str:
    turns = [*([f"[system] {row.system}"] if row.system else []), *row.turns]
    text = "\n\n".join(turns)
    text = text if len(text) <= SHOWN else text[:SHOWN] + " …"
    quoted = "\n".join("    " + line if line else "" for line in text.split("\n"))
    return f"**{row.id}**\n\n{quoted}"
