"""How sets of prompts are shown: tables, texts, and the lines of an experiment that name a set."""

from itertools import islice
from typing import Any

from rich.table import Table

from specdecode.prompts import PromptRow, PromptSet, PromptsOf, about_tokens

SHOWN = 200
"""Most categories that are listed for people."""


def entry(found: PromptSet) -> dict[str, Any]:
    """How an experiment's `workload.prompts` names the set. So many of each category are measured without a repeat."""
    reference = PromptsOf(set=found.name, sha256=found.sha256, category=found.categories[0]).reference
    return {
        "set": reference,
        "categories": list(found.categories),
        **({"structured": list(found.structured)} if found.structured else {}),
        "per_category": min(sum(len(row.turns) for row in found.of(category)) for category in found.categories),
    }


def summary(found: PromptSet) -> dict[str, Any]:
    """The facts about a set, for scripts."""
    return {
        "name": found.name,
        "version": found.version,
        "licence": found.licence,
        "sha256": found.sha256,
        "prompts": len(found.rows),
        "skipped": found.skipped,
        "labels": [{"category": name, "in_file": label} for name, label in found.labels],
        "categories": {
            category: {
                "prompts": len(own := found.of(category)),
                "long": sum(row.is_long for row in own),
                "several_turns": sum(len(row.turns) > 1 for row in own),
                "words": [min(row.fewest_tokens for row in own), max(row.fewest_tokens for row in own)],
                "tokens_about": [round(min(about)), round(max(about))],
                "characters": [min(len(row.text) for row in own), max(len(row.text) for row in own)],
            }
            for category in found.categories
            for about in [[about_tokens(row.text) for row in found.of(category)]]
        },
    }


def categories_table(found: PromptSet) -> Table:
    """The categories of a set, with numbers and lengths."""
    about = ", ".join(part for part in (f"version {found.version}" if found.version else "", found.licence) if part)
    table = Table(title=f"{found.name}" + (f" ({about})" if about else ""), caption=f"SHA-256 {found.sha256}")
    for column in ("category", "prompts", "long", "several turns", "words", "tokens, about"):
        table.add_column(column, justify="left" if column == "category" else "right")
    for category, each in islice(summary(found)["categories"].items(), SHOWN):
        low, high = each["tokens_about"]
        words = f"{each['words'][0]}-{each['words'][1]}"
        counts = (each["prompts"], each["long"], each["several_turns"])
        table.add_row(category, *map(str, counts), words, f"{low}-{high}")
    if (more := len(found.categories) - SHOWN) > 0:
        table.add_row(f"and {more:,} more (--json has all)")
    return table


def lines(found: PromptSet) -> list[str]:
    passed = f"Passed over: {found.skipped} of the conversations, because they have no question or an empty one"
    skipped = [passed] if found.skipped else []
    labels = [f"Category {name}: {label or 'none stated'} in the file" for name, label in found.labels[:SHOWN]]
    if repeats := sum(len(own) - len({row.asks for row in own}) for own in map(found.of, found.categories)):
        labels.append(
            f"Repeated: {repeats} of the prompts, word for word in one category; an interval counts them once"
        )
    several = [row for row in found.rows if len(row.turns) > 1]
    turns = sum(len(row.turns) for row in several)
    said = f"{len(several)} conversations of {turns} turns, each of which is a request" if several else ""
    return [*skipped, *labels, *([said] if said else [])]


def text_of(row: PromptRow) -> str:
    parts = [f"── {row.id} ({row.category})", *([f"[system] {row.system}"] if row.system else [])]
    parts += [f"[{message.get('role')}] {message.get('content')}" for message in row.history]
    return "\n".join([*parts, *(f"[turn {number}] {turn}" for number, turn in enumerate(row.turns, 1)), ""])
