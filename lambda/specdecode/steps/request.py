"""The input of an execution."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from specdecode import names
from specdecode.escape import clip
from specdecode.experiment import (
    Capacity,
    ExperimentError,
    credentials,
    documents,
    from_document,
    load_preset,
)
from specdecode.experiment.model import AnyExperiment
from specdecode.planning.offers import offer_lines
from specdecode.steps.errors import InvalidExperiment

SHOWN = 100
"""Most characters of a given value, and most problems, in a message."""


class RunRequest(BaseModel):
    """The execution's input: an experiment, or a run to repeat."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    experiment: str | dict[str, JsonValue] | None = None
    """A preset's name, or a whole document. Nothing is run by default: a run costs money."""
    overrides: dict[str, JsonValue] = Field(default_factory=dict, alias="set")
    resume: str | None = None
    """Id of a run to repeat. What it finished is not done again."""
    accept_cost: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """US dollars that it may cost at most. Needed if that is more than the deployment allows."""
    started_by: str | None = Field(default=None, max_length=2048)
    """Who starts the run. Shown to a user who wants to stop it. It is not checked."""
    comment: JsonValue = Field(default=None, alias="Comment")
    """Not read: the console's form begins with `{"Comment": "Insert your JSON here"}`."""


def parse_request(given: Any) -> RunRequest:
    """The request in an execution's input (null counts as {})."""
    try:
        documents.check_depth(given, origin="input")
    except ExperimentError as error:
        raise InvalidExperiment(str(error)) from None
    if places := list(credentials.found(given)):
        raise InvalidExperiment(
            "The input holds what looks like a credential, and an execution's input is kept in its history:\n"
            + "\n".join(f"  {place or 'input'}: {kind}" for place, kind in places)
            + f"\n{credentials.ADVICE[0].upper()}{credentials.ADVICE[1:]}."
        )
    try:
        request = RunRequest.model_validate({} if given is None else given)
    except ValidationError as error:
        lines = [
            f"  {clip('.'.join(str(part) for part in item['loc']), SHOWN) or 'input'}: {item['msg']}"
            for item in error.errors()[:SHOWN]
        ]
        raise InvalidExperiment(
            'The input is not one: {"experiment": "<preset>" or {...}, "set": {"<path>": value}} '
            'or {"resume": "<run id>"}; '
            'beside either "accept_cost": <USD>.\n' + "\n".join(lines)
        ) from None
    if request.resume is not None and request.model_fields_set & {"experiment", "overrides"}:
        raise InvalidExperiment("resume repeats a run exactly: give neither experiment nor set beside it")
    if request.resume is not None and not names.is_run_id(request.resume):
        raise InvalidExperiment(f"{clip(request.resume, SHOWN)!r} is no run's id (`specdecode runs` lists them)")
    return request


def experiment_of(request: RunRequest, *, capacity: Capacity) -> AnyExperiment:
    """The validated experiment of a request without `resume`."""
    if request.experiment is None:
        sample = "" if request.comment is None else " (what it holds is the console's own sample)"
        raise InvalidExperiment(
            f'The input names no experiment{sample}, so nothing was started. Give {{"experiment": "<preset>"}}, or '
            f'{{"resume": "<run id>"}}. The presets, by what a first run of each costs:\n{offer_lines(capacity)}'
        )
    try:
        if isinstance(request.experiment, str):
            return load_preset(request.experiment, overrides=request.overrides, capacity=capacity)
        return from_document(request.experiment, overrides=request.overrides, capacity=capacity)
    except ExperimentError as error:
        raise InvalidExperiment(str(error)) from None
