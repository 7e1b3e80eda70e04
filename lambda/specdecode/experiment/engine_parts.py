"""The parts of an engine's file: what it supports, runtime, artifact, probes, counters and pods; how long things take.

How it compiles without Neuron devices: ADR 178.
"""

import math
from datetime import date
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from specdecode.experiment.base import EnvName, Frozen, Name


class Resources(Frozen):
    """Requests of one pod: CPUs, and GiB of memory and local disk beyond what the weights need."""

    cpu: float = Field(gt=0)
    cpu_per_device: float | None = Field(default=None, gt=0)
    """CPUs for each Neuron device of a server, `cpu` at most. None: `cpu`, whatever the devices."""
    cpu_limit: float | None = None
    memory_gib: float = Field(gt=0)
    ephemeral_gib: float = Field(gt=0)
    memory_per_weight: float = Field(default=0, ge=0)
    """GiB of memory for each GiB of weights (target and draft)."""
    ephemeral_per_weight: float = Field(default=0, ge=0)

    def memory_request_gib(self, weights_gib: float) -> int:
        """Memory request of a pod with so many GiB of weights, in whole GiB."""
        return math.ceil(self.memory_gib + self.memory_per_weight * weights_gib)

    def ephemeral_request_gib(self, weights_gib: float) -> int:
        """Local disk request of a pod with so many GiB of weights, in whole GiB."""
        return math.ceil(self.ephemeral_gib + self.ephemeral_per_weight * weights_gib)


class PodResources(Frozen):
    serving: Resources
    compile: Resources | None = None
    """None if nothing is compiled."""
    benchmark: Resources
    staging: Resources


Quantization = Literal["bf16", "fp8"]


class MethodSupport(Frozen):
    """How an engine does one method of speculation."""

    vllm_method: str
    """`method` in `--speculative-config`."""
    families: tuple[Name, ...] | None = None
    """Families of targets whose model code takes the method; None: every family that the engine serves."""
    tokens: tuple[int, ...] | None = None
    """The k of the known heads: a head drafts the block that it was trained for, and takes no other k. Kept
    with the engine, since heads of the hub say it in no file that is read here. None: heads take any."""
    neuron_config: dict[str, Any] = Field(default_factory=dict)
    """Neuron configuration that an arm with the method needs."""
    needs_args: tuple[str, ...] = ()
    """Arguments of `vllm serve` without which it does not start; the experiment says them, for both arms."""
    note: str = ""


class FamilySupport(Frozen):
    """What one family of models needs of an engine, in every arm."""

    neuron_config: dict[str, Any] = Field(default_factory=dict)
    hf_overrides: dict[str, Any] = Field(default_factory=dict)
    """`--hf-overrides`, which no experiment sets."""
    quantizations: tuple[Quantization, ...] | None = None
    """None: the engine's own."""
    loaded_per_stored: float = Field(default=1, gt=0)
    """GiB in device memory for each GiB of the checkpoint, which a loader may unpack."""


class Defaults(Frozen):
    """What an engine uses if an experiment sets nothing: keys of its Neuron configuration, and flags
    (`--async-scheduling`). Only what decides speed and is not the same in both kinds of arm, or what a preset says
    aloud.
    """

    plain: dict[str, Any] = Field(default_factory=dict)
    speculating: dict[str, Any] = Field(default_factory=dict)
    forced: tuple[str, ...] = ()
    """Settings that speculation changes, whatever the experiment sets."""
    source: str = ""


class Support(Frozen):
    """The announced end of support of the engine's library."""

    ends: str
    """The first release without support."""
    announced: date
    ended: date | None = None
    """Date of that release. None if it is still to come."""
    successor: Name
    """Engine to move to."""
    loses: str = ""
    """What the successor does not have."""
    source: str

    def sentence(self, engine: str) -> str:
        """The warning, with its date and the engine to move to."""
        when = f"ended on {self.ended} with" if self.ended else "ends with the coming"
        loses = f" ({self.loses})" if self.loses else ""
        return (
            f"{engine}: support {when} {self.ends} (announced on {self.announced}); move to {self.successor}{loses}: "
            "docs/how-to/move-to-the-native-plugin.md"
        )


