"""The experiment: one validated, frozen object of which plan, manifests, benchmark and report are pure functions."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9.-]{0,38}[a-z0-9])?$")]
"""Lower-case name usable in Kubernetes object names, S3 keys and file names."""


class Frozen(BaseModel):
    """Base of all experiment parts: immutable, and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ModelRef(Frozen):
    """A model's weights: where they come from, and under which name they lie in the bucket.

    With `import_prefix` they are copied from that prefix of the artifact bucket (a user's own model);
    otherwise from the Hugging Face hub at `revision`.
    """

    id: str
    revision: str = "main"
    gated: bool = False
    import_prefix: str | None = None
    rescale_fp8: bool = False
    """Rescale OCP FP8 E4M3 weights to Neuron's FP8_EXP4 as a staging step (seed 004, scenario 2 step 1)."""
    size_gib: float = Field(gt=0)
    """Size on disk in GiB, for the plan and for ephemeral-storage requests."""


class Method(StrEnum):
    """How tokens are speculated. The first two use a draft model, the others a head trained for the target."""

    VANILLA_DRAFT = "vanilla-draft"
    FUSED_DRAFT = "fused-draft"
    EAGLE = "eagle"
    EAGLE3 = "eagle3"
    MEDUSA = "medusa"


class Speculation(Frozen):
    """Speculative decoding of one variant."""

    method: Method = Method.FUSED_DRAFT
    draft: ModelRef
    num_speculative_tokens: int = Field(ge=1, le=32)
    draft_max_model_len: int | None = Field(default=None, ge=1)


class Serving(Frozen):
    """What `vllm serve` is told, equal in all arms unless a variant overrides it."""

    tensor_parallel_size: int = Field(ge=1)
    devices: int = Field(ge=0, le=16)
    """Neuron devices that one arm claims (trn2.48xlarge: 16 devices of 8 physical cores); 0 = CPU engine."""
    logical_neuron_core: int = 2
    max_num_seqs: int = Field(ge=1)
    max_model_len: int = Field(ge=1)
    neuron_config: dict[str, Any] = Field(default_factory=dict)
    extra_args: tuple[str, ...] = ()
    env: dict[str, str] = Field(default_factory=dict)


class Variant(Frozen):
    """One arm of the comparison."""

    name: Name
    label: str
    """Value of the CloudWatch dimension `Variant` (`Base`, `SD` as in the public sample)."""
    compare_to: Name | None = None
    """The arm that this one is compared with; None for a baseline."""
    target: ModelRef | None = None
    """Overrides the experiment's target (quantized weights)."""
    quantization: Literal["bf16", "fp8"] = "bf16"
    speculation: Speculation | None = None
    neuron_config: dict[str, Any] = Field(default_factory=dict)
    env: dict[str, str] = Field(default_factory=dict)


class PromptKind(StrEnum):
    """`line`: a line repeated 500 times as LLMPerf's corpus; `sonnet`: LLMPerf's own corpus; `text`: sent as it is."""

    LINE = "line"
    SONNET = "sonnet"
    TEXT = "text"
    JSONL = "jsonl"


class TestCase(Frozen):
    """One prompt type."""

    __test__ = False  # not a pytest class

    name: Name
    label: str
    """Value of the CloudWatch dimension `TestCase` (the sample's text with spaces as `_`)."""
    kind: PromptKind
    text: str = ""
    structured: bool
    """Whether the continuation is predictable: reported apart from open-ended prompts."""
    source: str = ""


class Load(StrEnum):
    """Order in which the arms of a wave are loaded."""

    INTERLEAVED = "interleaved"
    SEQUENTIAL = "sequential"
    SIMULTANEOUS = "simultaneous"


class Workload(Frozen):
    """The load that every arm gets."""

    cases: tuple[TestCase, ...] = Field(min_length=1)
    input_tokens: int = Field(ge=1)
    output_tokens: int = Field(ge=1)
    requests: int = Field(ge=1)
    """Measured requests per case and arm (and round)."""
    concurrency: int = Field(default=1, ge=1)
    rate: float | None = Field(default=None, gt=0)
    """Open loop: requests per second instead of `concurrency`; Poisson arrivals."""
    warmup_requests: int = Field(default=1, ge=0)
    temperature: float = Field(default=0.0, ge=0)
    endpoint: Literal["completions", "chat"] = "chat"
    thinking: bool | None = None
    """Qwen3's thinking mode (chat_template_kwargs.enable_thinking), equal in all arms; None where models lack it."""
    timeout_s: float = Field(default=1200, gt=0)
    seed: int = 11111
    load: Load = Load.INTERLEAVED
    rounds: int = Field(default=1, ge=1)
    """How often the whole set of cases is measured; arms swap device groups between rounds."""
    ignore_eos: bool = False


class Deadlines(Frozen):
    """Longest time of each waiting state, in minutes."""

    staging: int = Field(default=180, ge=1)
    capacity: int = Field(default=30, ge=1)
    compile: int = Field(default=120, ge=1)
    serve: int = Field(default=90, ge=1)
    benchmark: int = Field(default=240, ge=1)


class Experiment(Frozen):
    """A question to the hardware: these arms, this load."""

    schema_version: Literal[1] = 1
    name: Name
    title: str
    description: str = ""
    engine: str
    """Name of an engine in assets/engines."""
    target: ModelRef
    serving: Serving
    variants: tuple[Variant, ...] = Field(min_length=1)
    workload: Workload
    deadlines: Deadlines = Deadlines()
    accuracy: bool = False
    """Also run lm-eval (gsm8k, 50 samples, as the public sample's pod intends) on every arm."""
