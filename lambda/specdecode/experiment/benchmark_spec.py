"""The instructions of a benchmark in a pod: the one file that its Job mounts. `specdecode.manifests` writes it."""

from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from specdecode.experiment.base import MOST_DRAFTED, MOST_ROUNDS, Frozen, Many, Name, PricePerHour
from specdecode.experiment.most_tokens import MostTokens
from specdecode.experiment.sizing import MOST_CLIENTS, clients_of, most_clients
from specdecode.experiment.workload import MOST_CASES, Level, Workload
from specdecode.untrusted import Unreadable, in_words, parse_json, read_file

MOST_BYTES = 2**20
"""Of a specification's file: four times the largest experiment."""


class BenchmarkArm(Frozen):
    """One endpoint to load. Its URL is not here: the command line gives it (`--arm base=http://…`)."""

    variant: Name
    label: str
    """Value of the CloudWatch dimension `Variant`."""
    compare_to: Name | None = None
    """The arm that this one is compared with. It decides when enough is measured."""
    num_speculative_tokens: int | None = Field(default=None, ge=1, le=MOST_DRAFTED)
    """k, to compute an acceptance rate from tokens per step. None if the arm does not speculate."""
    most_tokens_per_step: MostTokens | None = None
    """Most tokens that a step of the engine yields for that k. None if not known (older records, `bench`)."""
    model: str | None = None
    """Name of the model on this arm's server. None if it is `model` of the specification."""
    price_per_hour: PricePerHour | None = None
    """US dollars for an hour of the server's machine. Only the report uses it."""


class BenchmarkReader(Frozen):
    """A server of a draft, which reads an arm's answers after the load."""

    variant: Name
    reads: Name
    draft: str
    """The draft's id."""
    most_tokens_per_step: MostTokens
    """Of the engine that the forecast is meant for."""


class BenchmarkSpec(Frozen):
    """One benchmark Job: these arms, this load, once."""

    schema_version: Literal[1] = 1
    run_id: str
    experiment: Name
    """Value of the CloudWatch dimension `Experiment`."""
    wave: int = Field(ge=0)
    round: int = Field(ge=0, lt=MOST_ROUNDS)
    """Written into every record. A Job measures one round: `workload.rounds` is spread over the plan's waves."""
    model: str
    """The served model's name, sent as `model` in each request."""
    arms: Many[BenchmarkArm] = Field(min_length=1)
    """In the order in which the benchmark loads them."""
    readers: Many[BenchmarkReader] = ()
    """Servers that are not loaded."""
    workload: Workload
    duration_s: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Seconds of load for each case and arm, in place of the workload's number of requests (`bench --duration`)."""
    accounting: Literal["usage", "vllm", "neuron", "stock"] = "usage"
    """Definition of the figures in LLMPerf's files and CloudWatch; the benchmark does not read it."""
    trusted_counters: bool = True
    """Whether the engine's counters of speculation in /metrics can be trusted (`Engine.metrics.trusted`)."""
    tokenizer: str | None = None
    """Path of the model's folder (with tokenizer.json), relative to the working directory, for prompts of an exact
    length; None: the length of a prompt is estimated from its characters."""

    def clients(self, level: Level) -> int:
        """Clients that measure a level together."""
        return clients_of(self.workload, level, arms=len(self.arms))

    @property
    def most_clients(self) -> int:
        """Most clients that a level takes: the number of pods of the Job. A load that takes more is for `bench` alone,
        which is one client.
        """
        return min(MOST_CLIENTS, most_clients(self.workload, arms=len(self.arms)))


def read_specification(path: Path) -> BenchmarkSpec:
    """The specification in a file. Raises Unreadable, with the file's name and the first field that is wrong."""
    try:
        document = parse_json(read_file(path, limit=MOST_BYTES))
        load = document.get("workload") if isinstance(document, dict) else None
        cases = load.get("cases") if isinstance(load, dict) else None
        if isinstance(cases, list) and len(cases) > MOST_CASES:  # each wrong one takes 1.3 KiB
            raise Unreadable(f"more than {MOST_CASES:,} cases")
        return BenchmarkSpec.model_validate(document, extra="ignore")
    except Unreadable as error:
        raise Unreadable(f"{path}: {error}") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "it"
        raise Unreadable(f"{path}: no benchmark of this version: {place} {in_words(first)}") from None
