"""The experiment: one validated, frozen object of which plan, manifests, benchmark and report are pure functions."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, field_validator, model_validator

from specdecode import layout
from specdecode.experiment import shapes
from specdecode.experiment.base import (
    MOST_DRAFTED,
    Argument,
    EndpointSecret,
    EnvName,
    Frozen,
    Label,
    Name,
    Prose,
)
from specdecode.experiment.cases import SAMPLE, PromptKind, TestCase
from specdecode.experiment.compiling import Compile, CompileOn
from specdecode.experiment.most_tokens import MostTokens
from specdecode.experiment.published import Published
from specdecode.experiment.slo import Slo
from specdecode.experiment.workload import Load, Requests, Workload
from specdecode.prompts.reference import HubFile, PromptsOf

__all__ = [
    "MOST_DRAFTED",
    "SAMPLE",
    "Argument",
    "Compile",
    "CompileOn",
    "Deadlines",
    "EndpointSecret",
    "EnvName",
    "Experiment",
    "Frozen",
    "HubFile",
    "Label",
    "Load",
    "Method",
    "ModelKind",
    "ModelRef",
    "MostTokens",
    "Name",
    "PromptKind",
    "PromptsOf",
    "Prose",
    "Requests",
    "Serving",
    "Slo",
    "Speculation",
    "Sweep",
    "TestCase",
    "Variant",
    "Workload",
]


MOST_DEVICES = max(shape.devices for shape in shapes.SHAPES.values())


class ModelKind(StrEnum):
    """What the weights are: a language model, or a head that was trained for one target."""

    MODEL = "model"
    EAGLE = "eagle"
    EAGLE3 = "eagle3"
    DFLASH = "dflash"
    MEDUSA = "medusa"


class ModelRef(Frozen):
    """A model's weights: where they come from, and under which name they lie in the bucket.

    With `import_prefix` they are copied from that prefix of the artifact bucket (a user's own model);
    otherwise from the Hugging Face hub at `revision`.
    """

    id: Annotated[
        str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*(/[A-Za-z0-9][A-Za-z0-9_.-]*)?$", max_length=128)
    ]
    revision: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$")] = "main"
    """Commit, tag or branch of the hub; with `import_prefix` a name of yours. A changed model needs a new one."""
    family: Name | None = None
    """Architecture and tokenizer family (`qwen3`, `llama3`); models without it are not checked for it."""
    kind: ModelKind = ModelKind.MODEL
    gated: bool = False
    """Needs a Hugging Face token, which only the staging Job gets."""
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
        return layout.model_prefix(self.id, self.revision, rescaled=self.rescale_fp8, imported=self.import_prefix)

    @field_validator("id")
    @classmethod
    def _is_a_name_of_the_hub(cls, value: str) -> str:
        """As huggingface_hub's validate_repo_id: `A--B` would be stored where `A/B` is."""
        if "--" in value or ".." in value:
            raise ValueError("a model's id has neither `--` nor `..`")
        return value

    @field_validator("revision")
    @classmethod
    def _is_no_other_form(cls, value: str) -> str:
        if value.endswith(layout.RESCALED) or layout.IMPORTED in value:
            message = f"no revision ends with {layout.RESCALED} or has {layout.IMPORTED}: such weights are stored so"
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


class Speculation(Frozen):
    """Speculative decoding of one variant."""

    method: Method = Method.FUSED_DRAFT
    """How tokens are speculated; `specdecode engines` says what an image can."""
    draft: ModelRef
    """The draft model, or the head."""
    num_speculative_tokens: int = Field(ge=1, le=MOST_DRAFTED)
    """k: tokens that are drafted for each step of the target."""
    num_speculative_tokens_per_batch_size: tuple[tuple[int, int, int], ...] = Field(default=(), max_length=100)
    """k by load, as a report prints it for engines that take it: `[first, last, k]` for ranges of running requests with
    both ends, the first from 1, in order; k = 0 does not speculate. Beyond the last range its k stays."""
    draft_max_model_len: int | None = Field(default=None, ge=1)
    """Window of the draft; unset, the target's."""
    most_tokens_per_step: MostTokens | None = None
    """Only of a server that already runs: `k` for NxD Inference's engines, `k+1` (if unset) for others.
    Of the arms that are served here the engine's file says it."""

    @model_validator(mode="after")
    def _ranges_follow_each_other(self) -> Self:
        """What vLLM refuses (v1/spec_decode/dynamic/utils.py, 0.32.0), and what it would cut or fill without a word."""
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
    def k_in_words(self) -> str:
        """`k=5`; `k=5 at 1 to 4, 0 at 5 to 32 running`."""
        ranges = [f"{k} at {first} to {last}" for first, last, k in self.num_speculative_tokens_per_batch_size]
        return f"k={', '.join(ranges)} running" if ranges else f"k={self.num_speculative_tokens}"


class Serving(Frozen):
    """What `vllm serve` is told, equal in all arms unless a variant overrides it."""

    tensor_parallel_size: int = Field(ge=1, le=MOST_DEVICES * shapes.CORES_PER_DEVICE)
    """Logical NeuronCores of an arm: devices x 8 / logical_neuron_core."""
    devices: int = Field(ge=0, le=MOST_DEVICES)
    """Neuron devices that one arm claims (a trn2.48xlarge has 16, of 8 physical cores each); 0 on a node without."""
    logical_neuron_core: Literal[1, 2] = 2
    """Physical cores that make one logical NeuronCore."""
    max_num_seqs: int = Field(ge=1, le=1024)
    """Sequences that are decoded together."""
    max_model_len: int = Field(ge=1, le=2**20)
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
    """One arm of the comparison."""

    name: Name
    label: Label
    """Value of the CloudWatch dimension `Variant` (`Base`, `SD` as in the public sample)."""
    compare_to: Name | None = None
    """The arm that this one is compared with; None for a baseline."""
    target: ModelRef | None = None
    """Overrides the experiment's target (quantized weights)."""
    quantization: Literal["bf16", "fp8"] = "bf16"
    """Number format of the weights that `target` holds."""
    speculation: Speculation | None = None
    """Unset for an arm without speculative decoding."""
    neuron_config: dict[str, Any] = Field(default_factory=dict)
    """Added to the serving's, key by key; may differ between arms only on purpose."""
    extra_args: tuple[Argument, ...] = Field(default=(), max_length=100)
    """Added to the serving's; may differ between arms only on purpose."""
    env: dict[EnvName, Argument] = Field(default_factory=dict, max_length=100)
    """Added to the serving's."""
    endpoint: Annotated[str, StringConstraints(min_length=1, max_length=1024)] | None = None
    """URL of a server that already runs and is this arm, with or without `/v1`. All variants have one or none has:
    then nothing is compiled and served, no node is held, and `engine`, `serving` and the models' sizes are not read."""
    served_model_name: Annotated[str, StringConstraints(pattern=r"^[!-~]{1,256}$")] | None = None
    """Name under which the endpoint serves the model; unset, the target's id."""
    api_key_secret: EndpointSecret | None = None
    """Kubernetes Secret in the namespace `specdecode` whose entry `api-key` is sent to the endpoint."""
    price_per_hour: float | None = Field(default=None, ge=0)
    """US dollars for an hour of what the endpoint runs on, for its dollars per million tokens."""


class Sweep(StrEnum):
    """Which of an experiment's arms are measured."""

    GRID = "grid"
    """All."""
    ADAPTIVE = "adaptive"
    """One after the other beside the baseline, each chosen from those before it, until another is not worth it."""


class Deadlines(Frozen):
    """Longest time of each waiting state, in minutes (at most a week)."""

    staging: int = Field(default=180, ge=1, le=10080)
    capacity: int = Field(default=30, ge=1, le=10080)
    compile: int = Field(default=120, ge=1, le=10080)
    serve: int = Field(default=90, ge=1, le=10080)
    benchmark: int = Field(default=240, ge=1, le=10080)


class Experiment(Frozen):
    """A question to the hardware: these arms, this load."""

    schema_version: Literal[1] = 1
    name: Name
    title: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    description: Prose = ""
    engine: str
    """Name of an engine in assets/engines."""
    node: Annotated[str, AfterValidator(shapes.known)] = shapes.DEFAULT
    """Instance type of the node that all arms are measured on."""
    target: ModelRef
    serving: Serving
    variants: tuple[Variant, ...] = Field(min_length=1)
    workload: Workload
    sweep: Sweep = Sweep.GRID
    """`grid` measures every arm; `adaptive` asks the advisor after each and stops when another gains too little."""
    compile: Compile = Compile()
    """Where missing artifacts are compiled."""
    deadlines: Deadlines = Deadlines()
    """Longest time of each waiting step."""
    published: tuple[Published, ...] = Field(default=(), max_length=10)
    """Figures of others for this shape; shown in the report, decide nothing."""
    accuracy: bool = False
    """Also run lm-eval (gsm8k, 50 samples, as the public sample's pod intends) on every arm."""

    @property
    def has_endpoints(self) -> bool:
        """Whether the arms are servers that already run: nothing is compiled, served or held for them."""
        return any(variant.endpoint is not None for variant in self.variants)

    @property
    def shape(self) -> shapes.NodeShape:
        """What the node has."""
        return shapes.SHAPES[self.node]

    @property
    def side_by_side(self) -> int:
        """How many arms the node has devices for at a time; all, where they take none of them."""
        if self.has_endpoints or not self.serving.devices:
            return len(self.variants)
        return max(1, self.shape.devices // self.serving.devices)

    @property
    def rounds(self) -> int:
        """`workload.rounds`, or its default: 2 where arms sit on different device groups of the node.

        An adaptive sweep measures its best arms again, and swaps the groups then: 1 is enough.
        """
        if self.workload.rounds is not None:
            return self.workload.rounds
        alone = self.has_endpoints or not self.serving.devices or min(self.side_by_side, len(self.variants)) == 1
        return 1 if alone or self.sweep is Sweep.ADAPTIVE else 2

    def variant(self, name: str) -> Variant:
        """The variant called `name`; KeyError if there is none."""
        for variant in self.variants:
            if variant.name == name:
                return variant
        raise KeyError(name)

    def target_of(self, variant: Variant) -> ModelRef:
        """The weights that `variant` serves."""
        return variant.target or self.target

    def models_of(self, variant: Variant) -> tuple[ModelRef, ...]:
        """All weights that `variant` needs in the bucket: target first, then the draft."""
        draft = (variant.speculation.draft,) if variant.speculation else ()
        return (self.target_of(variant), *draft)

    def weights_gib(self, variant: Variant) -> float:
        """GiB of all weights that `variant` needs."""
        return sum(model.size_gib for model in self.models_of(variant))
