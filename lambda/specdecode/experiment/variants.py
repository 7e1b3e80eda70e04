"""The arms of a comparison, of two kinds: an arm that is served here, and a server that already runs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from specdecode.experiment import shapes
from specdecode.experiment.base import Argument, EndpointSecret, EnvName, Frozen, Label, Name
from specdecode.experiment.speculating import Speculation
from specdecode.experiment.weights import ModelRef

MOST_DEVICES = max(shape.devices for shape in shapes.SHAPES.values())


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
    """One arm of the comparison: what both kinds say."""

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


class ServedVariant(Variant):
    """An arm that is compiled and served on the node."""

    neuron_config: dict[str, Any] = Field(default_factory=dict)
    """Added to the serving's, key by key; may differ between arms only on purpose."""
    extra_args: tuple[Argument, ...] = Field(default=(), max_length=100)
    """Added to the serving's; may differ between arms only on purpose."""
    env: dict[EnvName, Argument] = Field(default_factory=dict, max_length=100)
    """Added to the serving's."""


class EndpointVariant(Variant):
    """An arm that is a server which already runs."""

    endpoint: Annotated[str, StringConstraints(min_length=1, max_length=1024)]
    """URL of a server that already runs and is this arm, with or without `/v1`. All variants have one or none has:
    then nothing is compiled and served, no node is held, and `engine`, `serving` and the models' sizes are not read."""
    served_model_name: Annotated[str, StringConstraints(pattern=r"^[!-~]{1,256}$")] | None = None
    """Name under which the endpoint serves the model; unset, the target's id."""
    api_key_secret: EndpointSecret | None = None
    """Kubernetes Secret in the namespace `specdecode` whose entry `api-key` is sent to the endpoint."""
    price_per_hour: float | None = Field(default=None, ge=0)
    """US dollars for an hour of what the endpoint runs on, for its dollars per million tokens."""
