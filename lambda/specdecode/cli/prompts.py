"""Commands about sets of prompts: see those that ship, check a file of yours, upload it for runs."""

from __future__ import annotations

import math
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specdecode import s3_keys
from specdecode.cli.options import WHERE, AsJson, Where
from specdecode.cli.output import answer, say_json, show, stop_with
from specdecode.escape import counted
from specdecode.untrusted import Unreadable, read_file

if TYPE_CHECKING:
    from rich.table import Table

    from specdecode.prompts import PromptRow, PromptSet
    from specdecode.store import Store

Name = Annotated[str | None, typer.Option(help="Name of the set. Default: the header's, or the file's.")]
File = Annotated[Path, typer.Argument(metavar="FILE", help="JSON Lines, or one JSON array.")]
SHOWN = 5
"""Most prompts that cannot fit which are named."""
LISTED = 200
"""Most categories that are listed for people."""

app = typer.Typer(
    name="prompts",
    help="Sets of prompts: what ships, and your own. `specdecode prompts COMMAND --help` says more.",
    no_args_is_help=True,
)


def list_sets(as_json: AsJson = False) -> None:
    """List the sets that ship: version, licence, categories, number of prompts and lengths."""
    from specdecode.experiment.prompt_sets import set_names, shipped

    found = [one for name in set_names() if (one := shipped(name)) is not None]
    if as_json:
        say_json([_summary(one) for one in found])
    else:
        show(*(_table(one) for one in found))


