"""The experiment: one validated, frozen object. Plan, manifests, benchmark and report are pure functions of it.

There are two kinds: the run serves the arms on a node, or the arms are servers that already run.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Discriminator, Field, Tag

from specdecode.experiment import endpoints
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
from specdecode.experiment.common import Deadlines, Experiment, Sweep, named
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
    "Published",
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


class ServedExperiment(Experiment):
    """Its arms are compiled and served on a node that the run holds."""

    engine: str
    """Name of an engine in assets/engines."""
    serving: Serving
    variants: tuple[ServedVariant, ...] = Field(min_length=1)

    @property
    def holds_node(self) -> bool:
        """True."""
        return True

    @property
    def served_by(self) -> str:
        """The engine."""
        return self.engine

    @property
    def served_with(self) -> Serving:
        """The serving."""
        return self.serving

    @property
    def images_of(self) -> str:
        """The engine that serves the arms."""
        return self.engine

    @property
    def batch(self) -> int:
        """`max_num_seqs`, with which the arms are compiled."""
        return self.serving.max_num_seqs

    @property
    def window(self) -> int:
        """`max_model_len`, with which the arms are compiled."""
        return self.serving.max_model_len

    @property
    def devices(self) -> int:
        """The devices of the serving."""
        return self.serving.devices

    @property
    def staged(self) -> tuple[ModelRef, ...]:
        """The weights of all arms, each once."""
        return tuple({model.prefix: model for arm in self.variants for model in self.models_of(arm)}.values())

    @property
    def side_by_side(self) -> int:
        """How many arms the node has devices for at a time; all arms if they take no device."""
        if not self.serving.devices:
            return len(self.variants)
        return max(1, self.shape.devices // self.serving.devices)

    @property
    def rounds(self) -> int:
        """`workload.rounds`, or its default: 2 if arms sit on different device groups of the node.

        An adaptive sweep measures its best arms again, and swaps the groups then: 1 is enough.
        """
        if self.workload.rounds is not None:
            return self.workload.rounds
        alone = not self.serving.devices or min(self.side_by_side, len(self.variants)) == 1
        return 1 if alone or self.sweep is Sweep.ADAPTIVE else 2

    def variant(self, name: str) -> ServedVariant:
        """The variant called `name`; KeyError if there is none."""
        return named(name, self.variants)

    def weights_gib(self, variant: Variant) -> float:
        """GiB of all weights that `variant` needs."""
        return sum(model.size_gib for model in self.models_of(variant))


class EndpointExperiment(Experiment):
    """Its arms are servers that already run: nothing is compiled, served or held for them."""

    variants: tuple[EndpointVariant, ...] = Field(min_length=1)

    @property
    def holds_node(self) -> bool:
        """False."""
        return False

    @property
    def served_by(self) -> None:
        """None: only the owner of the servers knows it."""
        return None

    @property
    def served_with(self) -> None:
        """None: only the owner of the servers knows it."""
        return None

    @property
    def images_of(self) -> str:
        """An engine whose small image the pods of the benchmark use."""
        return endpoints.TOOLS_ENGINE

    @property
    def batch(self) -> None:
        """None: only the owner of the servers knows it."""
        return None

    @property
    def window(self) -> None:
        """None: only the owner of the servers knows it."""
        return None

    @property
    def devices(self) -> int:
        """0: the arms take no node."""
        return 0

    @property
    def staged(self) -> tuple[ModelRef, ...]:
        """Empty: the servers have their weights."""
        return ()

    @property
    def side_by_side(self) -> int:
        """All arms: none waits for devices."""
        return len(self.variants)

    def variant(self, name: str) -> EndpointVariant:
        """The variant called `name`; KeyError if there is none."""
        return named(name, self.variants)


def _kind(value: Any) -> str:
    """Tag of the class of a plain document or an experiment."""
    served = not endpoints.has_endpoints(value) if isinstance(value, dict) else value.holds_node
    return "served" if served else "endpoints"


def _as_now(value: Any) -> Any:
    """Drop the fields of the other kind: plans and reports of older versions have the fields of both."""
    return endpoints.of_one_kind(value) if isinstance(value, dict) else value


AnyExperiment = Annotated[
    Annotated[ServedExperiment, Tag("served")] | Annotated[EndpointExperiment, Tag("endpoints")],
    Discriminator(_kind),
    BeforeValidator(_as_now),
]
"""An experiment of either kind, as plans and reports hold it. `endpoint` in the variants tells which kind."""
