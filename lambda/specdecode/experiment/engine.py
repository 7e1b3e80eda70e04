"""Engines: a container image, and what it can do. Each is a file in assets/engines; a new image is a new file.

Why it is so: ADR 65.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from specdecode.experiment import settable
from specdecode.experiment.base import EnvName, Frozen, Name
from specdecode.experiment.engine_parts import (
    Artifact,
    Defaults,
    Estimates,
    FamilySupport,
    MethodSupport,
    Metrics,
    NeuronRuntime,
    PodResources,
    Probes,
    Quantization,
    Support,
)
from specdecode.experiment.most_tokens import MostTokens
from specdecode.experiment.variants import Method


def _without_digest(image: object) -> object:
    if isinstance(image, str) and "@" in image:
        raise ValueError("write the tag here and the digest (sha256:…) into the field of its own beside it")
    return image


Image = Annotated[
    str,
    BeforeValidator(_without_digest),
    StringConstraints(pattern=r"^[a-z0-9.:-]+(/[a-z0-9._-]+)+(:[A-Za-z0-9_.-]+)?$"),
]
"""Repository of a container image and its tag."""

Digest = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
"""Digest of an image's manifest (or index): what is pulled then cannot change under its tag."""


class Dialect(StrEnum):
    """How `vllm serve` takes its Neuron configuration."""

    OVERRIDE_NEURON_CONFIG = "override-neuron-config"
    """`--override-neuron-config '{…}'` (0.9.1, the V0 fork)."""
    NXDI_PLUGIN = "nxdi-plugin"
    """`--additional-config '{"override_neuron_config": {…}}'` (0.11 to 0.16)."""
    NATIVE_PLUGIN = "native-plugin"
    """`--additional-config '{"neuron_config": {…}}'` (from 0.21 on)."""
    UPSTREAM = "upstream"
    """vLLM itself: it drives no Neuron device and has no Neuron configuration."""


class Reads(StrEnum):
    """How many of its files a server reads at once while it loads."""

    ONE = "one"
    """One process, file after file."""
    RANKS = "ranks"
    """Every rank by itself."""


