"""The raw record of one request: a line of a file below runs/<run id>/raw/ (`raw_file`), and nothing derived."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, FailFast, Field, model_validator

from specdecode.experiment.base import MOST_ROUNDS

SCHEMA_VERSION: Literal[1] = 1

MOST_COUNT = 2**31 - 1
"""Largest count of one request: sums over all requests stay exact."""
Count = Annotated[int, Field(ge=0, le=MOST_COUNT)]
Tokens = Annotated[int, Field(ge=0, le=2**53)]
SHORTEST_S = 1e-9


def measured(seconds: float) -> float:
    """The time, or 0: no clock measures a smaller one, and a rate of it would be too large to be squared."""
    return seconds if abs(seconds) >= SHORTEST_S else 0.0


Seconds = Annotated[float, Field(ge=-100, le=1e10, allow_inf_nan=False), AfterValidator(measured)]
"""A record from a file may come from anybody. Figures that no run can have are refused."""
MOST_TURNS = 100
"""Most turns of a conversation (specdecode.prompts)."""
MOST_CLIENTS = 1000
"""Most clients of a level. An experiment has fewer (specdecode.experiment.sizing)."""
MOST_POSITIONS = 64
"""Most drafted tokens of a step with a count of their own."""
MOST_COUNTED = 2**20
"""Most tokens that the chunks of one answer may count together: an experiment cannot ask for more."""


def raw_file(variant: str, case: str, client: int = 0) -> str:
    """Path of a client's records in a run's folder: `raw/base/one.jsonl`, `raw/base/one@1.jsonl` … No name of a case
    has an @.
    """
    return f"raw/{variant}/{case}{f'@{client}' if client else ''}.jsonl"


class ErrorKind(StrEnum):
    """How a request failed; one category each, so that started = completed + failed."""

    CONNECT = "connect"
    """No connection: refused, unreachable, unknown name, TLS handshake."""
    TIMEOUT = "timeout"
    """Not finished within the request's time, from the attempt to connect on."""
    RESET = "reset"
    """The connection broke, or closed before any answer."""
    TRUNCATED = "truncated"
    """Closed orderly, but before the answer's end."""
    HTTP = "http"
    """A status other than 200."""
    PROTOCOL = "protocol"
    """Not HTTP, not an event stream, not JSON, not UTF-8, not a completion."""
    SERVER = "server"
    """An error object in a 200 answer, or the end of one by an error."""
    EMPTY = "empty"
    """A whole answer without any text."""
    CANCELLED = "cancelled"
    """Ended by the benchmark itself (interrupted)."""


