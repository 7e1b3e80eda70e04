"""The experiment: one validated, frozen object of which plan, manifests, benchmark and report are pure functions.

It is of one of two kinds: its arms are served on a node, or they are servers that already run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, StringConstraints, Tag

from specdecode import names
from specdecode.experiment import endpoints, shapes
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
from specdecode.experiment.speculating import Method, Speculation
from specdecode.experiment.variants import EndpointVariant, ServedVariant, Serving, Variant
from specdecode.experiment.weights import ModelKind, ModelRef
from specdecode.experiment.workload import Load, Requests, Workload
from specdecode.prompts.reference import HubFile, PromptsOf

__all__ = [
    "MOST_DRAFTED",
    "SAMPLE",
    "AnyExperiment",
    "Argument",
    "Compile",
    "CompileOn",
    "Deadlines",
    "EndpointExperiment",
    "EndpointSecret",
    "EndpointVariant",
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
    "ServedExperiment",
    "ServedVariant",
    "Serving",
    "Slo",
    "Speculation",
    "Sweep",
    "TestCase",
    "Variant",
    "Workload",
]

Arm = TypeVar("Arm", bound=Variant)


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


class Experiment(Frozen, ABC):
    """A question to the hardware: these arms, this load."""

    schema_version: Literal[1] = 1
    name: Name
    title: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    description: Prose = ""
    node: Annotated[str, AfterValidator(shapes.known)] = shapes.DEFAULT
    """Instance type of the node that all arms are measured on."""
    nodes: int = Field(default=1, ge=1, le=names.MOST_NODES)
    """Nodes that share the arms: each measures some, with their baselines, and is given back when it is done."""
    target: ModelRef
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
    @abstractmethod
    def images_of(self) -> str:
        """Name of the engine whose images the run's pods use."""

    @property
    @abstractmethod
    def batch(self) -> int | None:
        """Sequences that a server decodes together; None where it is not known."""

    @property
    @abstractmethod
    def window(self) -> int | None:
        """Tokens that the longest prompt and its answer may have together; None where it is not known."""

    @property
    @abstractmethod
    def devices(self) -> int:
        """Neuron devices that an arm claims on the node; 0 where it takes none."""

    @property
    @abstractmethod
    def staged(self) -> tuple[ModelRef, ...]:
        """Weights that must lie in the bucket, in the order of first use."""

    @property
    @abstractmethod
    def side_by_side(self) -> int:
        """How many arms can be loaded at a time."""

    @property
    def shape(self) -> shapes.NodeShape:
        """What the node has."""
        return shapes.SHAPES[self.node]

    @property
    def rounds(self) -> int:
        """`workload.rounds`, or its default."""
        return self.workload.rounds or 1

    def variant(self, name: str) -> Variant:
        """The variant called `name`; KeyError if there is none."""
        return _named(name, self.variants)

    def target_of(self, variant: Variant) -> ModelRef:
        """The weights that `variant` serves."""
        return variant.target or self.target

    def models_of(self, variant: Variant) -> tuple[ModelRef, ...]:
        """All weights of `variant`: target first, then the draft."""
        draft = (variant.speculation.draft,) if variant.speculation else ()
        return (self.target_of(variant), *draft)


class ServedExperiment(Experiment):
    """Its arms are compiled and served on a node that the run holds."""

    engine: str
    """Name of an engine in assets/engines."""
    serving: Serving
    variants: tuple[ServedVariant, ...] = Field(min_length=1)

    @property
    def images_of(self) -> str:
        """The engine that serves the arms."""
        return self.engine

    @property
    def batch(self) -> int:
        """As the arms are compiled."""
        return self.serving.max_num_seqs

    @property
    def window(self) -> int:
        """As the arms are compiled."""
        return self.serving.max_model_len

    @property
    def devices(self) -> int:
        """As the serving says."""
        return self.serving.devices

    @property
    def staged(self) -> tuple[ModelRef, ...]:
        """Those of all arms."""
        return tuple({model.prefix: model for arm in self.variants for model in self.models_of(arm)}.values())

    @property
    def side_by_side(self) -> int:
        """How many arms the node has devices for at a time; all, where they take none of them."""
        if not self.serving.devices:
            return len(self.variants)
        return max(1, self.shape.devices // self.serving.devices)

    @property
    def rounds(self) -> int:
        """`workload.rounds`, or its default: 2 where arms sit on different device groups of the node.

        An adaptive sweep measures its best arms again, and swaps the groups then: 1 is enough.
        """
        if self.workload.rounds is not None:
            return self.workload.rounds
        alone = not self.serving.devices or min(self.side_by_side, len(self.variants)) == 1
        return 1 if alone or self.sweep is Sweep.ADAPTIVE else 2

    def variant(self, name: str) -> ServedVariant:
        """The variant called `name`; KeyError if there is none."""
        return _named(name, self.variants)

    def weights_gib(self, variant: Variant) -> float:
        """GiB of all weights that `variant` needs."""
        return sum(model.size_gib for model in self.models_of(variant))


class EndpointExperiment(Experiment):
    """Its arms are servers that already run: nothing is compiled, served or held for them."""

    variants: tuple[EndpointVariant, ...] = Field(min_length=1)

    @property
    def images_of(self) -> str:
        """Of an engine whose small image the benchmark's pods run in."""
        return endpoints.TOOLS_ENGINE

    @property
    def batch(self) -> None:
        """Whoever started the servers knows it."""
        return None

    @property
    def window(self) -> None:
        """Whoever started the servers knows it."""
        return None

    @property
    def devices(self) -> int:
        """They take no node."""
        return 0

    @property
    def staged(self) -> tuple[ModelRef, ...]:
        """The servers have theirs."""
        return ()

    @property
    def side_by_side(self) -> int:
        """All: no arm waits for devices."""
        return len(self.variants)

    def variant(self, name: str) -> EndpointVariant:
        """The variant called `name`; KeyError if there is none."""
        return _named(name, self.variants)


def _named(name: str, variants: Sequence[Arm]) -> Arm:
    for variant in variants:
        if variant.name == name:
            return variant
    raise KeyError(name)


def _kind(value: Any) -> str:
    """Tag of the class that a plain document, or an experiment, is of."""
    elsewhere = endpoints.has_endpoints(value) if isinstance(value, dict) else isinstance(value, EndpointExperiment)
    return "endpoints" if elsewhere else "served"


def _as_now(value: Any) -> Any:
    """Plans and reports of older versions say of every arm how it would be served."""
    return endpoints.of_one_kind(value) if isinstance(value, dict) else value


AnyExperiment = Annotated[
    Annotated[ServedExperiment, Tag("served")] | Annotated[EndpointExperiment, Tag("endpoints")],
    Discriminator(_kind),
    BeforeValidator(_as_now),
]
"""An experiment of either kind, as plans and reports hold it: which one follows from `endpoint` in its variants."""