AmiVersion = Annotated[str, StringConstraints(pattern=r"^v20\d{6}$")]
"""Release of the EKS AMI, as in the alias `al2023@v20260625`; sorts as text."""


class NeuronRuntime(Frozen):
    """The Neuron runtime in the image, and the node images with a driver that it accepts."""

    version: str
    newest_driver: str
    """For people: the driver versions it works with."""
    driver_minors: tuple[int, int | None] | None = None
    """Minor versions of driver 2.x: the oldest that it takes, and the first that it does not (None: all that follow).
    None as a whole: pods do not compare."""
    oldest_ami: AmiVersion
    newest_ami: AmiVersion | None = None
    refused_amis: tuple[AmiVersion, ...] = ()
    source: str

    @property
    def amis(self) -> str:
        """The releases of the EKS AMI that it runs on, in words."""
        upper = f"to {self.newest_ami}" if self.newest_ami else "or later"
        others = f", but not {' or '.join(self.refused_amis)}" if self.refused_amis else ""
        return f"{self.oldest_ami} {upper}{others}"

    def takes_ami(self, ami: str) -> bool:
        is_within = self.oldest_ami <= ami and (self.newest_ami is None or ami <= self.newest_ami)
        return is_within and ami not in self.refused_amis

    def takes_driver(self, driver: str) -> bool:
        """Whether it takes a driver of this version. Also if nobody knows: the version may be of another form."""
        major, _, rest = driver.partition(".")
        minor = rest.partition(".")[0]
        if self.driver_minors is None or major != "2" or not minor.isdigit():
            return True
        first, too_new = self.driver_minors
        return first <= int(minor) and (too_new is None or int(minor) < too_new)


class CpuCompile(Frozen):
    """How an engine compiles on a node without Neuron devices."""

    env: dict[EnvName, str]
    """Environment variables of the server that compiles there."""
    speculation: bool
    """Whether the engine compiles arms with speculation there too."""
    neuron_config: dict[str, Any] = Field(default_factory=dict)
    """Keys that an arm's Neuron configuration must have for it."""
    leaves: tuple[str, ...] = ()
    """Files of the artifact (`{last_rank}`: number of the last one) that are there once all is compiled. A server that
    then ends because it has no device to load them on has done its work. None: it must become healthy or end with 0."""
    slower: float = Field(default=1, ge=1)
    """How much longer it may take than the engine's estimates, which are of a trn2.48xlarge's 192 vCPUs."""
    resources: Resources
    source: str


class Artifact(Frozen):
    """The compiled artifact of an arm, and how its server finds it."""

    variable: EnvName = "NEURON_COMPILED_ARTIFACTS"
    copied: bool = False
    """Whether the artifact must be writable. It is then copied to local disk before serving, even if that is slower."""
    serve_env: dict[EnvName, str] = Field(default_factory=dict)
    """Variables of servers that serve the artifact, and not of the one that makes it. They forbid to compile."""
    on_cpu: CpuCompile | None = None
    """How it is compiled on a node without devices. None if no source says that the engine can."""


class Probe(Frozen):
    """HTTP probe of /health."""

    initial_delay_s: int = Field(default=0, ge=0)
    period_s: int = Field(ge=1)
    timeout_s: int = Field(ge=1)
    failures: int = Field(default=3, ge=1)


class Probes(Frozen):
    """Startup has no number of failures: the experiment's deadline of serving limits it."""

    startup: Probe
    readiness: Probe
    liveness: Probe


class Metrics(Frozen):
    """Names of the counters in /metrics, and whether they can be trusted."""

    trusted: bool
    drafts: str | None = None
    draft_tokens: str | None = None
    accepted_tokens: str | None = None
    accepted_per_position: str | None = None
    per_request: str | None = None
    """Arguments of speculating arms that make answers say how many drafts were accepted. None: there are none."""
    note: str = ""


class Estimates(Frozen):
    """Ranges (low, high) from which the plan's node-hours come."""

    compile_minutes: tuple[float, float] = (0, 0)
    """For one artifact of any size."""
    compile_minutes_per_gib: tuple[float, float] = (0, 0)
    """More for each GiB of weights."""
    load_minutes: tuple[float, float]
    load_minutes_per_gib: tuple[float, float]
    seconds_per_output_token: tuple[float, float]
    seconds_per_1000_input_tokens: tuple[float, float]
    source: str
