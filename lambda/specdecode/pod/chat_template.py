"""Turns a chat into the text that a server makes of it, with the model's own template, as transformers renders it.

Source: transformers, src/transformers/utils/chat_template_utils.py (`_compile_jinja_template`): a sandboxed Jinja
environment with `trim_blocks` and `lstrip_blocks`, loop controls, `tojson`, `raise_exception` and `strftime_now`. A
template is a program that we did not write: in the sandbox it sees nothing but its arguments.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from specdecode.untrusted import Unreadable, parse_json, read_text

CONFIG = "tokenizer_config.json"
TEMPLATE = "chat_template.jinja"
"""This file comes before the `chat_template` of CONFIG (transformers 4.43 and later write it beside it)."""
LIMIT = 2**22

Chat = Sequence[dict[str, Any]]


class NoTemplate(ValueError):
    """A model's chats cannot be turned into text. The message says why."""


def chat_template(folder: Path, *, thinking: bool | None) -> Callable[[Chat], str]:
    """A function from messages to the text that the server tokenizes, up to the place where the answer begins. Raises
    NoTemplate; so does the function.
    """
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
    environment.filters["tojson"] = _tojson
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


def _tojson(value: Any, ensure_ascii: bool = False, **how: Any) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, **how)


def _refuse(message: str) -> None:
    raise TemplateError(message)
