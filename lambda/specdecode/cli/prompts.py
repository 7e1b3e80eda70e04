"""Commands about sets of prompts: see those that ship, check a file of yours, upload it for runs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specdecode import s3_keys
from specdecode.cli.options import WHERE, AsJson, Where
from specdecode.cli.output import answer, say_json, show, stop_with
from specdecode.untrusted import Unreadable, read_file

if TYPE_CHECKING:
    from specdecode.prompts import PromptSet
    from specdecode.store import Store

Name = Annotated[str | None, typer.Option(help="Name of the set. Default: the header's, or the file's.")]
File = Annotated[Path, typer.Argument(metavar="FILE", help="JSON Lines, or one JSON array.")]
SHOWN = 5
"""Most prompts that cannot fit which are named."""

app = typer.Typer(
    name="prompts",
    help="Sets of prompts: what ships, and your own. `specdecode prompts COMMAND --help` says more.",
    no_args_is_help=True,
)


def list_sets(as_json: AsJson = False) -> None:
    """List the sets that ship: version, licence, categories, number of prompts and lengths."""
    from specdecode.cli.prompts_view import categories_table, summary
    from specdecode.experiment.prompt_sets import set_names, shipped

    found = [one for name in set_names() if (one := shipped(name)) is not None]
    if as_json:
        say_json([summary(one) for one in found])
    else:
        show(*(categories_table(one) for one in found))


def show_set(
    name: Annotated[str, typer.Argument(metavar="SET|FILE", help="A set that ships, or a file.")],
    category: Annotated[str | None, typer.Option(help="Only this category.")] = None,
    prompt: Annotated[str | None, typer.Option("--id", help="Only this prompt.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print the prompts of a set, whole, for reading."""
    from specdecode.cli.prompts_view import text_of
    from specdecode.experiment.prompt_sets import set_names, shipped

    own = shipped(name)
    if own is None and not Path(name).exists():
        raise stop_with(f"{name}: neither a file nor a set that ships ({', '.join(set_names())})")
    found = own or _read(Path(name), None)
    rows = [r for r in found.rows if category in (None, r.category) and prompt in (None, r.id)]
    if not rows:
        raise stop_with(f"{found.name} has no such prompt; its categories: {', '.join(found.categories)}")
    document = [row.model_dump(mode="json", exclude_defaults=True) for row in rows]
    answer(as_json, document, lambda: "\n".join([*map(text_of, rows), ""]))


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
    from specdecode.cli.prompts_view import categories_table, lines, summary

    found = _read(file, name)
    sizes = [(row, row.fewest_tokens_with(row.output_tokens or output_tokens)) for row in found.rows]
    room = max_model_len or math.inf
    beyond = sorted(((row, size) for row, size in sizes if size > room), key=lambda item: -item[1])
    if as_json:
        say_json({**summary(found), "too_long": [{"id": row.id, "at_least": tokens} for row, tokens in beyond]})
    else:
        show(categories_table(found), "\n".join(lines(found)))
    if beyond:
        named = [
            f"  {row.id}: at least {tokens} tokens with {'its answers' if row.turns[1:] else 'its answer'}"
            for row, tokens in beyond[:SHOWN]
        ]
        told = f"{len(beyond)} prompts that cannot fit into {max_model_len} tokens:"
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

    from specdecode.cli.prompts_view import entry, summary
    from specdecode.experiment.prompt_sets import shipped

    found = _read(file, name)
    if (own := shipped(found.name)) is not None and own.sha256 != found.sha256:
        raise stop_with(f"a set that ships is called {found.name} already: give yours another --name")
    store = _store(bucket, where)
    key = s3_keys.prompts_key(found.name, found.sha256)
    store.write(key, read_file(file), content_type="application/x-ndjson")
    url = store.url(key)
    named = entry(found)
    lines = yaml.dump({"workload": {"prompts": [named]}}, default_flow_style=None, sort_keys=False, width=math.inf)
    answer(
        as_json, {**summary(found), "url": url, "experiment": named}, lambda: f"{url}\n\nIn an experiment:\n\n{lines}"
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


COMMANDS = (list_sets, show_set, check, add)