def show_set(
    name: Annotated[str, typer.Argument(metavar="SET|FILE", help="A set that ships, or a file.")],
    category: Annotated[str | None, typer.Option(help="Only this category.")] = None,
    prompt: Annotated[str | None, typer.Option("--id", help="Only this prompt.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print the prompts of a set, whole, for reading."""
    from specdecode.experiment.prompt_sets import set_names, shipped

    own = shipped(name)
    if own is None and not Path(name).exists():
        raise stop_with(f"{name}: neither a file nor a set that ships ({', '.join(set_names())})")
    found = own or _read(Path(name), None)
    rows = [r for r in found.rows if category in (None, r.category) and prompt in (None, r.id)]
    if not rows:
        raise stop_with(f"{found.name} has no such prompt; its categories: {', '.join(found.categories)}")
    document = [row.model_dump(mode="json", exclude_defaults=True) for row in rows]
    answer(as_json, document, lambda: "\n".join([*map(_text_of, rows), ""]))


def check(
    file: File,
    name: Name = None,
    max_model_len: Annotated[
        int | None, typer.Option(min=1, help="Window of the model: name the prompts that cannot fit into it.")
    ] = None,
    output_tokens: Annotated[
        int, typer.Option(min=1, help="Longest answer in tokens, for prompts that say none.")
    ] = 600,
    as_json: AsJson = False,
) -> None:
    """Read a file as a run would. Print what is in it, or everything that is wrong with it, by line.

    Formats are told apart by their keys: our own ({"id", "category", "turns"}), Spec-Bench's question.jsonl,
    SPEED-Bench's prepared files as JSON Lines, ShareGPT conversations, vLLM's custom data set ({"prompt",
    "output_tokens"}) and OpenAI's {"messages"}. One bad line refuses the whole file.

        specdecode prompts check tickets.jsonl --max-model-len 4096

    With --max-model-len, tokens are counted by a lower bound, one for each word. A run checks the same before it
    creates anything, and sends each server the longest prompt once before it measures.

    Exit codes: 0 it can be measured, 2 it cannot.
    """
    found = _read(file, name)
    sizes = [(row, row.fewest_tokens_with(row.output_tokens or output_tokens)) for row in found.rows]
    room = max_model_len or math.inf
    beyond = sorted(((row, size) for row, size in sizes if size > room), key=lambda item: -item[1])
    if as_json:
        say_json({**_summary(found), "too_long": [{"id": row.id, "at_least": tokens} for row, tokens in beyond]})
    else:
        show(_table(found), "\n".join(_lines(found)))
    if beyond:
        named = [
            f"  {row.id}: at least {tokens} tokens with {'its answers' if row.turns[1:] else 'its answer'}"
            for row, tokens in beyond[:SHOWN]
        ]
        told = f"{counted(len(beyond), 'prompt')} that cannot fit into {max_model_len} tokens:"
        raise stop_with("\n".join([told, *named, *(["  …"] if beyond[SHOWN:] else [])]))


def add(
    file: File,
    name: Name = None,
    bucket: Annotated[str | None, typer.Option(help="Artifact bucket. Default: the deployed stack's.")] = None,
    where: Where = WHERE,
    as_json: AsJson = False,
) -> None:
    """Put a file of prompts into the artifact bucket, under the hash of its bytes. You need not deploy again.

    The file is checked first (`specdecode prompts check`). Copy what is printed into an experiment: its hash makes sure
    that these prompts and no others are measured. A file that is added twice is stored once.

        specdecode prompts add tickets.jsonl

    Exit codes: 0 it is there, 2 the file is no set of prompts, 3 the bucket cannot be written.
    """
    import yaml

    from specdecode.experiment.prompt_sets import shipped

    found = _read(file, name)
    if (own := shipped(found.name)) is not None and own.sha256 != found.sha256:
        raise stop_with(f"a set that ships is called {found.name} already: give yours another --name")
    store = _store(bucket, where)
    key = s3_keys.prompts_key(found.name, found.sha256)
    store.write(key, read_file(file), content_type="application/x-ndjson")
    url = store.url(key)
    named = _entry(found)
    lines = yaml.dump({"workload": {"prompts": [named]}}, default_flow_style=None, sort_keys=False, width=math.inf)
    answer(
        as_json, {**_summary(found), "url": url, "experiment": named}, lambda: f"{url}\n\nIn an experiment:\n\n{lines}"
    )


def _read(path: Path, name: str | None) -> PromptSet:
    """The set in a file. Ends the command if the file holds no set, or holds a credential."""
    from specdecode.experiment import credentials
    from specdecode.prompts import BadPromptSet, PromptSet, read_set, set_name

    try:
        found = read_set(read_file(path), name=set_name(path.stem))
        if name is not None:
            found = PromptSet.model_validate({**dict(found), "name": name})
    except (BadPromptSet, Unreadable) as error:
        raise stop_with(f"{path}: {error.told if isinstance(error, BadPromptSet) else error}") from None
    except ValueError:
        raise stop_with(f"--name {name}: use lower-case letters, digits, dots and hyphens") from None
    for row in found.rows:
        if hidden := next(credentials.found(row.model_dump(mode="json")), None):
            what = f"holds what looks like {hidden[1]}: {credentials.ADVICE}"
            raise stop_with(f"{path}: prompt {row.id} {what}")
    return found


def _store(bucket: str | None, where: Where) -> Store:
    from specdecode.store import Store

    deployment = where.deployment()
    return deployment.store if bucket is None else Store(s3=deployment.client("s3"), bucket=bucket)


def _entry(found: PromptSet) -> dict[str, Any]:
    """How an experiment's `workload.prompts` names the set. So many of each category are measured without a repeat."""
    return {
        "set": f"{found.name}@{found.sha256}",
        "categories": list(found.categories),
        **({"structured": list(found.structured)} if found.structured else {}),
        "per_category": min(sum(len(row.turns) for row in found.of(category)) for category in found.categories),
    }


def _summary(found: PromptSet) -> dict[str, Any]:
    """The facts about a set, for scripts."""
    from specdecode.prompts import about_tokens

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


def _table(found: PromptSet) -> Table:
    """The categories of a set, with numbers and lengths."""
    from rich.table import Table

    about = ", ".join(part for part in (f"version {found.version}" if found.version else "", found.licence) if part)
    table = Table(title=f"{found.name}" + (f" ({about})" if about else ""), caption=f"SHA-256 {found.sha256}")
    for column in ("category", "prompts", "long", "several turns", "words", "tokens, about"):
        table.add_column(column, justify="left" if column == "category" else "right")
    for category, each in islice(_summary(found)["categories"].items(), LISTED):
        low, high = each["tokens_about"]
        words = f"{each['words'][0]}-{each['words'][1]}"
        counts = (each["prompts"], each["long"], each["several_turns"])
        table.add_row(category, *map(str, counts), words, f"{low}-{high}")
    if (more := len(found.categories) - LISTED) > 0:
        table.add_row(f"and {more:,} more (--json has all)")
    return table


def _lines(found: PromptSet) -> list[str]:
    passed = f"Passed over: {found.skipped} of the conversations, because they have no question or an empty one"
    skipped = [passed] if found.skipped else []
    labels = [f"Category {name}: {label or 'none stated'} in the file" for name, label in found.labels[:LISTED]]
    if repeats := sum(len(own) - len({row.asks for row in own}) for own in map(found.of, found.categories)):
        labels.append(
            f"Repeated: {repeats} of the prompts, word for word in one category; an interval counts them once"
        )
    several = [row for row in found.rows if len(row.turns) > 1]
    turns = sum(len(row.turns) for row in several)
    said = f"{counted(len(several), 'conversation')} of {turns} turns, each of which is a request" if several else ""
    return [*skipped, *labels, *([said] if said else [])]


def _text_of(row: PromptRow) -> str:
    parts = [f"── {row.id} ({row.category})", *([f"[system] {row.system}"] if row.system else [])]
    parts += [f"[{message.get('role')}] {message.get('content')}" for message in row.history]
    return "\n".join([*parts, *(f"[turn {number}] {turn}" for number, turn in enumerate(row.turns, 1)), ""])


COMMANDS = (list_sets, show_set, check, add)
