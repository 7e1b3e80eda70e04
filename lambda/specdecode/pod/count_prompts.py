"""Count prompts with the tokenizer of a staged model: `python3 -m specdecode.pod.count_prompts --bucket B --spec FILE`.

This program only counts. The pipeline decides what does not fit.

A chat becomes text by the model's own template, as transformers renders it. Source: transformers,
src/transformers/utils/chat_template_utils.py (`_compile_jinja_template`): a sandboxed Jinja environment with
`trim_blocks` and `lstrip_blocks`, loop controls, `tojson`, `raise_exception` and `strftime_now`. A template is a
program that we did not write: in the sandbox it sees nothing but its arguments.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from heapq import nlargest
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from pydantic import ValidationError

from specdecode.benchmark.tokens import TokenCounter, token_counter
from specdecode.escape import clip, line
from specdecode.exit_codes import Exit
from specdecode.experiment.prompt_lengths import KEPT, CountSpec, PromptLength, PromptLengths
from specdecode.experiment.prompt_sets import shipped
from specdecode.experiment.rules.prompts import rows_of, sent
from specdecode.experiment.workload import TestCase
from specdecode.finished import content
from specdecode.pod.bucket import Bucket
from specdecode.pod.program import Parser, PodError, run, say
from specdecode.prompts import PromptRow, PromptSet, read_set
from specdecode.untrusted import MAX_FILE_BYTES, Unreadable, parse_json, read_text

TOKENIZER = "tokenizer.json"
CONFIG = "tokenizer_config.json"
TEMPLATE = "chat_template.jinja"
"""This file comes before the `chat_template` of CONFIG (transformers 4.43 and later write it beside it)."""
LIMIT = 2**22

Chat = Sequence[dict[str, Any]]


def main(arguments: Sequence[str]) -> None:
    """Count the prompts that the specification names and store their lengths."""
    parser = Parser(description=__doc__)
    parser.add_argument("--bucket", required=True)
    parser.add_argument("--spec", type=Path, required=True)
    options = parser.parse_args(arguments)
    try:
        spec = CountSpec.model_validate_json(options.spec.read_bytes())
    except (OSError, ValidationError) as error:
        raise PodError(Exit.BAD_SPECIFICATION, f"{options.spec}: {error}") from None
    bucket = Bucket(options.bucket)
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix="count-") as folder:
        lengths = count(bucket, spec, Path(folder))
        path = Path(folder) / "lengths.json"
        path.write_text(lengths.model_dump_json(indent=1), encoding="utf-8")
        bucket.upload(path, spec.key)
    say(f"{sum(map(len, lengths.cases.values()))} lengths, {lengths.how} -> s3://{bucket.name}/{spec.key}")


def count(bucket: Bucket, spec: CountSpec, folder: Path) -> PromptLengths:
    """The longest prompts' lengths of each case. If the model's tokenizer cannot be used: none, and the reason.

    Raises PodError (DAMAGED_MODEL) if the model's files are not as they were stored, or not those that are meant.
    """
    bucket.fetch_folder(spec.model, folder, only=(TOKENIZER, CONFIG, TEMPLATE))
    if spec.content not in ("", content(bucket.complete(spec.model) or ())):
        raise PodError(Exit.DAMAGED_MODEL, f"{spec.model} has other files than when this run began")
    counter, problem = token_counter(str(folder))
    if problem or not counter.exact:
        return PromptLengths(exact=False, how=_line(problem or counter.description), cases={})
    how = "counted with the model's tokenizer"
    render = None
    if spec.endpoint == "chat":
        try:
            render = chat_template(folder, thinking=spec.thinking)
            render([{"role": "user", "content": "?"}])
            how += " and chat template"
        except NoTemplate as error:
            how, render = _line(f"{how}, without its chat template: {error}"), None
    cases = {case.name: _longest(bucket, case, spec, counter, render) for case in spec.cases}
    return PromptLengths(exact=True, how=how, cases=cases)


def _longest(
    bucket: Bucket, case: TestCase, spec: CountSpec, counter: TokenCounter, render: Callable[[Chat], str] | None
) -> tuple[PromptLength, ...]:
    lengths = (
        PromptLength(
            id=row.id,
            tokens=counter.count(_last_request(row, render)),
            answer=row.output_tokens or spec.answers[case.name],
            turns=len(row.turns),
        )
        for row in sent(rows_of(case, _set_of(bucket, case)), spec.requests[case.name])
    )
    return tuple(nlargest(KEPT, lengths, key=lambda each: each.tokens + each.answer * each.turns))


def _last_request(row: PromptRow, render: Callable[[Chat], str] | None) -> str:
    """The text that the server makes of a prompt's last turn, without its answers; bare if the template refuses it."""
    answers = [""] * (len(row.turns) - 1)
    if render is None:
        return row.transcript(answers)
    try:
        return render(row.messages(answers))
    except NoTemplate:
        return row.transcript(answers)


def _set_of(bucket: Bucket, case: TestCase) -> PromptSet | None:
    if (given := case.prompts) is None:
        return None
    return shipped(given.set) or read_set(bucket.start_of(given.key, MAX_FILE_BYTES + 1), name=given.set)


def _line(text: str) -> str:
    return clip(line(json.dumps(text, ensure_ascii=False)[1:-1]), 1000)


class NoTemplate(ValueError):
    """A model's chats cannot be turned into text. The message says why."""


def chat_template(folder: Path, *, thinking: bool | None) -> Callable[[Chat], str]:
    """Messages -> the text that the server tokenizes, up to the answer. Raises NoTemplate; so does the function."""
    try:
        config = parse_json(read_text(folder / CONFIG, limit=LIMIT)) if (folder / CONFIG).is_file() else {}
        file = folder / TEMPLATE
        source = read_text(file, limit=LIMIT) if file.is_file() else _of_config(config)
    except Unreadable as error:
        raise NoTemplate(f"the model's chat template cannot be read: {error}") from None
    if not isinstance(config, dict) or source is None:
        raise NoTemplate("the model has no chat template")
    tokens = {name: _text(value) for name, value in config.items() if name.endswith("_token")}
    asked = {} if thinking is None else {"enable_thinking": thinking}
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = partial(json.dumps, ensure_ascii=False)
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = lambda form: datetime.now(UTC).strftime(form)

    def render(messages: Chat) -> str:
        try:
            return environment.from_string(source).render(
                messages=list(messages), tools=None, documents=None, add_generation_prompt=True, **tokens, **asked
            )
        except Exception as error:  # a template is a program and may fail in any way
            raise NoTemplate(f"the model's chat template fails: {error}") from None

    return render


def _of_config(config: Any) -> str | None:
    """The template in a tokenizer's configuration: a text, or a list of named ones."""
    found = config.get("chat_template") if isinstance(config, dict) else None
    if isinstance(found, list):
        named = {each.get("name"): each.get("template") for each in found if isinstance(each, dict)}
        found = named.get("default")
    return found if isinstance(found, str) else None


def _text(value: Any) -> Any:
    """A special token: its text, or the text of the object that describes it."""
    return value.get("content") if isinstance(value, dict) else value


def _refuse(message: str) -> None:
    raise TemplateError(message)


if __name__ == "__main__":
    run(main)
