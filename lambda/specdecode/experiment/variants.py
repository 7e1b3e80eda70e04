"""The arms of a comparison: their weights, how they speculate, and their two kinds (served by the run, or running)."""

import re
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import Field, StringConstraints, field_validator, model_validator

from specdecode import s3_keys
from specdecode.experiment import shapes
from specdecode.experiment.base import (
    MOST_DRAFTED,
    Argument,
    EndpointSecret,
    EnvName,
    Frozen,
    Label,
    Name,
    PricePerHour,
)
from specdecode.experiment.most_tokens import MostTokens


class ModelKind(StrEnum):
    """The kind of weights: a language model, or a head that was trained for one target."""

    MODEL = "model"
    EAGLE = "eagle"
    EAGLE3 = "eagle3"
    DFLASH = "dflash"
    MEDUSA = "medusa"


def as_model_id(name: str) -> str:
    """What a server or a tool calls its model, as an id: of a path the last two parts. "" if none remains."""
    parts = [re.sub(r"[^A-Za-z0-9_.]+", "-", part) for part in name.split("/")]
    plain = [re.sub(r"\.{2,}", ".", part).strip("-._") for part in parts]
    return "/".join([part for part in plain if part][-2:])[:128].rstrip("/")


class ModelRef(Frozen):
    """A model's weights: where they come from, and under which name they lie in the bucket. With `import_prefix` they
    are copied from that prefix of the artifact bucket (a user's own model); otherwise from the Hugging Face hub at
    `revision`.
    """

    id: Annotated[
        str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*(/[A-Za-z0-9][A-Za-z0-9_.-]*)?$", max_length=128)
    ]
    revision: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$")] = "main"
    """Commit, tag or branch of the hub; with `import_prefix` a name of yours. A changed model needs a new one."""
    family: Name | None = None
    """Architecture and tokenizer family (`qwen3`, `llama3`); no rule of families checks models without it."""
    kind: ModelKind = ModelKind.MODEL
    gated: bool = False
    """Whether the model needs a Hugging Face token. Only the staging Job gets the token."""
    import_prefix: (
        Annotated[str, StringConstraints(pattern=r"^imports/([A-Za-z0-9][A-Za-z0-9_.-]*/)+$", max_length=512)] | None
    ) = None
    """Prefix of the artifact bucket with weights of your own, as `imports/my-model/`."""
    rescale_fp8: bool = False
    """Rescale OCP FP8 E4M3 weights to Neuron's FP8_EXP4 as a staging step."""
    size_gib: float = Field(gt=0, le=4096)
    """Size on disk in GiB, for the plan and for memory and ephemeral-storage requests."""

    @property
    def prefix(self) -> str:
        """Where the staged weights lie in the bucket (and below the working directory of a serving pod)."""
        return s3_keys.model_prefix(self.id, self.revision, rescaled=self.rescale_fp8, imported=self.import_prefix)

    @field_validator("id")
    @classmethod
    def _is_a_name_of_the_hub(cls, value: str) -> str:
        """Refuse what huggingface_hub's validate_repo_id refuses: `A--B` would be stored in the place of `A/B`."""
        if "--" in value or ".." in value:
            raise ValueError("a model's id has neither `--` nor `..`")
        return value

    @field_validator("revision")
    @classmethod
    def _is_no_other_form(cls, value: str) -> str:
        if value.endswith(s3_keys.RESCALED) or s3_keys.IMPORTED in value:
            message = f"no revision ends with {s3_keys.RESCALED} or has {s3_keys.IMPORTED}: such weights are stored so"
            raise ValueError(message)
        return value


class Method(StrEnum):
    """How tokens are speculated. The first two use a draft model, the others a head trained for the target."""

    VANILLA_DRAFT = "vanilla-draft"
    FUSED_DRAFT = "fused-draft"
    EAGLE = "eagle"
    EAGLE3 = "eagle3"
    DFLASH = "dflash"
    MEDUSA = "medusa"


HEADS = frozenset({Method.EAGLE, Method.EAGLE3, Method.DFLASH, Method.MEDUSA})
"""Methods whose head reads the target's hidden states: it writes nothing without its target."""


