"""The load that every arm gets."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, Self

from pydantic import Field, model_validator

from specdecode.experiment.base import Frozen
from specdecode.experiment.cases import TestCase
from specdecode.experiment.level import PER_STREAM, Concurrencies, Level, Rates
from specdecode.experiment.slo import Slo


class Load(StrEnum):
    """Order in which the arms of a wave are loaded."""

    INTERLEAVED = "interleaved"
    SEQUENTIAL = "sequential"
    SIMULTANEOUS = "simultaneous"


class Workload(Frozen):
    """The load that every arm gets."""

    cases: tuple[TestCase, ...] = Field(min_length=1, max_length=1000)
    """Prompt types: names from assets/prompts/cases.yaml, or cases of your own."""
    input_tokens: int = Field(ge=1, le=2**20)
    """Length of `line` and `sonnet` prompts; other kinds are sent as they are."""
    output_tokens: int = Field(ge=1, le=2**20)
    """Longest answer (`max_tokens`)."""
    requests: int = Field(ge=1, le=100_000)
    """Measured requests per case and arm (and round, and level; of several levels each sends at least two for each
    request that is under way)."""
    concurrency: Concurrencies = (1,)
    """Closed loop: requests that are under way at any time. A list measures each of them, on the same servers: the
    levels of a curve. The first is the one that tables and verdicts are about."""
    rate: Rates | None = None
    """Open loop: requests per second instead of `concurrency`; Poisson arrivals. A list measures each of them."""
    warmup_requests: int = Field(default=1, ge=0, le=1000)
    """Requests before each case that are sent and not measured."""
    temperature: float = Field(default=0.0, ge=0)
    """Sampling temperature; engines that speculate greedily take 0 only."""
    endpoint: Literal["completions", "chat"] = "chat"
    """Which of OpenAI's APIs is called."""
    thinking: bool | None = None
    """Qwen3's thinking mode (chat_template_kwargs.enable_thinking), equal in all arms; None where models lack it."""
    timeout_s: float = Field(default=1200, gt=0, le=86400)
    """Seconds after which a request counts as failed."""
    seed: int = 11111
    """Of prompts and arrivals; LLMPerf's own by default."""
    load: Load = Load.INTERLEAVED
    """Order in which the arms of a wave are loaded."""
    rounds: int | None = Field(default=None, ge=1, le=20)
    """How often the whole set of cases is measured; arms swap device groups between rounds. By default 2 where arms
    share the node, so that each runs on each device group, else 1; 1 in an adaptive sweep, whose arms share a group."""
    ignore_eos: bool = False
    """Ask for answers of exactly `output_tokens`."""
    slo: Slo = Slo()
    """Service-level objective: goodput is told, and of several levels the largest load that keeps it."""

    @model_validator(mode="after")
    def _one_kind_of_load(self) -> Self:
        if self.rate is not None and len(self.concurrency) > 1:
            raise ValueError("levels of concurrency and of rate are two kinds of load: leave one of the two out")
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

    def requests_of(self, case: TestCase, level: Level | None = None) -> int:
        """Measured requests of a case, an arm and a round, at `level`; without one, at all levels together."""
        if level is None:
            return sum(self.requests_of(case, each) for each in self.levels)
        asked = case.requests or self.requests
        if len(self.levels) == 1 or level.concurrency is None:
            return asked
        return max(asked, PER_STREAM * level.concurrency)
