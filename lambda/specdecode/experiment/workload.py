"""The load that every arm gets: its cases, its levels, its objective."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    SerializerFunctionWrapHandler,
    WithJsonSchema,
    model_serializer,
    model_validator,
)

from specdecode.experiment.base import Frozen, Label, Name, Prose
from specdecode.prompts.prompt_set import LONGEST_ANSWER
from specdecode.prompts.reference import PromptsOf


class PromptKind(StrEnum):
    """The meaning of `TestCase.text`. `line`: a line, repeated 500 times as LLMPerf's corpus; `sonnet`: empty, since
    LLMPerf's own corpus is used; `text`: the prompt, sent as it is; `set`: empty, since `TestCase.prompts` names the
    prompts.
    """

    LINE = "line"
    SONNET = "sonnet"
    TEXT = "text"
    SET = "set"


SAMPLE = "sample"
"""Group of the public sample's eight cases and the two of its article."""
ARTICLE = "article"
"""Source of a case of the article behind the sample."""


class TestCase(Frozen):
    """A type of prompts, which is measured and reported by itself."""

    __test__ = False  # not a pytest class

    name: Name
    label: Label
    """Value of the CloudWatch dimension `TestCase` (the sample's text with spaces as `_`)."""
    kind: PromptKind
    """What `text` is."""
    text: str = ""
    """A line or a prompt; `kind` says which."""
    prompts: PromptsOf | None = None
    """The prompts of a case of kind `set`. `workload.prompts` writes such cases, one for each category."""
    requests: int | None = Field(default=None, ge=1, le=100_000)
    """Measured requests of this case. Unset: the number of the workload. Each turn of a conversation is one."""
    output_tokens: int | None = Field(default=None, ge=1, le=LONGEST_ANSWER)
    """Longest answer of this case. Unset: the length of the workload. A length in the set of prompts goes first."""
    structured: bool | None
    """Whether the continuation is predictable. The report shows such cases apart from others. `null`: not known."""
    source: Prose = ""
    """Where the prompt comes from. Reports show it; it decides nothing."""

    @property
    def group(self) -> str:
        """The group of the case: its set, the public sample with its article, or none."""
        if self.prompts is not None:
            return self.prompts.set
        return SAMPLE if self.source in ("public sample", ARTICLE) else "cases"


SENT_OVER = 2 / 3
"""Share of an open loop's time in which it must have sent. If it sent for less, no queue had the time to build up, and
the server may be slower than the rate: the test does not show that the server carries it. A choice of ours."""


class Slo(Frozen):
    """Service-level objective: the limits of a good request, and the share of requests that must be good."""

    ttft_s: float | None = Field(default=None, gt=0)
    """Largest time to first token, in seconds. Unset: no limit."""
    tpot_s: float | None = Field(default=None, gt=0)
    """Largest time per output token, in seconds."""
    e2e_s: float | None = Field(default=None, gt=0)
    """Largest end-to-end latency, in seconds."""
    share: float = Field(default=0.95, gt=0, le=1)
    """Share of all requests that must keep to every limit for a load to keep the objective."""

    @property
    def asked(self) -> bool:
        """Whether there is any limit."""
        return (self.ttft_s, self.tpot_s, self.e2e_s) != (None, None, None)


MOST_LEVELS = 12
"""Most levels of one experiment."""
MOST_AT_A_TIME = 4096
MOST_RATE = 10_000
"""Requests a second. Of answers that take a second, twice `MOST_AT_A_TIME` would be under way."""
PER_STREAM = 2
"""Of several levels each sends so many requests for each one under way, at least: of the first and the last requests of
a level, some run beside fewer others than the level says."""


class Level(Frozen):
    """One load. Closed loop (`concurrency`) or open loop (`rate`): one of the two is set."""

    concurrency: int | None = Field(default=None, ge=1, le=MOST_AT_A_TIME)
    """Requests under way at any time."""
    rate: float | None = Field(default=None, gt=0, le=MOST_RATE)
    """Requests sent a second."""

    @property
    def name(self) -> str:
        """In records and file names: `c8`, `r0.5`."""
        return f"r{self.rate:g}" if self.rate is not None else f"c{self.concurrency}"

    @property
    def sorted_name(self) -> str:
        """In CloudWatch's dimension `Load`, whose lists are by letter: `c0008`, `r0000.5`."""
        kind, (whole, dot, rest) = self.name[0], self.name[1:].partition(".")
        return f"{kind}{whole:0>{len(str(MOST_AT_A_TIME))}}{dot}{rest}"

    @property
    def unit(self) -> str:
        """What its value counts."""
        return "requests a second" if self.rate is not None else "requests at a time"

    @property
    def value(self) -> float:
        """Requests at a time, or a second."""
        return self.rate if self.rate is not None else float(self.concurrency or 1)

    def __str__(self) -> str:
        if self.rate is None:
            return f"{self.concurrency} at a time"
        return f"{self.rate:g} request{'' if self.rate == 1 else 's'} a second"