class Speculation(Frozen):
    """Speculative decoding of one variant."""

    method: Method = Method.FUSED_DRAFT
    """How tokens are speculated; `specdecode engines` lists the methods of each image."""
    draft: ModelRef
    """The draft model, or the head."""
    num_speculative_tokens: int = Field(ge=1, le=MOST_DRAFTED)
    """k: tokens that are drafted for each step of the target."""
    num_speculative_tokens_per_batch_size: tuple[tuple[int, int, int], ...] = Field(default=(), max_length=100)
    """k by load, as a report prints it for engines that take it: `[first, last, k]` for ranges of running requests with
    both ends, the first from 1, in order; k = 0 does not speculate. Beyond the last range its k stays."""
    draft_max_model_len: int | None = Field(default=None, ge=1)
    """Window of the draft. Unset: the target's."""
    most_tokens_per_step: MostTokens | None = None
    """Only for a server that already runs: `k` for NxD Inference's engines, `k+1` (if unset) for others.
    For arms that the run serves, the engine's file says it."""

    @model_validator(mode="after")
    def _ranges_follow_each_other(self) -> Self:
        """Refuse what vLLM refuses (v1/spec_decode/dynamic/utils.py, 0.32.0), and what it would change silently."""
        after = 0
        for first, last, k in self.num_speculative_tokens_per_batch_size:
            said = f"num_speculative_tokens_per_batch_size: [{first}, {last}, {k}]"
            if first != after + 1 or last < first:
                raise ValueError(f"{said}: ranges begin at 1 and each after the one before: write [{after + 1}, …]")
            if not 0 <= k <= self.num_speculative_tokens:
                raise ValueError(f"{said}: k is 0 to num_speculative_tokens, here {self.num_speculative_tokens}")
            after = last
        return self

    @property
    def k_of_each_step(self) -> int | None:
        """k; None if it depends on the load."""
        return None if self.num_speculative_tokens_per_batch_size else self.num_speculative_tokens

    @property
    def k_in_words(self) -> str:
        """`k=5`; `k=5 at 1 to 4, 0 at 5 to 32 running`."""
        ranges = [f"{k} at {first} to {last}" for first, last, k in self.num_speculative_tokens_per_batch_size]
        return f"k={', '.join(ranges)} running" if ranges else f"k={self.num_speculative_tokens}"


MOST_DEVICES = max(shape.devices for shape in shapes.SHAPES.values())


MOST_RANKS = MOST_DEVICES * shapes.CORES_PER_DEVICE
MOST_SEQS = 1024
LONGEST = 2**20
"""Tokens of the longest window."""


class Serving(Frozen):
    """Settings of `vllm serve`, equal in all arms unless a variant overrides them."""

    tensor_parallel_size: int = Field(ge=1, le=MOST_RANKS)
    """Logical NeuronCores of an arm: devices x 8 / logical_neuron_core."""
    devices: int = Field(ge=0, le=MOST_DEVICES)
    """Neuron devices that one arm claims (a trn2.48xlarge has 16, each of 8 cores); 0 on a node without devices."""
    logical_neuron_core: Literal[1, 2] = 2
    """Physical cores that make one logical NeuronCore."""
    max_num_seqs: int = Field(ge=1, le=MOST_SEQS)
    """Sequences that are decoded together."""
    max_model_len: int = Field(ge=1, le=LONGEST)
    """Longest prompt and answer together, in tokens."""
    neuron_config: dict[str, Any] = Field(default_factory=dict)
    """The engine's Neuron configuration; keys in underscores."""
    extra_args: tuple[Argument, ...] = Field(default=(), max_length=100)
    """Further arguments of `vllm serve`: those that the engine's file lists (`specdecode engines NAME`)."""
    env: dict[EnvName, Argument] = Field(default_factory=dict, max_length=100)
    """Environment variables of the servers: those that the engine's file lists (`specdecode engines NAME`)."""
    neuron_metrics: bool = False
    """Publish each server's NeuronCore utilization and device memory with a neuron-monitor beside it. Unproven on
    hardware, and it disturbs what is measured: leave it off for figures that count."""


