"""Reads the settings out of the CDK context (`cdk.json`, `cdk deploy -c key=value`)."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError
from specdecode.experiment import credentials

from constructs_lib.settings.fields import Settings
from constructs_lib.settings.rules import problems_across


class SettingsError(ValueError):
    """The context holds something that cannot work. The message lists every problem."""


def read_settings(context: Mapping[str, Any], *, now: datetime | None = None) -> Settings:
    """Read the settings out of a CDK context. Keys with `:`, `/` or `@` are the CDK's own and are skipped.

    `now` is the moment against which windows of reservations are checked; unset, the present.
    Raises SettingsError with all problems, one a line. Each names its key and what to do.
    """
    values = {key: value for key, value in context.items() if not re.search(r"[:/@]", key)}
    fields = Settings.model_fields
    problems = []
    for key in sorted(key for key in set(values) - set(fields) if not credentials.kind_of(key)):
        near = get_close_matches(key, fields, n=1)
        problems.append(f"{key}: no such setting" + (f"; did you mean {near[0]}?" if near else ""))
    secret = {place: kind for place, kind in credentials.found(values)}
    problems += [f"{place}: holds what looks like {kind}; {credentials.ADVICE}" for place, kind in secret.items()]
    rejected = {place.partition(".")[0] for place in secret}
    known = {key: value for key, value in values.items() if key in fields and value != "" and key not in rejected}
    try:
        settings = Settings(**known)
    except ValidationError as error:
        for item in error.errors():
            key = str(item["loc"][0])
            rejected.add(key)
            problems.append(f"{key}: {item['msg'].removeprefix('Value error, ')} (given: {item['input']!r})")
        settings = _valid_part(known, rejected)
    problems += problems_across(settings, now=now or datetime.now(UTC))
    if problems:
        listed = "\n".join(f"  - {text}" for text in problems)
        raise SettingsError(f"The settings cannot work:\n{listed}\nSee docs/settings.md.")
    return settings


def _valid_part(known: Mapping[str, Any], rejected: set[str]) -> Settings:
    """The given values that are valid, so that the rules across settings can be checked beside the bad ones."""
    valid = Settings(**{key: value for key, value in known.items() if key not in rejected})
    return Settings.model_construct(**valid.model_dump())
