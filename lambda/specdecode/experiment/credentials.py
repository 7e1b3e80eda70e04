"""Finds credentials in documents that many people can read. Messages name the place and never repeat the value.

What an experiment says goes into the execution's history and logs, into S3, into pods and reports. The patterns are the
published forms of each kind; a key without a form of its own is known by the name of the variable that holds it.

Why it is so: ADR 128.
"""

import re
from collections.abc import Iterator
from typing import Any

from specdecode import names

KINDS: dict[str, re.Pattern[str]] = {
    "a Hugging Face token": re.compile(r"\b(?:hf|api_org)_[A-Za-z0-9]{20,}"),
    "an AWS access key": re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    "an OpenAI or Anthropic key": re.compile(r"\bsk-[A-Za-z0-9_-]{20,}"),
    "a GitHub token": re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{22})"),
    "a Google API key": re.compile(r"\bAIza[A-Za-z0-9_-]{35}"),
    "a Slack token": re.compile(r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}"),
    "an EKS token": re.compile(r"\bk8s-aws-v1\.[A-Za-z0-9_-]{20,}"),
    "a web token (JWT)": re.compile(r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\."),
    "a private key": re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
    "a URL with a password": re.compile(r"\b[A-Za-z][A-Za-z0-9+.-]*://[^\s/@:]*:[^\s/@]+@"),
    "an option that takes a secret": re.compile(r"\A--(?:api-key|hf-token|[a-z-]*password)(?:=|\Z)"),
}
"""Kind of credential -> pattern of its published form."""

_SECRET_NAME = re.compile(r"(?:\A|_)(?:API_?KEY|TOKEN|SECRET|PASSWORD|ACCESS_KEY)\Z", re.IGNORECASE)
ADVICE = (
    "take it out, and revoke it if it was sent or stored. The Hugging Face token belongs into Secrets Manager as "
    f"{names.HF_TOKEN_SECRET}, a server's key into {names.API_KEY_VARIABLE} of whoever calls it"
)


def kind_of(text: str) -> str | None:
    """Kind of the credential in `text`; None if there is none."""
    return next((kind for kind, pattern in KINDS.items() if pattern.search(text)), None)


def redacted(text: str) -> str:
    """`text` with `(hidden: KIND)` for each credential in it."""
    for kind, pattern in KINDS.items():
        text = pattern.sub(f"(hidden: {kind})", text)
    return text


def without(value: Any, *, at: tuple[str, ...] = ()) -> Any:
    """Plain data with an empty text in place of each credential, and without the keys that are one."""
    if isinstance(value, dict):
        return {key: without(item, at=(*at, str(key))) for key, item in value.items() if not kind_of(str(key))}
    if isinstance(value, (list, tuple)):
        return [without(item, at=(*at, "")) for item in value]
    return "" if any(found(value, at=at)) else value


def found(value: Any, *, at: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """Dotted path and kind of each credential in plain data; a part of the path that is a credential is hidden."""
    if isinstance(value, str):
        kind = kind_of(value)
        if kind is None and value and len(at) > 1 and at[-2] == "env" and _SECRET_NAME.search(at[-1]):
            kind = "the value of a secret"
        if kind:
            yield ".".join(at), kind
    elif isinstance(value, dict):
        for key, item in value.items():
            kind = kind_of(str(key))
            here = (*at, "…" if kind else str(key))
            if kind:
                yield ".".join(here), kind
            yield from found(item, at=here)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from found(item, at=(*at, str(index)))
