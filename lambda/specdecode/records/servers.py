"""servers.json of a run's folder: how each server answers, and its own counters of speculation. As read."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from specdecode.experiment.told import MOST_FORECAST, Forecasted

SERVERS = "servers.json"
"""Name of the file in a run's folder."""
CONVERSATIONS = "conversations"
"""Folder of the answers with which all arms are asked the next turn of a conversation: `<case>.json`."""
MOST = 2**40
"""Largest count of one block of requests: the sum over rounds stays exact."""
BlockCount = Annotated[int, Field(ge=0, le=MOST)]
BlockKey = tuple[str, str, int, str]
"""Variant, case, round and level."""


class _Read(BaseModel):
    """Base of parts that another version may have written: unknown fields are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class EngineCounters(_Read):
    """The engine's own speculation counters over one arm's measured requests of a case, round and level: after minus
    before. vLLM's names: `vllm:spec_decode_num_drafts_total`, `…_num_draft_tokens_total`,
    `…_num_accepted_tokens_total`, `…_num_accepted_tokens_per_pos_total`.
    """

    variant: str
    case: str
    round: int = 0
    level: str = ""
    drafts: BlockCount
    """Speculative steps of the target model."""
    draft_tokens: BlockCount
    accepted_tokens: BlockCount
    accepted_per_position: tuple[BlockCount, ...] = ()
    """How often the draft token at position 1, 2, … k was accepted."""
    trusted: bool = True
    """False if the engine is known to miscount (vLLM-Neuron 0.2.x). The report shows such counters, and uses none."""

    @property
    def block(self) -> BlockKey:
        """Variant, case, round and level of the requests."""
        return self.variant, self.case, self.round, self.level


class ServerFacts(_Read):
    """How one arm's server answers, found by asking it once before the load."""

    url: str = ""
    model: str = ""
    """Name of the model on the server."""
    running_usage: bool = False
    """Whether the server sends token counts with every chunk."""
    usage: bool = False
    """Whether the server sends token counts at all."""
    ignore_eos: bool = False
    """Whether the server supports answers of an exact length."""
    counters: bool = False
    """Whether its `/metrics` has counters of speculation."""
    drafted: int | None = None
    """Draft tokens of a step: the positions of these counters. 0 without speculation, None if it does not tell."""
    started_at: float | None = None
    """When its process began, seconds since the epoch, as its `/metrics` says. None if it does not."""
    prefix_caching: bool | None = None
    """Whether it keeps the beginnings of prompts, as its `/metrics` says (vLLM's `vllm:cache_config_info`)."""


class SetFacts(_Read):
    """A set of prompts that was measured."""

    name: str
    version: str = ""
    licence: str = ""
    sha256: str
    prompts: int = Field(default=0, ge=0, le=MOST)
    """Number of prompts in the whole set."""


class Servers(_Read):
    """Facts about the servers, from all processes of a benchmark (waves, rounds, resumed ones)."""

    run_id: str
    prompt_tokens: str = ""
    """How the prompts' lengths were counted."""
    arms: dict[str, ServerFacts] = Field(default_factory=dict)
    counters: tuple[EngineCounters, ...] = ()
    sets: tuple[SetFacts, ...] = ()
    notes: tuple[str, ...] = ()
    forecast: tuple[Forecasted, ...] = Field(default=(), max_length=MOST_FORECAST)
    """What the arms that read told of themselves as drafts."""

    @property
    def prefix_caching(self) -> dict[str, bool]:
        """Arm -> whether its server keeps the beginnings of prompts. Arms whose server does not say are left out."""
        return {name: arm.prefix_caching for name, arm in self.arms.items() if arm.prefix_caching is not None}

    def with_earlier(self, earlier: Servers | None, *, measured: Collection[BlockKey] = ()) -> Servers:
        """Together with what other processes of the same run found before; what this one found itself counts.
        `measured`: the blocks for which this process sent requests. Their earlier counters, of a part, are dropped.
        """
        if earlier is None or earlier.run_id != self.run_id:
            return self
        own = {item.block for item in self.counters} | {*measured}
        kept = tuple(item for item in earlier.counters if item.block not in own)
        return self.model_copy(
            update={
                "arms": {**earlier.arms, **self.arms},
                "counters": kept + self.counters,
                "sets": tuple({item.sha256: item for item in (*earlier.sets, *self.sets)}.values()),
                "notes": tuple(dict.fromkeys((*earlier.notes, *self.notes))),
                "forecast": self.forecast or earlier.forecast,
            }
        )