class Engine(Frozen):
    """A container image with what it can do."""

    schema_version: Literal[1] = 1
    name: Name
    title: str
    caveat: str = ""
    """A warning for readers of a report with figures of this engine. The report shows it above the figures."""
    image: Image
    digest: Digest | None = None
    """Digest of `image`. None if not known."""
    tools_image: Image | None = None
    """Image of the containers that run the bundle without the engine (staging, smoke, benchmark, the first and the last
    of the compile Job): CPython 3.11 on x86_64, which the bundle's libraries are compiled for, a shell and boto3.
    None: `image` has it."""
    tools_digest: Digest | None = None
    """Digest of `tools_image`. None if not known."""
    dialect: Dialect
    methods: dict[Method, MethodSupport]
    refused: dict[Method, str]
    """Why the engine cannot do a method, for each method that it lacks."""
    most_tokens_per_step: MostTokens
    """`k+1` if a step verifies all k drafts, `k` if it verifies k - 1 of them."""
    prompt_logprobs: bool = False
    """Tells what its model would write in place of a text (`prompt_logprobs`, vLLM's own): arms that read need it."""
    k_by_batch_size: bool = False
    """Takes `num_speculative_tokens_per_batch_size` in `--speculative-config`: vLLM from 0.25 on, and no engine that is
    compiled for one k."""
    greedy_only: bool
    """Only temperature 0 can be judged with speculation."""
    greedy_because: str = "its speculation is greedy at any temperature, and the baseline's decoding is not"
    """Why, for the message to whoever sets another temperature."""
    quantizations: tuple[Quantization, ...] = ("bf16",)
    model_families: tuple[Name, ...]
    families: dict[Name, FamilySupport] = Field(default_factory=dict)
    """Extra settings that some families of `model_families` need."""
    neuron_config: dict[str, Any] = Field(default_factory=dict)
    """Neuron configuration of every arm, so that all compile alike. The experiment's own values win."""
    defaults: Defaults = Defaults()
    support: Support | None = None
    """None if no end is announced."""
    runtime: NeuronRuntime
    serve_args: tuple[str, ...] = ()
    """Further arguments of `vllm serve`, of those in `settable_args`; `{max_num_seqs}` stands for that figure."""
    env: dict[EnvName, str] = Field(default_factory=dict)
    settable_env: tuple[settable.Variable, ...] = ()
    """Variables that an experiment may set."""
    settable_args: dict[settable.Flag, settable.Takes] = Field(default_factory=dict)
    """Arguments that an experiment may add, and what follows each: `alone`, `number` or one of a list of words."""
    settable_config: tuple[settable.ConfigKey, ...] = ()
    """Keys of `neuron_config` that an experiment may set, at any depth."""
    runtime_env: tuple[EnvName, ...] = ()
    """Variables that change how a server runs and not what is compiled: left out of the fingerprint."""
    reads: Reads = Reads.ONE
    """Decides whether a server's files are copied to the node's own disks first."""
    artifact: Artifact | None = Artifact()
    """None: nothing is compiled. A server starts from the weights alone."""
    probes: Probes
    resources: PodResources
    """Resources of pods on a trn2.48xlarge."""
    resources_on: dict[str, PodResources] = Field(default_factory=dict)
    """Resources of pods on other shapes of nodes, by the shape's name."""
    metrics: Metrics
    estimates: Estimates
    inferred: dict[str, str] = Field(default_factory=dict)
    """What of this file nobody has read in the image's own source -> where it comes from instead."""
    source: str

    def on_node(self, node: str, devices: int) -> Engine:
        """The engine with its pods' sizes on a node of that shape, for servers with so many devices."""
        sizes = self.resources_on.get(node, self.resources)
        if (each := sizes.serving.cpu_per_device) and devices:
            serving = sizes.serving.model_copy(update={"cpu": min(sizes.serving.cpu, each * devices)})
            sizes = sizes.model_copy(update={"serving": serving})
        return self.model_copy(update={"resources": sizes})

    @property
    def on_neuron(self) -> bool:
        """Whether it opens Neuron devices."""
        return self.runtime.version != "none"

    @property
    def safetensors_alone(self) -> bool:
        """Whether it reads weights in safetensors and in no other format: the native plugin reads slices of tensors
        (aws-neuron-sdk 81ce03a, vllm-neuron/docs/design/framework/checkpoint_loading.md); NxD Inference reads
        pytorch_model.bin too (its modules/checkpoint.py).
        """
        return self.dialect is Dialect.NATIVE_PLUGIN

    @property
    def reference(self) -> str:
        """`image` as pods name it: with its digest if that is known."""
        return _reference(self.image, self.digest)

    @property
    def tools_reference(self) -> str:
        """The image of the containers that run the bundle without the engine."""
        return _reference(self.tools_image, self.tools_digest) if self.tools_image else self.reference

    @model_validator(mode="after")
    def _contradicts_nothing(self) -> Self:
        if problems := "; ".join(self._contradictions()):
            raise ValueError(problems)
        return self

    def _contradictions(self) -> Iterator[str]:
        if self.tools_digest and not self.tools_image:
            yield "tools_digest is of tools_image, which is not given"
        yield from (f"{name} {why}" for name in (*self.env, *self.settable_env) if (why := settable.why_foreign(name)))
        yield from (f"{one} {why}" for one in self.settable_args if (why := settable.why_foreign_argument(one)))
        yield from (f"{one} {why}" for one in self.settable_config if (why := settable.why_foreign_key(one)))
        words = [word.format(max_num_seqs=1) for word in self.serve_args]
        yield from settable.argument_problems(words, self.settable_args)
        if self.metrics.trusted and self.most_tokens_per_step is MostTokens.K:
            yield (
                "metrics.trusted is true and most_tokens_per_step is k: no engine that verifies k - 1 drafts is known "
                "to count them; write trusted: false"
            )
        both = set(self.methods) & set(self.refused)
        neither = set(Method) - set(self.methods) - set(self.refused)
        if both or neither:
            listed = f"in both {sorted(both)}, in neither {sorted(neither)}"
            yield f"a method belongs in `methods` or in `refused`; {listed}"
        if any((self.artifact is None) != (r.compile is None) for r in (self.resources, *self.resources_on.values())):
            yield "`artifact: null` and a missing `resources.compile` go together: nothing is compiled"


def _reference(image: str, digest: str | None) -> str:
    return f"{image}@{digest}" if digest else image