class Variant(Frozen):
    """One arm of the comparison: the fields that both kinds have."""

    name: Name
    label: Label
    """Value of the CloudWatch dimension `Variant` (`Base`, `SD` as in the public sample)."""
    compare_to: Name | None = None
    """The arm that this one is compared with; None for a baseline."""
    target: ModelRef | None = None
    """Overrides the experiment's target (quantized weights)."""
    quantization: Literal["bf16", "fp8"] | None = None
    """Number format of the weights that `target` holds. Unset: not known."""
    speculation: Speculation | None = None
    """Unset for an arm without speculative decoding."""

    @property
    def address(self) -> str | None:
        """URL of the server if it already runs. None if the run serves the arm."""
        return None

    @property
    def own_settings(self) -> tuple[dict[str, Any], dict[str, str]]:
        """Neuron configuration and environment that this arm has beside the serving's; empty if the server runs."""
        return {}, {}

    @property
    def k(self) -> int | None:
        """Tokens that each step drafts; 0 without speculation. None if k depends on the load, or if it is not known: a
        server that already runs may speculate though nobody says so.
        """
        return self.speculation.k_of_each_step if self.speculation else None

    def dollars_per_hour(self, share_of_node: float | None) -> float | None:
        """US dollars for an hour of this arm, if its part of the node costs `share_of_node`. None if not known."""
        return share_of_node


TUNED = {"max_num_seqs": "seqs", "max_model_len": "len", "tensor_parallel_size": "tp"}
"""Settings of the serving that an arm may have for itself, each with what names of swept arms say of it. All arms claim
as many devices, since they swap device groups between rounds."""


class ServedVariant(Variant):
    """An arm that is compiled and served on the node."""

    quantization: Literal["bf16", "fp8"] = "bf16"
    """Number format of the weights that `target` holds."""
    reads: Name | None = None
    """The arm whose answers this one reads. It is a draft model alone: it is served and not loaded, and the run
    forecasts from its reading what it would yield as a draft."""
    neuron_config: dict[str, Any] = Field(default_factory=dict)
    """Added to the serving's, key by key. The arms may differ here only on purpose."""
    extra_args: tuple[Argument, ...] = Field(default=(), max_length=100)
    """Added to the serving's. The arms may differ here only on purpose."""
    env: dict[EnvName, Argument] = Field(default_factory=dict, max_length=100)
    """Added to the serving's environment."""
    max_num_seqs: int | None = Field(default=None, ge=1, le=MOST_SEQS)
    """In place of the serving's. An arm and its baseline have the same."""
    max_model_len: int | None = Field(default=None, ge=1, le=LONGEST)
    """In place of the serving's. An arm and its baseline have the same."""
    tensor_parallel_size: int | None = Field(default=None, ge=1, le=MOST_RANKS)
    """In place of the serving's. An arm and its baseline have the same."""

    @property
    def own_settings(self) -> tuple[dict[str, Any], dict[str, str]]:
        return self.neuron_config, self.env

    @property
    def k(self) -> int | None:
        return self.speculation.k_of_each_step if self.speculation else 0


class EndpointVariant(Variant):
    """An arm that is a server and already runs."""

    endpoint: Annotated[str, StringConstraints(min_length=1, max_length=1024)]
    """URL of the server that is this arm, with or without `/v1`. Either all variants have one or none has. With
    endpoints the run compiles and serves nothing, holds no node, and reads neither `engine` nor `serving` nor models'
    sizes."""
    served_model_name: Annotated[str, StringConstraints(pattern=r"^[!-~]{1,256}$")] | None = None
    """Name of the model on the endpoint. Unset: the target's id."""
    api_key_secret: EndpointSecret | None = None
    """Kubernetes Secret in the namespace `specdecode` whose entry `api-key` is sent to the endpoint."""
    price_per_hour: PricePerHour | None = None
    """US dollars for an hour of the endpoint's machine. The report computes dollars per million tokens from it."""

    @property
    def address(self) -> str:
        return self.endpoint

    def dollars_per_hour(self, share_of_node: float | None) -> float | None:
        return self.price_per_hour
