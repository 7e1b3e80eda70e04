"""The arms of a comparison, of two kinds: arms that the run serves, and servers that already run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from specdecode.experiment import shapes
from specdecode.experiment.base import Argument, EndpointSecret, EnvName, Frozen, Label, Name
from specdecode.experiment.speculating import Speculation
from specdecode.experiment.weights import ModelRef

MOST_DEVICES = max(shape.devices for shape in shapes.SHAPES.values())


class Serving(Frozen):
    """Settings of `vllm serve`, equal in all arms unless a variant overrides them."""

    tensor_parallel_size: int = Field(ge=1, le=MOST_DEVICES * shapes.CORES_PER_DEVICE)
    """Logical NeuronCores of an arm: devices x 8 / logical_neuron_core."""
    devices: int = Field(ge=0, le=MOST_DEVICES)
    """Neuron devices that one arm claims (a trn2.48xlarge has 16, of 8 physical cores each); 0 on a node without
    devices."""
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


class Variant(Frozen, ABC):
    """One arm of the comparison: the fields that both kinds have."""

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

    @property
    @abstractmethod
    def address(self) -> str | None:
        """URL of the server if it already runs. None if the run serves the arm."""

    @property
    @abstractmethod
    def own_settings(self) -> tuple[dict[str, Any], dict[str, str]]:
        """Neuron configuration and environment that this arm has beside the serving's; empty if the server runs."""

    @property
    @abstractmethod
    def k(self) -> int | None:
        """Tokens that each step drafts; 0 without speculation. None if k depends on the load, or if it is not known."""

    @abstractmethod
    def dollars_per_hour(self, share_of_node: float | None) -> float | None:
        """US dollars for an hour of this arm, if its part of the node costs `share_of_node`. None if not known."""


class ServedVariant(Variant):
    """An arm that is compiled and served on the node."""

    neuron_config: dict[str, Any] = Field(default_factory=dict)
    """Added to the serving's, key by key. The arms may differ here only on purpose."""
    extra_args: tuple[Argument, ...] = Field(default=(), max_length=100)
    """Added to the serving's. The arms may differ here only on purpose."""
    env: dict[EnvName, Argument] = Field(default_factory=dict, max_length=100)
    """Added to the serving's environment."""

    @property
    def address(self) -> None:
        """None: the run serves the arm."""
        return None

    @property
    def own_settings(self) -> tuple[dict[str, Any], dict[str, str]]:
        """What the arm adds to the serving's."""
        return self.neuron_config, self.env

    @property
    def k(self) -> int | None:
        """0 without speculation: the run starts the server without it."""
        return self.speculation.k_of_each_step if self.speculation else 0

    def dollars_per_hour(self, share_of_node: float | None) -> float | None:
        """The arm's part of the node."""
        return share_of_node


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
    price_per_hour: float | None = Field(default=None, ge=0)
    """US dollars for an hour of the endpoint's machine. The report computes dollars per million tokens from it."""

    @property
    def address(self) -> str:
        """The endpoint."""
        return self.endpoint

    @property
    def own_settings(self) -> tuple[dict[str, Any], dict[str, str]]:
        """Empty: whoever started the server chose them."""
        return {}, {}

    @property
    def k(self) -> int | None:
        """None without `speculation`: the server may speculate all the same."""
        return self.speculation.k_of_each_step if self.speculation else None

    def dollars_per_hour(self, share_of_node: float | None) -> float | None:
        """The price that the experiment gives."""
        return self.price_per_hour
