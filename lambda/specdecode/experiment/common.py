"""The fields that both kinds of experiment have, and the questions that each kind answers for itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, Field, StringConstraints

from specdecode.experiment import shapes
from specdecode.experiment.base import Frozen, Name, Prose
from specdecode.experiment.compiling import Compile
from specdecode.experiment.published import Published
from specdecode.experiment.variants import Serving, Variant
from specdecode.experiment.weights import ModelRef
from specdecode.experiment.workload import Workload

Arm = TypeVar("Arm", bound=Variant)


class Sweep(StrEnum):
    """Which of an experiment's arms are measured."""

    GRID = "grid"
    """All arms."""
    ADAPTIVE = "adaptive"
    """One arm after the other, beside the baseline. The advisor chooses each from the results so far, until another arm
    is not worth its cost."""


class Deadlines(Frozen):
    """Longest time of each waiting state, in minutes (at most a week)."""

    staging: int = Field(default=180, ge=1, le=10080)
    capacity: int = Field(default=30, ge=1, le=10080)
    compile: int = Field(default=120, ge=1, le=10080)
    serve: int = Field(default=90, ge=1, le=10080)
    benchmark: int = Field(default=240, ge=1, le=10080)


class Experiment(Frozen, ABC):
    """One experiment: these arms under this load."""

    schema_version: Literal[1] = 1
    name: Name
    title: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    description: Prose = ""
    node: Annotated[str, AfterValidator(shapes.known)] = shapes.DEFAULT
    """Instance type of the node that all arms are measured on."""
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
    """Figures that others published for this shape. The report shows them; they decide nothing."""
    accuracy: bool = False
    """Also run lm-eval (gsm8k, 50 samples, as the public sample's pod intends) on every arm."""

    @property
    @abstractmethod
    def holds_node(self) -> bool:
        """Whether the run holds a node, on which it serves the arms."""

    @property
    @abstractmethod
    def served_by(self) -> str | None:
        """Name of the engine that serves the arms; None if they are servers that already run."""

    @property
    @abstractmethod
    def served_with(self) -> Serving | None:
        """Settings that all arms are served with; None if they are servers that already run."""

    @property
    @abstractmethod
    def images_of(self) -> str:
        """Name of the engine whose images the run's pods use."""

    @property
    @abstractmethod
    def batch(self) -> int | None:
        """Sequences that a server decodes together. None if not known."""

    @property
    @abstractmethod
    def window(self) -> int | None:
        """Tokens that the longest prompt and its answer may have together. None if not known."""

    @property
    @abstractmethod
    def devices(self) -> int:
        """Neuron devices that an arm claims on the node; 0 if it claims none."""

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
        """The instance type of the node, with its sizes."""
        return shapes.SHAPES[self.node]

    @property
    def rounds(self) -> int:
        """`workload.rounds`, or its default."""
        return self.workload.rounds or 1

    def variant(self, name: str) -> Variant:
        """The variant called `name`; KeyError if there is none."""
        return named(name, self.variants)

    def target_of(self, variant: Variant) -> ModelRef:
        """The weights that `variant` serves."""
        return variant.target or self.target

    def models_of(self, variant: Variant) -> tuple[ModelRef, ...]:
        """All weights of `variant`: target first, then the draft."""
        draft = (variant.speculation.draft,) if variant.speculation else ()
        return (self.target_of(variant), *draft)


def named(name: str, variants: Sequence[Arm]) -> Arm:
    """The variant called `name`; KeyError if there is none."""
    for variant in variants:
        if variant.name == name:
            return variant
    raise KeyError(name)
