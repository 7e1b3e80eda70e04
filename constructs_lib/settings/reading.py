"""Reads the settings: those that the deployment keeps, and the CDK context (`cdk.json`, `cdk deploy -c key=value`)."""

import os
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from specdecode.experiment import credentials, kept

from constructs_lib.settings.fields import Settings
from constructs_lib.settings.rules import problems_across

ALONE = "--alone"
"""Argument of a program that leaves out what the checkout keeps."""


class SettingsError(ValueError):
    """The context holds something that cannot work. The message lists every problem."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        listed = "\n".join(f"  - {text}" for text in problems)
        super().__init__(f"The settings cannot work:\n{listed}\nSee docs/settings.md.")


def settings_of(
    context: Mapping[str, Any],
    *,
    root: Path | None,
    file: kept.KeptSettings | None = None,
    environ: Mapping[str, str] = os.environ,
) -> tuple[Settings, Mapping[str, str]]:
    """The settings that the checkout `root` keeps (None: none) with a CDK context, and the deployed values that they
    replace on purpose. `file`: what is to be kept instead.

    Raises SettingsError. A context that contradicts the file is refused: the next command would not know of it.
    """
    try:
        file = file or kept.read(root)
    except kept.BadFile as error:
        raise SettingsError([str(error)]) from None
    problems = [*_contradictions(context, file.settings)]
    try:
        settings = read_settings({**file.settings, **context})
    except SettingsError as error:
        raise SettingsError([*problems, *error.problems]) from None
    problems += _another_region(settings, file.settings, environ) if root else ()
    if problems:
        raise SettingsError(problems)
    return settings, file.replaces


def _contradictions(context: Mapping[str, Any], settings: Mapping[str, str]) -> Iterator[str]:
    for key in sorted(context.keys() & settings):
        given = _text(context[key])
        if given != settings[key] and _as_kept(key, given, settings) != settings[key]:
            yield (
                f"{key}: {given or 'nothing'} is given (-c, cdk.json or ~/.cdk.json), and {kept.FILE} keeps "
                f"{settings[key] or 'nothing'}; leave it out, or change what is kept: `{kept.CONFIGURE} "
                f"{kept.words({key: given})}`"
            )


def _as_kept(key: str, given: str, settings: Mapping[str, str]) -> str:
    """A value as the file would write it: 36 is 36.0."""
    try:
        return texts(read_settings({**settings, key: given})).get(key, "")
    except SettingsError:
        return given


def _another_region(settings: Settings, file: Mapping[str, str], environ: Mapping[str, str]) -> Iterator[str]:
    """Without the file, commands look for the deployment where the environment says."""
    said = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION")
    if "region" not in file and said and said != settings.region:
        yield (
            f"region: the deployment would go to {settings.region}, and the environment says {said}, where every other "
            f"command would look for it; say where it is: `{kept.CONFIGURE} region={said}` or "
            f"`{kept.CONFIGURE} region={settings.region}`"
        )


def _text(value: Any) -> str:
    """A value of the context as `-c` takes it."""
    match value:
        case bool():
            return str(value).lower()
        case list() | tuple():
            return ",".join(map(str, value))
        case dict():
            return ",".join(f"{key}={text}" for key, text in value.items())
        case datetime():
            return value.isoformat()
    return str(value)


def texts(settings: Settings) -> dict[str, str]:
    """The region, and every setting that is not its default, as `-c` takes them."""
    fields = type(settings).model_fields.items()
    given = {
        key: getattr(settings, key)
        for key, field in fields
        if getattr(settings, key) != field.get_default(call_default_factory=True)
    }
    return {key: _text(value) for key, value in sorted({**given, "region": settings.region}.items())}


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
        named = key or "''"
        problems.append(f"{named}: no such setting" + (f"; did you mean {near[0]}?" if near else ""))
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
            problems.append(f"{key}: {kept.refused(item)}")
        settings = _valid_part(known, rejected)
    problems += problems_across(settings, now=now or datetime.now(UTC))
    if problems:
        raise SettingsError(problems)
    return settings


def _valid_part(known: Mapping[str, Any], rejected: set[str]) -> Settings:
    """The given values that are valid, so that the rules across settings can be checked beside the bad ones."""
    valid = Settings(**{key: value for key, value in known.items() if key not in rejected})
    return Settings.model_construct(**valid.model_dump())