def _listed(value: Any) -> Any:
    return tuple(value) if isinstance(value, list | tuple) else (value,)


def _each_once(values: tuple[float, ...]) -> tuple[float, ...]:
    if not values:  # not a `min_length`, which a wrong item does not reach: it would be a second problem
        raise ValueError("give one load at least")
    names = [f"{value:g}" for value in values]
    if again := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"each level once: {', '.join(again)} is there several times")
    return values


def _plain(values: tuple[float, ...]) -> Any:
    return values[0] if len(values) == 1 else list(values)


def _schema(kind: str, limits: dict[str, Any]) -> dict[str, Any]:
    one = {"type": kind, **limits}
    many = {"type": "array", "items": one, "minItems": 1, "maxItems": MOST_LEVELS, "uniqueItems": True}
    return {"anyOf": [one, many]}


Concurrencies = Annotated[
    tuple[Annotated[int, Field(ge=1, le=MOST_AT_A_TIME)], ...],
    Field(max_length=MOST_LEVELS),
    BeforeValidator(_listed),
    AfterValidator(_each_once),
    PlainSerializer(_plain),
    WithJsonSchema(_schema("integer", {"minimum": 1, "maximum": MOST_AT_A_TIME})),
]
"""One number or a list of numbers. A single number is written as a number."""

Rates = Annotated[
    tuple[Annotated[float, Field(gt=0, le=MOST_RATE)], ...],
    Field(max_length=MOST_LEVELS),
    BeforeValidator(_listed),
    AfterValidator(_each_once),
    PlainSerializer(_plain),
    WithJsonSchema(_schema("number", {"exclusiveMinimum": 0, "maximum": MOST_RATE})),
]
"""One number or a list of numbers: requests per second."""


MOST_REQUESTS = 100_000


class Load(StrEnum):
    """Order in which the arms of a wave are loaded."""

    INTERLEAVED = "interleaved"
    SEQUENTIAL = "sequential"
    SIMULTANEOUS = "simultaneous"


def _or_a_number(schema: dict[str, Any]) -> None:
    number = {"type": "integer", "minimum": 1, "maximum": MOST_REQUESTS}
    schema["anyOf"] = [number, {"$ref": schema.pop("$ref")}]


class Requests(Frozen):
    """Measured requests of a case: one number, or with a precision, which ends a case when its speed-up is settled."""

    max: int = Field(ge=1, le=MOST_REQUESTS)
    """All requests. With a precision: the most, which the upper bound of the plan counts."""
    min: int = Field(default=8, ge=4, le=MOST_REQUESTS)
    """With a precision: requests before the first test of whether they are enough."""
    precision: float | None = Field(default=None, gt=0, le=1)
    """Half the interval's width that is narrow enough: 0.05 is 5%. Measuring also ends as soon as the whole interval
    says that speculation pays, costs or makes no difference."""

    @model_validator(mode="before")
    @classmethod
    def _of_a_number(cls, value: Any) -> Any:
        if isinstance(value, Mapping | Requests):
            return value
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST_REQUESTS:
            raise ValueError(f"a whole number of 1 to {MOST_REQUESTS:,}, or {{min, max, precision}}")
        return {"max": value}

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.precision is None and "min" in self.model_fields_set:
            raise ValueError("min is for requests with a precision: give one, or write one number")
        if self.precision is not None and self.min > self.max:
            raise ValueError(f"min {self.min} is more than max {self.max}")
        return self

    @model_serializer(mode="wrap")
    def _as_written(self, handler: SerializerFunctionWrapHandler) -> Any:
        return self.max if self.precision is None else handler(self)

    def __str__(self) -> str:
        if self.precision is None:
            return f"{self.max} requests"
        return f"{self.min} to {self.max} requests (until ±{self.precision:.1%} or a verdict)"


MOST_CASES = 1000