class RequestError(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: ErrorKind
    message: str
    http_status: int | None = None


@dataclass(slots=True, kw_only=True)
class Chunk:
    """One streamed event that carried text. A plain dataclass: hundreds are made for each request while others stream,
    and a model costs eight times as much.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    at_s: Seconds
    """Arrival, seconds after the request was sent (monotonic)."""
    chars: Count
    """Characters of text in it (content and reasoning together)."""
    tokens: Count | None = None
    """Tokens in it by the server's running `usage`, if the server sends one with each chunk."""
    reasoning_chars: Count = 0
    """How many of `chars`, at the start of the chunk's text, are reasoning and not content."""


class Drafted(BaseModel):
    """How many drafts of one answer the server accepted, by its own count: vLLM's `metrics.speculative_decoding` in the
    usage chunk (`--per-request-spec-decode-metrics`; vLLM 0.32.0, vllm/v1/metrics/stats.py, RequestSpecDecodeMetrics).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    drafts: Tokens
    """Steps of the target model that had drafts to verify."""
    draft_tokens: Tokens
    accepted_tokens: Tokens
    accepted_per_position: Annotated[tuple[Tokens, ...], Field(max_length=MOST_POSITIONS)]
    """In how many steps the draft token at position 1, 2, … k was accepted."""


def _of_one_answer(drafted: Drafted) -> Drafted:
    if max(drafted.drafts, drafted.draft_tokens, drafted.accepted_tokens, *drafted.accepted_per_position) > MOST_COUNT:
        raise ValueError(f"an answer has at most {MOST_COUNT} drafts")
    return drafted


class RequestRecord(BaseModel):
    """What was sent and what came back. Times are seconds; offsets are relative to `sent_s`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = SCHEMA_VERSION
    run_id: str
    variant: str
    case: str
    round: Annotated[int, Field(ge=0, lt=MOST_ROUNDS)] = 0
    level: str = ""
    """The load that the request was part of (`Level.name`). Empty in records of earlier versions, with one load."""
    index: Count
    """Position among the requests of its variant, case, round and level. An equal index means an equal prompt."""
    turn: Annotated[int, Field(ge=0, lt=MOST_TURNS)] = 0
    """Which question of its conversation it asks, from 0: `index - turn` is the conversation."""
    warmup: bool = False
    started_at: Seconds
    """Wall clock, seconds since the epoch, for people only."""
    scheduled_s: Seconds | None = None
    """When the load plan wanted it sent, on the monotonic clock of the run (open loop)."""
    sent_s: Seconds
    """When it was sent, on the same clock."""
    end_s: Seconds
    """Seconds from sent to the last byte (or to the failure)."""
    chunks: Annotated[tuple[Chunk, ...], FailFast()]
    """In order of arrival. In a record that was read back they are packed (records/packed.py)."""
    requested_input_tokens: Tokens
    requested_output_tokens: Tokens
    prompt_tokens: Tokens | None
    """The server's usage.prompt_tokens."""
    completion_tokens: Count | None
    """The server's usage.completion_tokens."""
    cached_tokens: Tokens | None = None
    """Prompt tokens that the server had in its prefix cache (`usage.prompt_tokens_details.cached_tokens`), if it
    says so (vLLM: `--enable-prompt-tokens-details`)."""
    reasoning_tokens: Tokens | None = None
    """Completion tokens that are reasoning (`usage.completion_tokens_details.reasoning_tokens`), if it says so."""
    drafted: Annotated[Drafted, AfterValidator(_of_one_answer)] | None = None
    """None if the server gives no number, or an impossible one."""
    prompt_sha256: str
    prompt_set: str | None = None
    """NAME@SHA256 of the set that the prompt is of."""
    prompt_id: str | None = None
    """Id of the prompt in that set."""
    output: str
    """All text in order of arrival, reasoning and content."""
    finish_reason: str | None
    error: RequestError | None = None
    usage_problem: str | None = None
    """Why the server's `usage` is missing or not believed. The token counts are then None."""
    events: Count = 0
    """Streamed events with a choice in them, with text or without: what LLMPerf counts as a token."""
    portion: Count = 0
    """Number of the portion of its case and level that it was part of, in its round. The arms alternate after each
    portion. In records of an earlier version an arm's requests of a case are one portion."""
    session: Count = 0
    """Number of the process that measured it: 0, or 1, 2 … after a run was resumed. Several clients count as one."""
    client: Annotated[int, Field(ge=0, lt=MOST_CLIENTS)] = 0
    """Number of the client of the level that sent it."""
    clients: Annotated[int, Field(ge=1, le=MOST_CLIENTS)] = 1
    """Number of clients that loaded together at the level. Each sent its share of the requests."""
    client_lag_s: Seconds = 0.0
    """Largest delay of the client's own event loop while this request ran."""
    time_doubt_s: Seconds = 0.0
    """How wrong a chunk's time may be for it: the delay itself where chunks are timed when they are read (TLS) or where
    a read brought several chunks; 0 if the kernel timed every chunk on its own."""
    doubtful_chunks: Count | None = None
    """How many chunks that may be: all that are timed when they are read, else of each read all but the last, which
    have the last one's time. None: an earlier version wrote the record, and it may be all."""

    @model_validator(mode="after")
    def _chunks_count_no_more_than_an_answer_has(self) -> Self:
        if (counted := sum(chunk.tokens or 0 for chunk in self.chunks)) > MOST_COUNTED:
            raise ValueError(f"the chunks count {counted} tokens; an answer has at most {MOST_COUNTED}")
        return self