class Workload(Frozen):
    """The load that every arm gets."""

    cases: tuple[TestCase, ...] = Field(min_length=1, max_length=MOST_CASES)
    """Types of prompts: names from assets/prompts/cases.yaml, or cases of your own."""
    input_tokens: int = Field(ge=1, le=2**20)
    """Length of `line` and `sonnet` prompts; other kinds are sent as they are."""
    output_tokens: int = Field(ge=1, le=LONGEST_ANSWER)
    """Longest answer (`max_tokens`)."""
    requests: Requests = Field(json_schema_extra=_or_a_number)
    """Measured requests per case and arm (and round, and level; of several levels each sends at least two for each
    request that is under way). `{min, max, precision}` stops each case when its speed-up is settled."""
    concurrency: Concurrencies = (1,)
    """Closed loop: requests that are under way at any time. A list measures each of them, on the same servers: the
    levels of a curve. The first is the one that tables and verdicts are about."""
    rate: Rates | None = None
    """Open loop: requests per second instead of `concurrency`; Poisson arrivals. A list measures each of them."""
    streams_per_client: int = Field(default=256, ge=1, le=MOST_AT_A_TIME)
    """Requests under way that one client measures; a level of more is shared by several. 256 is the most at which one
    kept its error bounds (docs/benchmarks.md). Lower it where a report marks a level as doubtful."""
    warmup_requests: int = Field(default=1, ge=0, le=1000)
    """Requests that are sent before each case and not measured."""
    temperature: float = Field(default=0.0, ge=0)
    """Sampling temperature; engines that speculate greedily take 0 only."""
    endpoint: Literal["completions", "chat"] = "chat"
    """The API of OpenAI that requests use."""
    thinking: bool | None = None
    """Qwen3's thinking mode (chat_template_kwargs.enable_thinking), equal in all arms; None for models without it."""
    timeout_s: float = Field(default=1200, gt=0, le=86400)
    """Seconds after which a request counts as failed."""
    seed: int = 11111
    """Seed of prompts and arrivals. The default is LLMPerf's."""
    load: Load = Load.INTERLEAVED
    """Order in which the arms of a wave are loaded."""
    rounds: int | None = Field(default=None, ge=1, le=20)
    """How often the whole set of cases is measured; arms swap device groups between rounds. By default 2 where arms
    share the node, so that each runs on two device groups, else 1; 1 in an adaptive sweep, whose arms share a group."""
    ignore_eos: bool = False
    """Ask for answers of exactly `output_tokens`."""
    slo: Slo = Slo()
    """Service-level objective. The report shows the goodput and, of several levels, the largest load that keeps it."""

    @model_validator(mode="after")
    def _contradicts_nothing(self) -> Self:
        if self.rate is not None and self.concurrency != (1,):
            raise ValueError("concurrency and rate are two kinds of load: leave one of the two out")
        if self.requests.precision is not None and self.load is Load.SEQUENTIAL:
            raise ValueError("requests with a precision are tested on all arms: load must not be sequential")
        return self

    @property
    def levels(self) -> tuple[Level, ...]:
        """The loads that are measured, in the experiment's order."""
        if self.rate is not None:
            return tuple(Level(rate=rate) for rate in self.rate)
        return tuple(Level(concurrency=concurrency) for concurrency in self.concurrency)

    @property
    def load_in_words(self) -> str:
        """`4 at a time`; `1, 2, 4 at a time`."""
        *others, last = self.levels
        return ", ".join([*(f"{level.value:g}" for level in others), str(last)])

    def knows(self, field: str) -> bool:
        """Whether `field` is what was sent. An import knows little of it."""
        return True

    def output_tokens_of(self, case: TestCase) -> int:
        """Longest answer of a case, for prompts without a length of their own."""
        return case.output_tokens or self.output_tokens

    def requests_of(self, case: TestCase, level: Level | None = None) -> int:
        """The most measured requests of a case, an arm and a round, at `level`; without one, at all levels together."""
        if level is None:
            return sum(self.requests_of(case, each) for each in self.levels)
        asked = case.requests or self.requests.max
        if len(self.levels) == 1 or level.concurrency is None:
            return asked
        return max(asked, PER_STREAM * level.concurrency)

    def fewest_of(self, case: TestCase, level: Level) -> int:
        """Requests before the first test of whether they are enough. Without one: `requests_of`."""
        most = self.requests_of(case, level)
        if self.requests.precision is None:
            return most
        return min(most, max(self.requests.min, PER_STREAM * (level.concurrency or 1)))


class ImportedWorkload(Workload):
    """What another tool's files say of its load. What they do not say is unset, and not written."""

    input_tokens: int = 1
    output_tokens: int = 1
    requests: Requests = Requests(max=1)

    def knows(self, field: str) -> bool:
        return field in self.model_fields_set
